"""The bench of the statistics on a few sweeps, and that it would notice statistics that promise too much."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_ind

from analysis import stats
from bench import coverage


@pytest.fixture(scope="module")
def found() -> coverage.Found:
    return coverage.measure(5, 100, np.random.default_rng(0))


def test_a_hundred_sweeps_hold_what_the_bench_holds_of_a_thousand(found: coverage.Found) -> None:
    # 600 contrasts, six of a sweep alike in part: a standard error of 1.2 points at most
    assert 0.92 < found.coverage < 0.98
    assert found.bootstrap < 0.90  # beside: the percentile bootstrap over five seeds covers 82 %
    assert found.called_any <= 0.10 and found.neutral_at_margin <= 0.10
    assert found.power > 0.3 and found.neutral_at_zero > 0.2
    assert found.ratio == pytest.approx(coverage.expected_ratio(5), rel=0.1)


def test_sweeps_made_in_memory_are_judged_by_their_own_numbers() -> None:
    values = np.random.default_rng(1).uniform(0.3, 0.6, (2, 4, 3))
    contrasts = coverage.judged(coverage.KNOWN, values)
    assert [(c.stratum["model"], c.arm) for c in contrasts[2:4]] == [("small", "same"), ("large", "gain")]
    differences, widths = coverage.beside(values[None])
    for c, row in zip(contrasts, differences, strict=True):
        assert c.effect == stats.paired(row.tolist())
    theirs = ttest_ind(values[1, 2], values[1, 0]).confidence_interval()
    assert widths[4] == pytest.approx(theirs.high - theirs.low)


def test_each_limit_is_held_against_its_number(found: coverage.Found) -> None:
    # of 1,000 sweeps a true 5 % shows up to 5 + 2.326 · √(5 · 95 / 1000) = 6.6 % in 99 of 100 benches
    good = replace(found, sweeps=1000, coverage=0.95, called=0.01, called_any=0.066, neutral_at_margin=0.05)
    assert list(coverage.misses(good)) == []
    for field, value, said in (
        ("coverage", 0.929, "intervals cover 92.9%"),
        ("coverage", 0.971, "intervals cover 97.1%"),
        ("called", 0.067, "6.7% of A/A contrasts"),
        ("called_any", 0.067, "6.7% of A/A sweeps"),
        ("neutral_at_margin", 0.067, "6.7% of effects of the margin's size"),
    ):
        (line,) = coverage.misses(replace(good, **{field: value}))
        assert said in line
    assert len(list(coverage.misses(replace(good, sweeps=100_000)))) == 1  # .066 is no chance any more


def test_statistics_that_promise_too_much_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = stats.paired
    monkeypatch.setattr(stats, "paired", lambda values, confidence=0.95: honest(values, confidence=confidence - 0.10))
    found = coverage.measure(3, 40, np.random.default_rng(0))
    assert any("intervals cover" in line for line in coverage.misses(found))
