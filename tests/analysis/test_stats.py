"""Estimates against hand computation, scipy, statsmodels and simulation."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as reference
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import ttost_paired

from analysis import stats


def test_paired_interval_by_hand() -> None:
    # differences 1, 2, 3: mean 2, sd 1, t(.975, 2) = 4.3027, half width 4.3027/√3 = 2.4841
    result = stats.paired([1.0, 2.0, 3.0])
    assert (result.mean, result.sd, result.n) == (2.0, 1.0, 3)
    assert (result.low, result.high) == (pytest.approx(-0.4841, abs=1e-4), pytest.approx(4.4841, abs=1e-4))
    assert result.p == pytest.approx(0.0742, abs=1e-4)


def test_paired_interval_agrees_with_scipy() -> None:
    a, b = np.array([0.51, 0.55, 0.49, 0.60, 0.57]), np.array([0.50, 0.50, 0.50, 0.52, 0.55])
    theirs = reference.ttest_rel(a, b)
    ours = stats.paired((a - b).tolist())
    assert ours.p == pytest.approx(theirs.pvalue)
    assert [ours.low, ours.high] == pytest.approx(list(theirs.confidence_interval()))


def test_too_few_pairs_have_no_interval() -> None:
    one = stats.paired([0.3])
    assert one.mean == 0.3 and math.isnan(one.low) and math.isnan(one.p)
    with pytest.raises(ValueError, match="no paired differences"):
        stats.paired([])
    assert stats.paired([0.0, 0.0, 0.0]).p == 1.0
    assert stats.paired([0.25, 0.25, 0.25]).p == 0.0


@pytest.mark.parametrize(
    "values", [[0.001, -0.001, 0.002, 0.0], [0.02, -0.01, 0.015, 0.0], [0.004, 0.006, 0.012, -0.002]]
)
def test_equivalence_agrees_with_statsmodels(values: list[float]) -> None:
    p, _, _ = ttost_paired(np.array(values), np.zeros(4), -0.01, 0.01)
    assert stats.equivalent(values, 0.01) == (p < 0.05)


def test_holm_by_hand() -> None:
    # sorted .01, .02, .04, times 3, 2, 1 and made monotone: .03, .04, .04
    assert stats.holm([0.02, 0.01, math.nan, 0.04])[:2] == pytest.approx([0.04, 0.03])
    assert math.isnan(stats.holm([0.02, 0.01, math.nan, 0.04])[2])
    assert stats.holm([0.02, 0.01, math.nan, 0.04])[3] == pytest.approx(0.04)
    assert stats.holm([]) == []


def test_holm_agrees_with_statsmodels() -> None:
    p_values = np.random.default_rng(3).uniform(0, 0.3, 12).tolist()
    assert stats.holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())


@pytest.mark.parametrize(("d", "seeds"), [(0.5, 34), (1.0, 10), (1.5, 6), (2.0, 5)])
def test_seeds_needed_for_power_eight_tenths(d: float, seeds: int) -> None:
    assert stats.seeds_needed(d, 1.0) == seeds
    assert math.ceil(TTestPower().solve_power(d, power=0.8, alpha=0.05)) == seeds


def test_minimum_detectable_effect() -> None:
    for n, expected in ((3, 3.3), (4, 2.1), (5, 1.7), (8, 1.2), (10, 1.0)):
        assert stats.detectable(1.0, n) == pytest.approx(expected, abs=0.06)
    assert stats.detectable(0.5, 5) == pytest.approx(stats.detectable(1.0, 5) / 2)
    assert stats.seeds_needed(0.0, 1.0) == math.inf


def test_endpoint_and_area() -> None:
    curve = pd.Series([0.1, 0.3, 0.2, 0.6], index=[0, 10, 20, 40])
    assert stats.endpoint(curve, 2) == pytest.approx(0.4)  # the last two, not the best
    assert math.isnan(stats.endpoint(curve, 5))
    # trapezoids .2·10 + .25·10 + .4·20 = 12.5 over 40 steps
    assert stats.area(curve) == pytest.approx(12.5 / 40)


def test_the_t_interval_covers_at_three_seeds_where_a_bootstrap_would_not() -> None:
    rng, covered, bootstrap = np.random.default_rng(0), 0, 0
    for _ in range(1000):
        values = rng.normal(size=3)
        interval = stats.paired(values.tolist())
        covered += interval.low < 0 < interval.high
        low, high = np.quantile(rng.choice(values, (200, 3)).mean(1), [0.025, 0.975])
        bootstrap += low < 0 < high
    assert 0.935 < covered / 1000 < 0.965
    assert bootstrap / 1000 < 0.85


def test_seed_band_by_hand() -> None:
    band = stats.seed_band(pd.DataFrame({"a": [1.0], "b": [2.0], "c": [3.0]}))
    assert band.loc[0, ["mean", "n", "band"]].tolist() == [2.0, 3, "t"]
    assert band.loc[0, "high"] == pytest.approx(4.4841, abs=1e-4)


def test_bands_of_fewer_seeds_are_named_for_what_they_are() -> None:
    two = stats.seed_band(pd.DataFrame({"a": [1.0], "b": [4.0]}))
    assert two.loc[0, ["mean", "low", "high", "band"]].tolist() == [2.5, 1.0, 4.0, "range"]
    one = stats.seed_band(pd.DataFrame({"a": [1.0]}), within=pd.Series([0.25]))
    assert one.loc[0, ["mean", "low", "high", "band"]].tolist() == [1.0, 0.75, 1.25, "within"]


def test_holm_levels_by_hand() -> None:
    # .01 < .05/3 rejects, .02 < .05/2 rejects, .30 > .05/1 does not
    assert stats.holm_level([0.02, math.nan, 0.30, 0.01])[::2] == pytest.approx([0.05 / 2, 0.05])
    assert stats.holm_level([0.02, math.nan, 0.30, 0.01])[3] == pytest.approx(0.05 / 3)
    # .02 > .05/3 stops at once, and so all stay at .05/3: .03 is not rejected although .03 < .05
    assert stats.holm_level([0.02, 0.03, 0.04]) == pytest.approx([0.05 / 3] * 3)


def test_an_interval_at_holms_level_leaves_out_zero_exactly_where_holm_rejects() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        families = rng.normal(rng.choice([0.0, 1.5, 3.0], 6), 1.0, (4, 6)).T.tolist()
        p_values = [stats.paired(values).p for values in families]
        for values, p, level in zip(families, stats.holm(p_values), stats.holm_level(p_values), strict=True):
            interval = stats.paired(values, confidence=1 - level)
            assert (p < 0.05) == (interval.low > 0 or interval.high < 0)


def test_a_family_without_effects_is_called_different_in_at_most_five_per_cent() -> None:
    rng = np.random.default_rng(2)
    wrong = sum(
        min(stats.holm([stats.paired(values).p for values in rng.normal(size=(6, 3)).tolist()])) < 0.05
        for _ in range(500)
    )
    assert wrong / 500 <= 0.07  # 5 % and two standard errors
