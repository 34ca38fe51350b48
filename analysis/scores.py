"""One number per run, read off its curve, and the pairs of runs of one seed that are compared.

Three readings: `last`, the mean of the last L evaluations (L is the spec's, never the best evaluation); `area`, the
mean height of the whole curve; `tokens`, the same as `last` at equal generated tokens instead of equal steps. That one
belongs to a pair: L is read at the token counts of the last L evaluations of the run that generated fewer tokens, off
the other run's curve by linear interpolation over tokens. Leaves out: what the differences mean (`verdict.py`).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from analysis import stats
from analysis.load import NOT_SET, Entry, Sweep

if TYPE_CHECKING:
    import pandas as pd

READS = ("last", "area", "tokens")
TOKENS = "count/tokens_generated"

Endpoint = Callable[["pd.Series"], float]  # one run's curve, indexed by step -> its one number
Both = Callable[[str, str], tuple[float, float]]  # the run ids of arm and baseline -> their numbers, NaN where none


@dataclass(frozen=True)
class Side:
    """What stands on the two sides of one comparison: the planned runs of an arm and of the baseline in one stratum."""

    stratum: dict[str, str]
    arm: str
    ours: list[Entry]
    theirs: list[Entry]


@dataclass(frozen=True)
class Pair:
    differences: list[float]
    arm_mean: float
    baseline_mean: float
    missing: int  # seeds planned for both arms that do not yet have both


def sides(sweep: Sweep, axis: str) -> list[Side]:
    """Every arm of an axis in every stratum that plans it and the baseline; runs the axis does not reach are no arm.

    Nor are runs that stand in both places, as aliases of each other: a run differs from itself by nothing.
    """
    baseline = sweep.baseline[axis]
    return [
        Side(stratum, arm, ours, theirs)
        for stratum in sweep.strata(axis)
        if (theirs := sweep.having(stratum | {axis: baseline}))
        for arm in sweep.axes[axis]
        if arm not in (baseline, NOT_SET)
        and (ours := sweep.having(stratum | {axis: arm}))
        and not {entry.run for entry in ours} & {entry.run for entry in theirs}
    ]


def is_censored(*sides: Iterable[Entry]) -> bool:
    """Whether some run of a comparison was pruned: what is left of it says nothing."""
    return any(entry.state == "pruned" for side in sides for entry in side)


def curves(sweep: Sweep, metric: str, survivors: bool = False) -> "dict[str, pd.Series]":
    """run id -> its curve by step, of finished runs only: a part of a curve is no endpoint.

    Without those of a cell of which a run was pruned, unless `survivors` are asked for: the rest of it is chosen by how
    well it did.
    """
    frame = sweep.frame[(sweep.frame["metric"] == metric) & (sweep.frame["state"] == "done")]
    if sweep.censored and not survivors:
        frame = frame[~frame["run"].isin(sweep.censored)]
    by_run = frame.set_index("step").groupby("run", observed=True)["value"]
    return {str(run): curve for run, curve in by_run}


def reader(sweep: Sweep, read: str) -> Endpoint:
    """The endpoint `last` or `area`. Raises ValueError for another reading: `tokens` takes two runs."""
    if read == "last":
        return partial(stats.endpoint, last=sweep.manifest["endpoint"]["last"])
    if read == "area":
        return stats.area
    raise ValueError(f"no reading '{read}' of a single run (there are: last, area)")


def run_scores(sweep: Sweep, metric: str, endpoint: Endpoint, survivors: bool = False) -> dict[str, float]:
    """run id -> endpoint of its curve, of the runs that `curves` has; NaN where the curve is too short."""
    return {run: endpoint(curve) for run, curve in curves(sweep, metric, survivors).items()}


def both(sweep: Sweep, metric: str, read: str) -> Both:
    """What gives the two numbers of a pair of runs by one of READS; who asks sees to pruned runs (`is_censored`)."""
    if read != "tokens":
        return looked_up(run_scores(sweep, metric, reader(sweep, read), survivors=True))
    by, last = by_tokens(sweep, metric), sweep.manifest["endpoint"]["last"]

    def at_equal_tokens(arm: str, baseline: str) -> tuple[float, float]:
        known = arm in by and baseline in by
        return equal_tokens(by[arm], by[baseline], last) if known else (math.nan, math.nan)

    return at_equal_tokens


def by_tokens(sweep: Sweep, metric: str) -> "dict[str, pd.Series]":
    """run id -> its curve by tokens generated before each evaluation: Σ over steps t < s of the step's tokens.

    A run that lacks the tokens of some step before its last evaluation is left out: its sum would be too small.
    """
    import numpy as np

    tokens, found = curves(sweep, TOKENS), {}
    for run, curve in curves(sweep, metric).items():
        known = curve.dropna().sort_index()
        spent = tokens[run].dropna().sort_index() if run in tokens else None
        if spent is None or known.empty or len(before := spent[spent.index < known.index[-1]]) < known.index[-1]:
            continue
        total = np.concatenate([[0.0], before.cumsum().to_numpy()])
        found[run] = known.set_axis(total[np.searchsorted(before.index.to_numpy(), known.index.to_numpy())])
    return found


def equal_tokens(arm: "pd.Series", baseline: "pd.Series", last: int) -> tuple[float, float]:
    """Both curves' means at the token counts of the last `last` evaluations of the one that ends on fewer tokens.

    Curves by tokens, linear between evaluations. NaN where the shorter one has fewer evaluations than `last`, or where
    the other begins later: nothing is extrapolated. At equal token counts this is `stats.endpoint` of each.
    """
    import numpy as np

    shorter = min((arm, baseline), key=lambda curve: curve.index[-1])
    if len(shorter) < last:
        return math.nan, math.nan
    at = shorter.index.to_numpy()[-last:]
    ours, theirs = (
        float(np.interp(at, curve.index.to_numpy(), curve.to_numpy(), left=math.nan, right=math.nan).mean())
        for curve in (arm, baseline)
    )
    return ours, theirs


def pair(scores: dict[str, float], arm: list[Entry], baseline: list[Entry]) -> Pair:
    """Differences seed by seed; a seed counts when both of its runs have a score."""
    return pair_by(looked_up(scores), arm, baseline)


def pair_by(numbers: Both, arm: list[Entry], baseline: list[Entry]) -> Pair:
    """As `pair`, of numbers that a pair of runs may have only together."""
    ours, theirs = ({entry.seed: entry.run for entry in entries} for entries in (arm, baseline))
    planned = [numbers(ours[s], theirs[s]) for s in sorted(ours.keys() & theirs.keys())]
    known = [(a, b) for a, b in planned if not math.isnan(a) and not math.isnan(b)]
    differences = [a - b for a, b in known]
    return Pair(differences, _mean([a for a, _ in known]), _mean([b for _, b in known]), len(planned) - len(known))


def by_seed(scores: dict[str, float], entries: list[Entry]) -> dict[int, float]:
    """seed -> score; NaN for a run without one."""
    return {entry.seed: scores.get(entry.run, math.nan) for entry in entries}


def relative(scores: dict[str, float], arm: list[Entry], baseline: list[Entry]) -> float:
    """Mean over seeds of (arm - baseline) / baseline; NaN without a pair. A baseline of 0 gives none."""
    ours, theirs = by_seed(scores, arm), by_seed(scores, baseline)
    ratios = [ours[s] / theirs[s] - 1.0 if theirs[s] else math.nan for s in ours.keys() & theirs.keys()]
    return _mean([ratio for ratio in ratios if not math.isnan(ratio)])


def looked_up(scores: dict[str, float]) -> Both:
    """Numbers that each run has by itself."""
    return lambda arm, baseline: (scores.get(arm, math.nan), scores.get(baseline, math.nan))


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
