"""What a sweep did not have to compute, from timings made by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis import clock, html, load, markdown, savings
from harness import store
from tests.analysis.conftest import change_manifest, write_sweep

# two arms of two seeds, 1800 s a run
RUNS = ("0000000000000000-s0", "0000000000000000-s1", "0000000000000001-s0", "0000000000000001-s1")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=2, steps=1)
    for run in RUNS:
        timing(root, run, {"step": 0, "seconds": {"update": 1500.0, "evaluate": 300.0}})
    return root


def timing(root: Path, run: str, *lines: dict[str, Any], attempt: int = 0) -> None:
    folder = root / "runs" / run / "timing"
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps({"time": 0.0} | line) + "\n" for line in lines)
    (folder / f"a{attempt:03d}.jsonl").write_text(text)


def said(root: Path) -> list[str]:
    return savings.said(root, load.load(root, "made"))


def test_nothing_is_said_where_nothing_was_timed_or_saved(made: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert said(made) == []
    bare = tmp_path_factory.mktemp("bare")
    root = write_sweep(bare, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=2, steps=1)
    assert said(change_manifest(root, design={"kind": "oat", "within": []})) == []


def test_first_evaluations_that_others_had_made(made: Path) -> None:
    for run in RUNS[2:]:
        lines = (
            {"step": 0, "seconds": {"update": 1800.0}, "spared": {"evaluate": 360.0, "generate": 40.0}},
            {"step": 1, "seconds": {}},
        )
        timing(made, run, *lines)
    # 720 + 80 s of 4 · 1800 + 800 s
    assert said(made) == [
        "Saved 0.22 CPU-hours, 10 % of what this would have taken: first evaluations shared by 2 runs 0.20; "
        "first rollouts shared by 2 runs 0.02."
    ]
    assert said(made)[0] in markdown.write(made, "made").read_text()
    assert f"<dt>time saved</dt><dd>{said(made)[0]}</dd>" in html.write(made, "made").read_text()
    assert savings.lines(made, load.load(made, "made"))[-1] == ""


def test_places_that_coincide_and_runs_that_another_sweep_made(made: Path) -> None:
    aliases = [{"cell": RUNS[0][:16], "labels": {"arm": "c"}}]
    for run in RUNS:
        status = store.read_json(made / "runs" / run / "status.json")
        store.write_atomic(made / "runs" / run / "status.json", json.dumps(status | {"time": float(run[-1])}))
    change_manifest(made, aliases=aliases, begun=0.5)
    # both seeds of the cell once more; the runs of seed 0 ended before, so that 3600 s are this sweep's own
    assert said(made) == [
        "Saved 2.00 CPU-hours, 67 % of what this would have taken: 2 runs of places that coincide 1.00; "
        "taken over from other sweeps, 2 runs, 1.00."
    ]


def test_starts_in_a_process_that_has_started_before(made: Path) -> None:
    load_engine = ((30.0, 70.0), (5.0, 15.0), (40.0, 80.0), (10.0, 20.0))  # two processes, two runs each
    for place, (run, (model, engine)) in enumerate(zip(RUNS, load_engine, strict=True)):
        timing(made, run, {"step": 0, "seconds": {"load": model, "engine": engine, "update": 500.0}})
        note = {"event": "begin", "attempt": 0, "host": "here", "pid": place // 2, "time": float(place)}
        (made / "runs" / run / "attempts.jsonl").write_text(json.dumps(note) + "\n")
    # first starts take 100 and 120 s, later ones 20 and 30: 2 · 110 - 50 = 170 of 2270 + 170 s
    assert said(made) == ["Saved 170 CPU-seconds, 7 % of what this would have taken: 2 starts in warm workers 170."]


def test_seeds_that_were_not_added_once_the_sweep_is_over(made: Path) -> None:
    stop = {"when": "decided", "max_seeds": 10, "step": 1, "first": 2, "round": 2}
    change_manifest(made, stop=stop | {"wanted": {RUNS[0][:16]: 2, RUNS[2][:16]: 4}})
    # (10 - 2) + (10 - 4) seeds of 1800 s
    assert said(made) == [
        "Saved 7.00 CPU-hours, 78 % of what this would have taken: 14 seeds that `stop` did not add 7.00."
    ]
    store.Run(made / "runs" / RUNS[3]).write_status("new")
    assert said(made) == []


def test_steps_that_a_pruned_run_did_not_make(made: Path) -> None:
    store.Run(made / "runs" / RUNS[3]).write_status("pruned", step=10, steps=40)
    assert said(made) == [
        "Saved 1.50 CPU-hours, 43 % of what this would have taken: steps of 1 pruned run 1.50."  # 3 · 1800 s
    ]


def test_a_run_counts_once_for_each_gpu(made: Path) -> None:
    timing(made, RUNS[0], {"step": 0, "seconds": {"update": 1800.0}, "spared": {"evaluate": 450.0}})
    runs = [run | {"group": "g"} for run in json.loads((made / "sweeps/made/manifest.json").read_text())["runs"]]
    change_manifest(made, groups={"g": {"gpus": 8}}, runs=runs)
    assert clock.spent(made, load.load(made, "made")).startswith("16.00 GPU-hours in 4 runs")
    assert said(made)[0].startswith("Saved 1.00 GPU-hours, 6 % ")


def test_what_a_design_left_out(made: Path) -> None:
    axes = {"arm": ["a", "b"], "other": ["x", "y", "z"]}
    runs = json.loads((made / "sweeps/made/manifest.json").read_text())["runs"]
    runs = [run | {"labels": run["labels"] | {"other": "x"}} for run in runs]
    change_manifest(made, axes=axes, runs=runs, design={"kind": "oat", "within": []})
    # 6 combinations, 2 of them run, two seeds: 8 runs of half an hour
    assert said(made) == ["Left out by the design (oat): 8 runs of all combinations, about 4.0 CPU-hours."]
    fraction = {"kind": "fractional", "within": ["other"], "of": 16, "runs": 8}
    sweep = load.load(change_manifest(made, design=fraction), "made")
    assert savings.not_run(sweep) == (16 - 8) * 3 * 2
    assert savings.not_run(load.load(change_manifest(made, design={"kind": "full"}), "made")) == 0
    change_manifest(made, design={"kind": "oat", "within": []}, runs=[run | {"labels": {"arm": "a"}} for run in runs])
    assert savings.not_run(load.load(made, "made")) == 0  # an axis that does not reach every run
