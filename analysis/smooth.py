"""Smoothing of one curve, as the source paper states it and as others read it.

The paper's sentence: an 11-step moving window mean with exponential smoothing of factor 0.8, and a band of mean ±
multiplier · standard deviation that shows how one run oscillates (arXiv:2508.08221 figure 3). It is not the
uncertainty of a trick; `stats.seed_band` is. Windows count steps, not points, so that gaps and sparse evaluations
keep their meaning. Leaves out: aggregation over seeds.
"""

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

Reading = Literal["paper", "live", "tensorboard", "raw"]
READINGS: tuple[Reading, ...] = ("paper", "live", "tensorboard", "raw")
WINDOW = 11  # steps
FACTOR = 0.8  # what is kept of the past at each step


class Smoothed(NamedTuple):
    mean: "pd.Series"
    std: "pd.Series"  # of the raw values in the window, ddof 1; 0 where the window holds one value
    dropped: int  # values that were not finite


def smooth(curve: "pd.Series", reading: Reading = "paper", window: int = WINDOW, factor: float = FACTOR) -> Smoothed:
    """s_t = factor · s_{t-1} + (1 - factor) · rolling mean_t, per step; `curve` is indexed by step.

    paper: the window is centred; live: it trails, so that past points never change; tensorboard: no window, and the
    weights of the points so far are normalized, which makes its start follow the data; raw: no smoothing. A window at
    an end, or of a run shorter than it, takes the values there are. Values that are not finite are dropped and
    counted. Over a gap of Δ steps the memory decays by factor^Δ.

    Raises ValueError for a repeated step or an unknown reading.
    """
    import numpy as np
    import pandas as pd

    if reading not in READINGS:
        raise ValueError(f"no smoothing '{reading}' (there are: {', '.join(READINGS)})")
    if curve.index.has_duplicates:
        raise ValueError(f"step {curve.index[curve.index.duplicated()][0]} appears twice in one curve")
    finite = curve[np.isfinite(curve.to_numpy(dtype=float))].sort_index()
    dropped = len(curve) - len(finite)
    if reading == "raw" or finite.empty:
        return Smoothed(finite, finite * 0.0, dropped)
    times = pd.to_datetime(finite.index.to_numpy(), unit="s")
    by_time = pd.Series(finite.to_numpy(), index=times)
    rolling = by_time.rolling(f"{window}s", center=reading == "paper", min_periods=1)
    halflife = pd.Timedelta(seconds=float(np.log(0.5) / np.log(factor)))
    before, adjust = (by_time, True) if reading == "tensorboard" else (rolling.mean(), False)
    mean = before.ewm(halflife=halflife, times=times, adjust=adjust).mean()
    std = rolling.std(ddof=1).fillna(0.0)
    return Smoothed(pd.Series(mean.to_numpy(), finite.index), pd.Series(std.to_numpy(), finite.index), dropped)


def segments(steps: "pd.Series", window: int = WINDOW) -> "pd.Series":
    """Numbers the pieces of a line: a gap wider than the window, and than twice the usual spacing, breaks it."""
    gaps = steps.diff()
    return (gaps > max(float(window), 2 * gaps.median() if len(gaps) > 1 else 0.0)).cumsum()
