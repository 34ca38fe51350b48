"""Smoothing of one curve, as the source paper states it and as others read it.

The paper's sentence: an 11-step moving window mean with exponential smoothing of factor 0.8, and a band of mean ±
multiplier · standard deviation that shows how one run oscillates (arXiv:2508.08221 figure 3). It is not the
uncertainty of a trick; `stats.seed_band` is. Windows count steps, not points, so that gaps and sparse evaluations
keep their meaning. Leaves out: aggregation over seeds.
"""

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

Reading = Literal[
    "paper", "live", "tensorboard", "raw",
    "wandb", "windowed", "centred", "trailing", "paper_normalized", "live_normalized",
]  # fmt: skip
READINGS: tuple[Reading, ...] = get_args(Reading)
WINDOW = 11  # steps
FACTOR = 0.8  # what is kept of the past at each step

# reading -> (the window whose mean is taken first, how past means are remembered)
_PARTS: dict[str, tuple[str, str]] = {
    "paper": ("centred", "recursive"),
    "live": ("trailing", "recursive"),
    "tensorboard": ("none", "normalized"),
    "wandb": ("none", "root"),
    "centred": ("centred", "none"),
    "trailing": ("trailing", "none"),
    "paper_normalized": ("centred", "normalized"),
    "live_normalized": ("trailing", "normalized"),
}


class Smoothed(NamedTuple):
    mean: "pd.Series"
    std: "pd.Series"  # of the raw values in the window, ddof 1; 0 where the window holds one value
    dropped: int  # values that were not finite


def smooth(curve: "pd.Series", reading: Reading = "paper", window: int = WINDOW, factor: float = FACTOR) -> Smoothed:
    """s_t = factor · s_{t-1} + (1 - factor) · rolling mean_t, per step; `curve` is indexed by step.

    paper: the window is centred; live: it trails, so that past points never change; raw: no smoothing. Others, for
    comparison: tensorboard: no window, and the weights of the points so far are normalized, which makes its start
    follow the data; wandb: the same with √factor (its time-weighted average, with time in steps; the tool itself
    counts in a thousandth of the plotted range); windowed: weights factor^age inside the trailing window; centred,
    trailing: the window alone; paper_normalized, live_normalized: with normalized weights after the window.

    A window at an end, or of a run shorter than it, takes the values there are. Values that are not finite are dropped
    and counted. Over a gap of Δ steps the memory decays by factor^Δ. The band's window is centred where the mean's is,
    and trails elsewhere.

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
    place, memory = _PARTS.get(reading, ("none", "none"))
    by_time = pd.Series(finite.to_numpy(), index=pd.to_datetime(finite.index.to_numpy(), unit="s"))
    rolling = by_time.rolling(f"{window}s", center=place == "centred", min_periods=1)
    mean = by_time if place == "none" else rolling.mean()
    if memory != "none":
        mean = _remembered(mean, factor**0.5 if memory == "root" else factor, normalized=memory != "recursive")
    values = _windowed(finite, window, factor) if reading == "windowed" else mean.to_numpy()
    std = rolling.std(ddof=1).fillna(0.0)
    return Smoothed(pd.Series(values, finite.index), pd.Series(std.to_numpy(), finite.index), dropped)


def _remembered(by_time: "pd.Series", factor: float, normalized: bool) -> "pd.Series":
    """The exponential mean that keeps `factor` of its past per second, a step being one second."""
    import numpy as np
    import pandas as pd

    halflife = pd.Timedelta(seconds=float(np.log(0.5) / np.log(factor)))
    return by_time.ewm(halflife=halflife, times=by_time.index, adjust=normalized).mean()


def _windowed(curve: "pd.Series", window: int, factor: float) -> "np.ndarray":
    """Σ factor^(t - t_i) y_i / Σ factor^(t - t_i) over the steps t_i of the window (t - window, t]."""
    import numpy as np

    steps = curve.index.to_numpy(dtype=float)
    age = steps[:, None] - steps[None, :]
    weight = np.where((age >= 0) & (age < window), factor ** np.clip(age, 0, window), 0.0)
    return weight @ curve.to_numpy() / weight.sum(axis=1)


def segments(steps: "pd.Series", window: int = WINDOW) -> "pd.Series":
    """Numbers the pieces of a line: a gap wider than the window, and than twice the usual spacing, breaks it."""
    gaps = steps.diff()
    return (gaps > max(float(window), 2 * gaps.median() if len(gaps) > 1 else 0.0)).cumsum()
