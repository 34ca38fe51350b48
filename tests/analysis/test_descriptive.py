"""Descriptive aggregates against scipy and hand numbers, and what their bootstrap draws."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, trim_mean

from analysis import descriptive, load
from tests.analysis.conftest import write_sweep


def test_iqm_by_hand_and_scipy() -> None:
    # sorted 0 1 2 3 4 5 6 100: the middle four are 2 3 4 5
    values = np.array([[0.0, 5.0, 2.0, 100.0], [4.0, 1.0, 6.0, 3.0]])
    assert descriptive.iqm(values) == 3.5
    uneven = np.random.default_rng(0).normal(size=(5, 6))
    assert descriptive.iqm(uneven) == pytest.approx(trim_mean(uneven.ravel(), 0.25))
    assert descriptive.iqm(uneven) == pytest.approx(np.sort(uneven.ravel())[7:23].mean())  # 30 · ¼, rounded down


def test_optimality_gap_by_hand() -> None:
    # missing .25, .5, 0 and, beyond the target, 0
    assert descriptive.optimality_gap(np.array([[0.75, 0.5], [1.0, 1.5]])) == pytest.approx(0.75 / 4)
    assert descriptive.optimality_gap(np.array([[0.75, 0.5]]), target=0.5) == 0


def test_improvement_by_hand() -> None:
    # benchmark 1: of 3 > 2, 3 > 4, 1 > 2, 1 > 4 one holds: ¼; benchmark 2: 5 > 5 (a tie), 5 > 1, 0 > 5, 0 > 1: 1.5 / 4
    arm, baseline = np.array([[3.0, 5.0], [1.0, 0.0]]), np.array([[2.0, 5.0], [4.0, 1.0]])
    assert descriptive.improvement(arm, baseline) == pytest.approx((1 / 4 + 1.5 / 4) / 2)


def test_improvement_agrees_with_mann_and_whitney() -> None:
    rng = np.random.default_rng(1)
    arm, baseline = rng.integers(0, 6, (5, 3)).astype(float), rng.integers(0, 6, (4, 3)).astype(float)
    theirs = [mannwhitneyu(arm[:, b], baseline[:, b]).statistic / 20 for b in range(3)]
    assert descriptive.improvement(arm, baseline) == pytest.approx(np.mean(theirs))


def test_the_bootstrap_draws_whole_runs_and_the_same_seeds_of_both_arms() -> None:
    rng = np.random.default_rng(2)
    run = rng.normal(size=(6, 1))
    arm = run + np.zeros((1, 4))  # a run's scores are all alike
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def noted(ours: np.ndarray, theirs: np.ndarray) -> float:
        seen.append((ours, theirs))
        return float((ours - theirs).mean())

    found = descriptive.bootstrap(noted, arm + 0.5, arm, generator=np.random.default_rng(0), draws=50)
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))  # the seed's effect is gone
    for ours, _ in seen:
        assert (ours == ours[:, :1]).all()
    assert len({float(ours.sum()) for ours, _ in seen}) > 40


def test_the_interval_is_the_middle_of_the_draws_and_repeats() -> None:
    values = np.array([[1.0], [2.0], [4.0]])
    one, two = (
        descriptive.bootstrap(lambda x: float(x.mean()), values, generator=np.random.default_rng(3), draws=4000)
        for _ in range(2)
    )
    assert one == two
    # 27 draws: all three 1.0 (3.7 %) is more than 2.5 %, all three 4.0 likewise
    assert (one.low, one.high, one.runs) == (1.0, 4.0, 3)


def test_a_single_run_has_no_interval_and_arms_need_as_many_runs() -> None:
    lone = descriptive.bootstrap(descriptive.iqm, np.array([[0.5, 0.7]]), generator=np.random.default_rng(0))
    assert lone.value == pytest.approx(0.6) and math.isnan(lone.low)
    with pytest.raises(ValueError, match=r"as many runs each, not \[1, 2\]"):
        descriptive.bootstrap(
            descriptive.improvement, np.zeros((1, 1)), np.zeros((2, 1)), generator=np.random.default_rng(0)
        )


def test_a_sweep_is_described_by_arm_and_stratum(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        up = 0.1 * (labels["arm"] == "b") * (labels["model"] == "large")
        return {"eval/hard/accuracy": 0.2 + 0.01 * seed + up, "eval/easy/accuracy": 0.6 + up, "eval/accuracy": 0.4}

    root = write_sweep(tmp_path, {"model": ["small", "large"], "arm": ["a", "b"]}, {"arm": "a"}, curve, seeds=3)
    sweep = load.load(root, "made")
    assert descriptive.benchmarks(sweep) == ["easy", "hard"]
    table = descriptive.table(sweep, "arm", draws=200).set_index(["model", "arm", "statistic"])
    assert len(table) == 2 * (2 + 3)
    # six scores .20 .21 .22 .6 .6 .6: one is cut at either end
    assert table.loc[("small", "a", "iqm"), "value"] == pytest.approx((0.21 + 0.22 + 0.6 + 0.6) / 4)
    assert table.loc[("small", "a", "optimality_gap"), "value"] == pytest.approx((3 * 0.4 + 0.8 + 0.79 + 0.78) / 6)
    assert table.loc[("large", "b", "improvement"), ["value", "low", "high", "runs"]].tolist() == [1, 1, 1, 3]
    assert table.loc[("small", "b", "improvement"), "value"] == pytest.approx(0.5)


def test_nothing_is_described_where_no_benchmark_is_loaded(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=3)
    assert descriptive.table(load.load(root, "made"), "arm").empty
