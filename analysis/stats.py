"""The estimates: endpoints, paired intervals, equivalence, families, seeds needed. Pure functions of numbers.

The headline is a paired t interval over seeds on one number per run: runs of one seed share prompts and noise, and
one run is scored on every benchmark, so whole runs are the unit. A percentile bootstrap would cover 75 % instead
of 95 % at three seeds. Leaves out: what the numbers mean for a trick (`verdict.py`).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


MIN_PAIRS = 3  # at two a t interval is 12.7 standard errors wide either way: too wide to say anything


@dataclass(frozen=True)
class Paired:
    """mean ± t(1 - (1 - confidence)/2, n - 1) · sd / √n of n paired differences; NaN bounds and p for n < 2."""

    mean: float
    low: float
    high: float
    sd: float
    n: int
    p: float


def endpoint(curve: "pd.Series", last: int) -> float:
    """Mean of the last `last` evaluations of one run, never its best; NaN where there are fewer."""
    _, values = _known(curve)
    return float(values[-last:].mean()) if len(values) >= last else math.nan


def area(curve: "pd.Series") -> float:
    """∫ value d(step) / (last step - first step) by trapezoids: the mean height of the curve. NaN under two points."""
    import numpy as np

    steps, values = _known(curve)
    return float(np.trapezoid(values, steps) / (steps[-1] - steps[0])) if len(values) > 1 else math.nan


def _known(curve: "pd.Series") -> "tuple[np.ndarray, np.ndarray]":
    """Steps in order and their values, without NaN; in numpy, since a report reads thousands of curves."""
    import numpy as np

    steps, values = curve.index.to_numpy(dtype=float), curve.to_numpy(dtype=float)
    order = np.argsort(steps, kind="stable")
    order = order[~np.isnan(values[order])]
    return steps[order], values[order]


def paired(differences: Sequence[float], confidence: float = 0.95) -> Paired:
    """Raises ValueError for no differences. Differences that are all equal and not 0 have p = 0."""
    from scipy import stats

    n = len(differences)
    if n == 0:
        raise ValueError("no paired differences")
    mean = math.fsum(differences) / n
    if n < 2:
        return Paired(mean, math.nan, math.nan, math.nan, n, math.nan)
    sd = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (n - 1))
    error = sd / math.sqrt(n)
    half = _quantile(0.5 + confidence / 2, n - 1) * error
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1)) if error else float(mean == 0)
    return Paired(mean, mean - half, mean + half, sd, n, p)


def equivalent(differences: Sequence[float], margin: float, alpha: float = 0.05) -> bool:
    """Two one-sided tests at level alpha: the (1 - 2·alpha) t interval lies within ± margin. False for n < 2."""
    interval = paired(differences, confidence=1 - 2 * alpha)
    return interval.n >= 2 and -margin < interval.low and interval.high < margin


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment within one family: max over ranks r ≤ i of min(1, (m - r) p_(r)), r from 0.

    In the given order; NaN stays NaN and is not counted.
    """
    adjusted, highest = [math.nan] * len(p_values), 0.0
    order = sorted((i for i, p in enumerate(p_values) if not math.isnan(p)), key=lambda i: p_values[i])
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def holm_level(p_values: Sequence[float], alpha: float = 0.05) -> list[float]:
    """The level at which Holm's procedure tests each hypothesis: alpha / (m - rank), ranks 0 … m - 1 by p.

    From the first acceptance on the level stays, so that an interval of confidence 1 - level leaves out 0 exactly
    where Holm rejects. It is a device for showing the decision, not a simultaneous interval. NaN stays NaN.
    """
    order = sorted((i for i, p in enumerate(p_values) if not math.isnan(p)), key=lambda i: p_values[i])
    levels, open_ = [math.nan] * len(p_values), len(order)
    for i in order:
        levels[i] = alpha / open_
        if p_values[i] < levels[i]:
            open_ -= 1
        else:
            break
    return [alpha / open_ if i in order and math.isnan(level) else level for i, level in enumerate(levels)]


def seeds_needed(effect: float, sd: float, power: float = 0.8, alpha: float = 0.05) -> float:
    """Pairs for a two-sided paired t test to find `effect` with `power`; at least 3; inf for no effect."""
    if effect == 0:
        return math.inf
    numbers = range(3, 1000)
    place = bisect_left(numbers, power, key=lambda n: _power(abs(effect), sd, n, alpha))
    return numbers[place] if place < len(numbers) else math.inf


def detectable(sd: float, n: int, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest true difference that n pairs find with `power` (minimum detectable effect); NaN for n < 2.

    inf where alpha is so small that no difference of less than 30 standard errors is found.
    """
    return math.nan if n < 2 else sd * _detectable(n, power, alpha)


@lru_cache(maxsize=1024)
def _detectable(n: int, power: float, alpha: float) -> float:
    """In standard deviations; a sweep asks for the same few n again and again."""
    from scipy.optimize import brentq

    if _power(100.0, 1.0, n, alpha) < power:
        return math.inf
    return float(brentq(lambda d: _power(d, 1.0, n, alpha) - power, 1e-6, 100.0))


def _power(effect: float, sd: float, n: int, alpha: float) -> float:
    from scipy import stats

    if sd == 0:
        return 1.0
    # A rejection in the wrong direction is left out: it is no find, and scipy's lower tail is NaN far out.
    return float(stats.nct.sf(_quantile(1 - alpha / 2, n - 1), n - 1, min(effect / sd * math.sqrt(n), 30.0)))


@lru_cache(maxsize=4096)
def _quantile(probability: float, df: int) -> float:
    """Of Student's t; scipy takes a tenth of a millisecond for each, and a sweep asks for the same ones."""
    from scipy import stats

    return float(stats.t.ppf(probability, df))


BANDS = {
    "t": "95 % t interval over seeds",
    "range": "range of the two seeds",
    "within": "± one standard deviation within the run's 11-step window (how it oscillates, not how sure we are)",
}


def seed_band(wide: "pd.DataFrame", within: "pd.Series | None" = None) -> "pd.DataFrame":
    """mean, low, high, n, band over seeds (columns) at each step (rows); every seed has every step.

    Three seeds or more: a 95 % t interval; two: their range, since a t interval on one degree of freedom is twelve
    standard errors wide; one: mean ± `within`, the standard deviation of the raw values in the smoothing window.
    """
    import numpy as np
    import pandas as pd
    from scipy import stats

    n, mean = wide.shape[1], wide.mean(axis=1)
    low, high, band = mean, mean, "none"
    if n >= 3:
        half = stats.t.ppf(0.975, n - 1) * wide.std(axis=1, ddof=1) / np.sqrt(n)
        low, high, band = mean - half, mean + half, "t"
    elif n == 2:
        low, high, band = wide.min(axis=1), wide.max(axis=1), "range"
    elif within is not None:
        low, high, band = mean - within, mean + within, "within"
    return pd.DataFrame({"mean": mean, "low": low, "high": high, "n": n, "band": band})
