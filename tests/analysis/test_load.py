"""The tidy frames: nothing lost, nothing merged that is not the same."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from analysis import load
from harness import store
from tests.analysis.conftest import change_manifest, write_sweep


def flat(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
    return {"eval/accuracy": 0.5, "policy/entropy": 0.3}


def test_one_row_per_run_step_and_metric(tmp_path: Path) -> None:
    sweep = load.load(write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, flat, seeds=2, steps=20), "made")
    assert list(sweep.frame) == ["arm", "run", "seed", "state", "step", "metric", "value"]
    assert len(sweep.frame) == 4 * (20 + 3)  # entropy on steps 0 … 19, accuracy on 0, 10, 20
    assert sweep.missing == [] and sweep.progress() == "4 of 4 runs done"
    only = load.load(tmp_path, "made", {"eval/accuracy"}).frame
    assert set(only["metric"]) == {"eval/accuracy"} and len(only) == 12
    assert only.groupby("arm", observed=True)["seed"].unique().map(list).to_dict() == {"a": [0, 1], "b": [0, 1]}


def test_null_is_nan(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, lambda *_: {"length/correct": math.nan}, seeds=1)
    run = store.Run(next((root / "runs").iterdir()))
    run.attempt_file("metrics", 0).write_text('{"step": 0, "m": {"length/correct": null}}\n')
    assert load.load(root, "made").frame["value"].isna().tolist() == [True]


def test_a_replayed_attempt_is_cut_and_a_torn_line_skipped(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, flat, seeds=1)
    before = load.load(root, "made").frame
    run = store.Run(next((root / "runs").iterdir()))
    replay = [json.dumps(record) for record in run.read("metrics") if record["step"] >= 40]
    run.attempt_file("metrics", 1).write_text("\n".join(replay) + '\n{"step": 61, "m": {"eval/acc')
    assert load.load(root, "made").frame.equals(before)


def test_every_run_that_is_not_done_is_listed_with_its_state(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, flat, seeds=3)
    runs = [store.Run(path) for path in sorted((root / "runs").iterdir())]
    runs[0].write_status("failed")
    runs[1].write_status("diverged")
    runs[2].write_status("running")  # without a claim: its worker died
    (runs[3].path / "status.json").unlink()
    sweep = load.load(root, "made")
    assert [entry.state for entry in sweep.missing] == ["failed", "diverged", "stale", "new"]
    assert sweep.progress() == "2 of 6 runs done; 1 failed, 1 diverged, 1 stale, 1 new"


def test_included_cells_and_absent_axes_are_no_replicates(tmp_path: Path) -> None:
    axes = {"recipe": ["clip", "reinforce"], "high": ["0.20", "0.28"]}
    root = write_sweep(tmp_path, axes, {"high": "0.20"}, flat, seeds=1)
    manifest = json.loads((root / "sweeps/made/manifest.json").read_text())
    runs = manifest["runs"]
    runs[2]["labels"] = {"recipe": "reinforce"}  # an axis with `when`
    runs[3]["labels"] = {"recipe": "clip", "high": "0.20", "train.lr": "0.01"}  # an included cell
    sweep = load.load(change_manifest(root, runs=runs), "made")
    assert sweep.axes == {**axes, "high": ["0.20", "0.28", "-"], "train.lr": ["0.01", "-"]}
    strata = sweep.strata("high")
    assert len(strata) == 3
    assert len(sweep.having({"recipe": "clip", "train.lr": "-", "high": "0.20"})) == 1


def test_an_axis_that_does_not_reach_a_run_leaves_it_at_the_baseline(tmp_path: Path) -> None:
    axes = {"recipe": ["vanilla", "grpo"], "weight": ["token_mean", "sequence_mean"]}
    root = write_sweep(tmp_path, axes, {"recipe": "vanilla", "weight": "token_mean"}, flat, seeds=1)
    runs = json.loads((root / "sweeps/made/manifest.json").read_text())["runs"][:3]
    runs[1]["labels"], runs[2]["labels"] = {"recipe": "vanilla", "weight": "sequence_mean"}, {"recipe": "grpo"}
    sweep = load.load(change_manifest(root, runs=runs), "made")
    assert sweep.strata("recipe") == [{"weight": "token_mean"}, {"weight": "sequence_mean"}]
    assert [e.run for e in sweep.having({"recipe": "grpo", "weight": "token_mean"})] == [runs[2]["run"]]
    assert sweep.having({"recipe": "grpo", "weight": "sequence_mean"}) == []
    assert sweep.runs[2].labels["weight"] == "-"  # though it is not said of the run


def test_a_run_stands_under_each_of_its_labels_and_counts_once(tmp_path: Path) -> None:
    axes = {"recipe": ["vanilla", "grpo"], "weight": ["token_mean", "sequence_mean"]}
    root = write_sweep(tmp_path, axes, {"recipe": "vanilla", "weight": "token_mean"}, flat, seeds=2)
    runs = json.loads((root / "sweeps/made/manifest.json").read_text())["runs"][:4]
    grpo = [run | {"labels": {"recipe": "grpo"}} for run in runs[2:]]
    also = [{"cell": grpo[0]["cell"], "labels": {"recipe": "vanilla", "weight": "sequence_mean"}}]
    sweep = load.load(change_manifest(root, runs=runs[:2] + grpo, aliases=also), "made")
    assert len(sweep.runs) == 4 and sweep.progress() == "4 of 4 runs done" and sweep.frame["run"].nunique() == 4
    by_weight = sweep.having({"recipe": "vanilla", "weight": "sequence_mean"})
    assert [e.run for e in by_weight] == [run["run"] for run in grpo] and [e.seed for e in by_weight] == [0, 1]
    assert sweep.having({"recipe": "grpo"}) == [e for e in sweep.runs if e.labels["recipe"] == "grpo"]


def test_what_is_held_or_absent_is_not_shown(tmp_path: Path) -> None:
    axes = {"model": ["small", "large"], "clip": ["0.20", "0.28"], "keep": ["all", "some"]}
    sweep = load.load(write_sweep(tmp_path, axes, {"clip": "0.20", "keep": "all"}, flat, seeds=1), "made")
    assert sweep.shown({"model": "small", "clip": "0.20", "keep": "some"}) == {"model": "small", "keep": "some"}
    assert sweep.shown({"model": "small", "clip": "-", "keep": "all"}) == {"model": "small"}


def test_controls_are_some_axes_or_all(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"a": ["1", "2"], "b": ["1"]}, {"a": "1"}, flat, seeds=1)
    said = {False: set(), True: {"a", "b"}}
    assert {value: load.load(change_manifest(root, control=value), "made").controls for value in said} == said
    assert load.load(change_manifest(root, control=["b"]), "made").controls == {"b"}


def test_a_sweep_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no sweep 'made'.*there is none yet: python -m harness sweep"):
        load.load(tmp_path, "made")
    write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, flat, seeds=1)
    with pytest.raises(FileNotFoundError, match=r"no sweep 'mad'.*there are: made"):
        load.load(tmp_path, "mad")


def curves(root: Path, *attempts: str, run: str = "r0") -> list[tuple[int, str, float]]:
    """(step, metric, value) of one run that consists of these attempts' texts."""
    make(root, {run: list(attempts)})
    frame = load.load(root, "made").frame
    return list(zip(frame["step"].tolist(), frame["metric"].tolist(), frame["value"].tolist(), strict=True))


def make(root: Path, runs: dict[str, list[str]], kind: str = "metrics") -> Path:
    """A sweep of these runs with the attempts' texts as given, in the order given."""
    planned = []
    for seed, (name, attempts) in enumerate(runs.items()):
        run = store.Run(root / "runs" / name)
        (run.path / kind).mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(attempts):
            run.attempt_file(kind, number).write_text(text)
        run.write_status("done")
        planned.append({"run": name, "seed": seed, "labels": {"arm": "a"}})
    manifest = {"axes": {"arm": ["a"]}, "baseline": {"arm": "a"}, "runs": planned}
    (root / "sweeps/made").mkdir(parents=True, exist_ok=True)
    store.write_atomic(root / "sweeps/made/manifest.json", json.dumps(manifest))
    return root


def test_what_json_lines_can_hold(tmp_path: Path) -> None:
    found = curves(
        tmp_path,
        '{"m":{"a":1,"b":null},"step":0}\n'
        '{"m":{"a":0.123456789},"step":1}\n'
        '{"m":{"b":NaN,"c":true},"step":2}\n'
        '{"m":{"a":-Infinity,"step":7},"step":3}\n'
        '{"m":{},"step":4}\n',
    )
    nan = math.nan
    expected = [(0, "a", 1.0), (0, "b", nan), (1, "a", 0.123456789), (2, "b", nan), (2, "c", 1.0)]
    assert repr(found) == repr([*expected, (3, "a", -math.inf), (3, "step", 7.0)])


@pytest.mark.parametrize(
    "text",
    [
        '{"m":{"a":1.5,"b":null},"step":0}\n{"m":{"a":2},"step":1}\n{"m":{"a":3.',  # torn
        '{"step": 0, "m": {"a": 1.5, "b": null}}\n{"step": 1, "m": {"a": 2}}\n',  # spaces
        '{"m":{"b":null,"a":1.5},"step":0}\n{"m":{"a":2},"step":1,"note":null}\n',  # order, more keys
    ],
)
def test_odd_files_read_the_same(tmp_path: Path, text: str) -> None:
    assert repr(curves(tmp_path, text)) == "[(0, 'a', 1.5), (0, 'b', nan), (1, 'a', 2.0)]"


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a000.jsonl:2: not a line of JSON"):
        curves(tmp_path, '{"m":{"a":1},"step":0}\n\n{"m":{"a":2},"step":1}\n')
    with pytest.raises(ValueError, match=r"a000.jsonl:1: not a line of JSON"):
        curves(tmp_path, '{"m":{"a":1},"step":0}{"m":{"a":2},"step":1}\n{"m":{"a":2},"step":2}\n')


def test_later_attempts_cut_from_their_first_step(tmp_path: Path) -> None:
    def lines(value: float, *steps: int) -> str:
        return "".join(f'{{"m":{{"a":{value + step}}},"step":{step}}}\n' for step in steps)

    gone = '{"m":{"a":9,"lost":1},"step":3}\n'  # with a metric that only a repeated step had
    attempts = [lines(0, 0, 1, 2) + gone, "", lines(10, 3, 4), lines(20, 2)]
    assert curves(tmp_path, *attempts) == [(0, "a", 0.0), (1, "a", 1.0), (2, "a", 22.0)]
    assert list(load.load(tmp_path, "made").frame["metric"].cat.categories) == ["a"]


EVAL = '{"benchmark":"%s","correct":%s,"length":[[3]],"mode":"%s","step":%d,"truncated":[[0]]}\n'


def test_one_row_per_graded_answer(tmp_path: Path) -> None:
    first = EVAL % ("hard", "[[0,1],[1,1],[0,0]]", "sample", 0) + EVAL % ("easy", "[[1]]", "greedy", 0)
    lost = EVAL % ("hard", "[[1,1]]", "sample", 10)
    again = EVAL % ("hard", "[[0,1]]", "sample", 10)
    make(tmp_path, {"r0": [first + lost, again], "r1": [], "r2": [EVAL % ("easy", "[[1]]", "greedy", 5)]}, "evals")
    store.Run(tmp_path / "runs/r2").write_status("diverged")
    frame = load.load_evals(tmp_path, "made")
    names = ["arm", "run", "seed", "state", "step", "benchmark", "mode", "question", "sample", "right"]
    assert list(frame) == names and frame["right"].dtype == np.bool_
    assert frame.drop(columns=["arm", "state"]).to_numpy().tolist() == [
        ["r0", 0, 0, "hard", "sample", 0, 0, False],
        ["r0", 0, 0, "hard", "sample", 0, 1, True],
        ["r0", 0, 0, "hard", "sample", 1, 0, True],
        ["r0", 0, 0, "hard", "sample", 1, 1, True],
        ["r0", 0, 0, "hard", "sample", 2, 0, False],
        ["r0", 0, 0, "hard", "sample", 2, 1, False],
        ["r0", 0, 0, "easy", "greedy", 0, 0, True],
        ["r0", 0, 10, "hard", "sample", 0, 0, False],
        ["r0", 0, 10, "hard", "sample", 0, 1, True],
        ["r2", 2, 5, "easy", "greedy", 0, 0, True],
    ]
    assert frame["state"].tolist() == ["done"] * 9 + ["diverged"]
    assert [entry.state for entry in load.load(tmp_path, "made").missing] == ["diverged"]


def test_a_sweep_without_runs_has_an_empty_frame(tmp_path: Path) -> None:
    sweep = load.load(make(tmp_path, {}), "made")
    assert len(sweep.frame) == 0 and list(sweep.frame)[-3:] == ["step", "metric", "value"]


def test_a_sweep_without_evaluations_has_an_empty_frame(tmp_path: Path) -> None:
    frame = load.load_evals(make(tmp_path, {"r0": [], "r1": []}), "made")
    assert len(frame) == 0 and frame["right"].dtype == np.bool_ and list(frame)[-3:] == ["question", "sample", "right"]


def test_importing_analysis_costs_nothing() -> None:
    modules = "load, cache, records, smooth, stats, verdict, claims, tables, style, text"
    modules += ", plot_curves, plot_effects, figures, report"
    heavy = "{'torch', 'pandas', 'matplotlib', 'scipy', 'numpy', 'harness.core', 'harness.sweep'}"
    code = f"from analysis import {modules}; import sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
