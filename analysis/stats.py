"""The estimates: endpoints, paired intervals, equivalence, families, seeds needed. Pure functions of numbers.

The headline is a paired t interval over seeds on one number per run: runs of one seed share prompts and noise, and
one run is scored on every benchmark, so whole runs are the unit. A percentile bootstrap would cover 75 % instead
of 95 % at three seeds. Leaves out: what the numbers mean for a trick (`verdict.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


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
    values = curve.sort_index().dropna()
    return float(values.iloc[-last:].mean()) if len(values) >= last else math.nan


def area(curve: "pd.Series") -> float:
    """∫ value d(step) / (last step - first step) by trapezoids: the mean height of the curve. NaN under two points."""
    import numpy as np

    values = curve.sort_index().dropna()
    if len(values) < 2:
        return math.nan
    steps = values.index.to_numpy(dtype=float)
    return float(np.trapezoid(values.to_numpy(), steps) / (steps[-1] - steps[0]))


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
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1)) if error else float(mean == 0)
    return Paired(mean, mean - half, mean + half, sd, n, p)


def equivalent(differences: Sequence[float], margin: float, alpha: float = 0.05) -> bool:
    """Two one-sided tests at level alpha: the (1 - 2·alpha) t interval lies within ± margin. False for n < 2."""
    interval = paired(differences, confidence=1 - 2 * alpha)
    return interval.n >= 2 and -margin < interval.low and interval.high < margin


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment within one family, in the given order; NaN stays NaN and is not counted."""
    from statsmodels.stats.multitest import multipletests

    known = [p for p in p_values if not math.isnan(p)]
    adjusted = iter(multipletests(known, method="holm")[1] if known else [])
    return [math.nan if math.isnan(p) else float(next(adjusted)) for p in p_values]


def seeds_needed(effect: float, sd: float, power: float = 0.8, alpha: float = 0.05) -> float:
    """Pairs for a two-sided paired t test to find `effect` with `power`; at least 3; inf for no effect."""
    if effect == 0:
        return math.inf
    return next((n for n in range(3, 1000) if _power(abs(effect), sd, n, alpha) >= power), math.inf)


def detectable(sd: float, n: int, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest true difference that n pairs find with `power` (minimum detectable effect); NaN for n < 2."""
    from scipy.optimize import brentq

    if n < 2 or math.isnan(sd):
        return math.nan
    if sd == 0:
        return 0.0
    return float(sd * brentq(lambda d: _power(d, 1.0, n, alpha) - power, 1e-6, 100.0))


def _power(effect: float, sd: float, n: int, alpha: float) -> float:
    from scipy import stats

    if sd == 0:
        return 1.0
    # A rejection in the wrong direction is left out: it is no find, and scipy's lower tail is NaN far out.
    return float(stats.nct.sf(stats.t.ppf(1 - alpha / 2, n - 1), n - 1, min(effect / sd * math.sqrt(n), 30.0)))


def seed_band(wide: "pd.DataFrame", confidence: float = 0.95) -> "pd.DataFrame":
    """mean, low, high and n over seeds (columns) at each step (rows): a t interval; no bounds for n < 2."""
    import numpy as np
    import pandas as pd
    from scipy import stats

    n = wide.notna().sum(axis=1)
    t = pd.Series(stats.t.ppf(0.5 + confidence / 2, np.maximum(n - 1, 1)), wide.index).where(n > 1)
    half = t * wide.std(axis=1, ddof=1) / np.sqrt(n)
    mean = wide.mean(axis=1)
    return pd.DataFrame({"mean": mean, "low": mean - half, "high": mean + half, "n": n})
