"""Collapse as it is defined, and its rates against statsmodels and hand-made tables."""

import math
from pathlib import Path

import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from analysis import load, rates
from harness import store
from tests.analysis.conftest import change_manifest, write_sweep


def curve_of(*values: float) -> pd.Series:
    return pd.Series(values, index=range(0, 10 * len(values), 10), dtype=float)


@pytest.mark.parametrize(
    ("values", "collapsed"),
    [
        ((0.2, 0.5, 0.8, 0.8, 0.8, 0.8), False),  # rises and stays
        ((0.2, 0.5, 0.8, 0.8, 0.4, 0.4), True),  # peak .8, end .4: lost .4 of a gain of .6
        ((0.2, 0.5, 0.8, 0.8, 0.6, 0.6), False),  # lost .2 of .6: a third
        ((0.2, 0.5, 0.8, 0.3, 0.7, 0.7), False),  # fell in between and came back
        ((0.6, 0.5, 0.4, 0.3, 0.3, 0.3), True),  # only ever fell
        ((0.60, 0.62, 0.62, 0.59, 0.59, 0.59), False),  # all of the gain and more, but 3 points: noise
        ((0.2, 0.2, 0.2, 0.9, 0.2, 0.2), True),  # levels of two: .55 at the peak, .2 at the end
        ((0.2, 0.2, 0.9, 0.2), False),  # and .55 at the end
        ((0.9,), False),
    ],
)
def test_falling_back_by_hand(values: tuple[float, ...], collapsed: bool) -> None:
    assert rates.fell_back(curve_of(*values), last=2, least=0.05) == collapsed


def test_both_limits_count_where_they_are_met() -> None:
    # peak 1, end .5: fell exactly half of the gain, which is not more than half; eighths are exact in binary
    half = curve_of(0, 1, 1, 0.5, 0.5)
    assert not rates.fell_back(half, last=2, least=0.5)
    assert rates.fell_back(half, last=2, least=0.5, lost=0.49)
    assert not rates.fell_back(half, last=2, least=0.51, lost=0.49)


def test_the_final_entropy_is_that_of_the_last_eleven_steps() -> None:
    curve = pd.Series([1.0] * 20 + [0.0] * 10 + [math.nan])
    assert rates.final(curve) == pytest.approx(1 / 11)


def made(root: Path) -> load.Sweep:
    """Arm `good` never collapses; `bad` falls back on every seed, but one has diverged; `cold` ends without entropy."""

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        late = step > 30
        fall = 0.5 * late * (labels["arm"] == "bad" and labels["model"] == "small")
        cold = labels["arm"] == "cold" and seed == 0
        return {"eval/accuracy": 0.2 + 0.01 * step - fall, "policy/entropy": 0.005 if cold else 0.3}

    axes = {"model": ["small", "large"], "arm": ["plain", "good", "bad", "cold"]}
    write_sweep(root, axes, {"arm": "plain"}, curve, seeds=4)
    runs = {(e.labels["model"], e.labels["arm"], e.seed): e.run for e in load.load(root, "made").runs}
    store.Run(root / "runs" / runs["small", "bad", 3]).write_status("diverged")
    store.Run(root / "runs" / runs["small", "plain", 3]).write_status("failed")
    return load.load(root, "made")


def test_rates_count_what_ended_and_say_why(tmp_path: Path) -> None:
    found = {(r.stratum["model"] if r.stratum else "all", r.arm): r for r in rates.rates(made(tmp_path), "arm")}
    bad = found["small", "bad"]
    assert (bad.ours.collapsed, bad.ours.runs, bad.ours.reasons) == (4, 4, {"fell back": 3, "diverged": 1})
    assert (bad.theirs.collapsed, bad.theirs.runs) == (0, 3)  # the failed run has no end
    assert found["small", "cold"].ours.reasons == {"froze": 1}
    assert found["large", "bad"].ours.collapsed == 0
    assert (found["all", "bad"].ours.collapsed, found["all", "bad"].ours.runs, found["all", "bad"].theirs.runs) == (
        4,
        8,
        7,
    )


def test_intervals_and_p_values_by_hand_and_statsmodels(tmp_path: Path) -> None:
    found = {(r.stratum["model"] if r.stratum else "all", r.arm): r for r in rates.rates(made(tmp_path), "arm")}
    bad = found["small", "bad"]
    # of 7 runs 4 collapsed, all of them on one side: 1 / C(7, 4)
    assert bad.p == pytest.approx(1 / 35)
    assert bad.p_holm == pytest.approx(6 / 35)  # the smallest of six
    # 4 of 8 against 0 of 7: C(8, 4) of the C(15, 4) ways to place them; 0 of 8 against 4 of 7, C(7, 4), is rarer still
    assert found["all", "bad"].p == pytest.approx(105 / 1365)
    assert found["all", "bad"].p_holm == pytest.approx(3 * 105 / 1365)
    for side in (bad.ours, bad.theirs, found["all", "cold"].ours):
        wilson = proportion_confint(side.collapsed, side.runs, method="wilson")
        assert (side.low, side.high) == pytest.approx(wilson, abs=1e-9)


def test_one_stratum_is_not_pooled_with_itself(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=3)
    (only,) = rates.rates(load.load(root, "made"), "arm")
    assert (only.stratum, only.p, only.p_holm) == ({}, 1.0, 1.0)


def test_runs_that_have_not_ended_give_no_rate(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=1)
    for entry in load.load(root, "made").runs:
        store.Run(root / "runs" / entry.run).write_status("running")
    (only,) = rates.rates(load.load(root, "made"), "arm")
    assert only.ours.runs == 0 and math.isnan(only.ours.share) and math.isnan(only.p) and math.isnan(only.p_holm)


def test_a_goal_of_min_turns_the_fall_round(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.9 - 0.01 * step * (labels["arm"] == "b")}

    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, curve, seeds=1)
    assert set(rates.ends(load.load(root, "made")).values()) == {"held", "fell back"}
    change_manifest(root, endpoint={"metric": "eval/accuracy", "last": 2, "goal": "min", "margin": 0.01})
    assert set(rates.ends(load.load(root, "made")).values()) == {"held"}


def test_the_rule_states_the_sweeps_numbers(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=1)
    said = rates.rule(load.load(root, "made"))
    assert "last 2 evaluations lies 0.05 or more below the best 2 in a row" in said and "50%" in said


def test_arms_stand_in_the_order_of_their_axis(tmp_path: Path) -> None:
    # the first model has the last arm only
    def planned(labels: dict[str, str]) -> bool:
        return labels["model"] == "b" or labels["clip"] != "0.24"

    axes = {"model": ["a", "b"], "clip": ["0.20", "0.24", "0.28"]}
    root = write_sweep(tmp_path, axes, {"clip": "0.20"}, lambda *_: {"eval/accuracy": 0.5}, planned=planned)
    pooled = [rate.arm for rate in rates.rates(load.load(root, "made"), "clip") if rate.stratum is None]
    assert pooled == ["0.24", "0.28"]
