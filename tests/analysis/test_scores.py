"""How numbers are read off curves and pairs of curves, on curves small enough for hand computation."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from analysis import load, scores
from analysis.load import Entry
from harness import store
from tests.analysis.conftest import change_manifest, write_sweep

SHORT = pd.Series([0.1, 0.2, 0.4], index=[0.0, 100.0, 200.0])
LONG = pd.Series([0.1, 0.5, 0.7], index=[0.0, 150.0, 450.0])


def test_equal_tokens_by_hand() -> None:
    # the last two of the shorter, at 100 and 200; the longer there: .1 + ⅔ · .4, .5 + ⅙ · .2
    expected = (0.3, (0.1 + 0.8 / 3 + 0.5 + 0.1 / 3) / 2)
    assert scores.equal_tokens(SHORT, LONG, 2) == pytest.approx(expected)
    assert scores.equal_tokens(LONG, SHORT, 2) == pytest.approx(expected[::-1])
    assert scores.equal_tokens(LONG, LONG, 2) == pytest.approx((0.6, 0.6))


def test_equal_tokens_extrapolate_nothing() -> None:
    assert all(map(math.isnan, scores.equal_tokens(SHORT, LONG, 4)))
    ours, theirs = scores.equal_tokens(SHORT, LONG.iloc[1:], 2)  # it begins at 150, after the shorter's 100
    assert ours == pytest.approx(0.3) and math.isnan(theirs)


def sweep_of(root: Path, steps: int = 20) -> load.Sweep:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.01 * step, "count/tokens_generated": 10.0 + step}

    return load.load(write_sweep(root, {"arm": ["a"]}, {"arm": "a"}, curve, seeds=1, steps=steps), "made")


def test_tokens_are_those_of_the_steps_before_an_evaluation(tmp_path: Path) -> None:
    (curve,) = scores.by_tokens(sweep_of(tmp_path), "eval/accuracy").values()
    # before step 10: 10 + … + 19 = 145; before step 20: 10 + … + 29 = 390
    assert curve.to_dict() == pytest.approx({0.0: 0.0, 145.0: 0.1, 390.0: 0.2})


def test_a_run_whose_tokens_are_not_all_recorded_is_left_out(tmp_path: Path) -> None:
    sweep_of(tmp_path)
    run = store.Run(next((tmp_path / "runs").iterdir()))
    file = run.attempt_file("metrics", 0)
    file.write_text("".join(line + "\n" for line in file.read_text().splitlines() if '"step": 3,' not in line))
    assert scores.by_tokens(load.load(tmp_path, "made"), "eval/accuracy") == {}


def test_only_finished_runs_have_a_number(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path)
    assert list(scores.run_scores(sweep, "eval/accuracy", scores.reader(sweep, "last")).values()) == [
        pytest.approx(0.15)
    ]
    store.Run(next((tmp_path / "runs").iterdir())).write_status("running")
    assert scores.run_scores(load.load(tmp_path, "made"), "eval/accuracy", scores.reader(sweep, "last")) == {}


def entries(arm: str, seeds: int) -> list[Entry]:
    return [Entry(f"{arm}{seed}", seed, "done", {}) for seed in range(seeds)]


def test_pairs_are_of_one_seed_and_need_both_numbers() -> None:
    known = {"a0": 0.5, "a1": 0.6, "a2": 0.7, "b0": 0.4, "b1": math.nan, "b2": 0.5}
    pair = scores.pair(known, entries("a", 4), entries("b", 3))
    assert pair.differences == pytest.approx([0.1, 0.2])
    assert (pair.arm_mean, pair.baseline_mean, pair.missing) == (pytest.approx(0.6), pytest.approx(0.45), 1)


def test_relative_differences_by_hand() -> None:
    known = {"a0": 30.0, "a1": 10.0, "a2": 5.0, "b0": 20.0, "b1": 20.0, "b2": 0.0}
    assert scores.relative(known, entries("a", 3), entries("b", 3)) == pytest.approx((0.5 - 0.5) / 2)
    assert scores.relative(known, entries("a", 1), entries("b", 1)) == 0.5
    assert math.isnan(scores.relative(known, entries("a", 1), entries("c", 1)))


def test_a_single_run_is_not_read_at_equal_tokens(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no reading 'tokens' of a single run \(there are: last, area\)"):
        scores.reader(sweep_of(tmp_path), "tokens")


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"lr": ["1", "2", "3"]}, {"lr": "1"}, lambda *_: {"eval/accuracy": 0.5}, seeds=2)
    runs = json.loads((root / "sweeps/made/manifest.json").read_text())["runs"][:4]
    twin = [{"cell": runs[0]["cell"], "labels": {"lr": "3"}}]  # elsewhere in the spec lr 3 is undone
    sweep = load.load(change_manifest(root, runs=runs, aliases=twin), "made")
    assert [side.arm for side in scores.sides(sweep, "lr")] == ["2"]
