"""The tidy frame: nothing lost, nothing merged that is not the same."""

import json
import math
import subprocess
import sys
from pathlib import Path

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


def test_a_sweep_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no sweep 'made'.*there is none yet: python -m harness sweep"):
        load.load(tmp_path, "made")
    write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, flat, seeds=1)
    with pytest.raises(FileNotFoundError, match=r"no sweep 'mad'.*there are: made"):
        load.load(tmp_path, "mad")


def test_importing_analysis_costs_nothing() -> None:
    modules = "load, smooth, stats, verdict, claims, tables, style, text, plot_curves, plot_effects, figures, report"
    heavy = "{'torch', 'pandas', 'matplotlib', 'scipy', 'numpy', 'harness.core', 'harness.sweep'}"
    code = f"from analysis import {modules}; import sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
