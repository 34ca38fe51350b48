"""How often the runs of an arm collapse, apart from how well they do: a trick may win on the mean and be a trap here.

A run has collapsed if it
    diverged   its state says so (its loss or gradient was no longer finite);
    fell back  fell = peak - end >= LEAST · margin  and  fell > LOST · (peak - start),
               start: the first evaluation; peak: the highest mean of L evaluations in a row, or the start; end: the
               mean of the last L; L and the margin of the spec's endpoint. The end is read as the peak is, so that
               the best of noisy evaluations is not held against an average one; a fall within noise counts for
               nothing, and a run that only ever fell has fallen back;
    froze      its entropy, mean of the last 11 steps, is under FLOOR: it says the same whatever is sampled.

The first that holds is named. Wilson intervals, Fisher's exact test (two-sided; it does not use the pairing by seed).
Runs that have not ended, or ended without a curve, are not counted, nor are those of a cell of which one was pruned.
Leaves out: means (`verdict.py`).
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analysis import averaged, scores, stats
from analysis.load import Entry, Sweep
from analysis.verdict import ENTROPY

if TYPE_CHECKING:
    import pandas as pd

LOST = 0.5  # of what was gained since the start
LEAST = 5.0  # margins of the endpoint: a fall smaller than that is noise
FLOOR = 0.01  # nats
LAST_STEPS = 11  # over which the entropy at the end is read
HELD = "held"
REASONS = ("diverged", "fell back", "froze")


@dataclass(frozen=True)
class Share:
    """`collapsed` of `runs`, with Wilson's 95 % interval; NaN where no run has ended."""

    collapsed: int
    runs: int
    share: float
    low: float
    high: float
    reasons: dict[str, int]


@dataclass(frozen=True)
class Rate:
    """One arm beside the baseline in one stratum, or pooled over all strata that hold both."""

    stratum: dict[str, str] | None  # None: pooled
    axis: str
    arm: str
    baseline: str
    ours: Share
    theirs: Share
    p: float  # Fisher; NaN where a side has no run
    p_holm: float  # over the strata's contrasts of the axis, or over its pooled ones


def rates(sweep: Sweep, axis: str, ended: dict[str, str] | None = None) -> list[Rate]:
    """Each arm of an axis in every stratum that plans it and the baseline, then pooled where there are several.

    `ended` is what `ends` gives, for one who asks of several axes.
    """
    ended = ends(sweep) if ended is None else ended
    baseline, sides = sweep.baseline[axis], averaged.sides(sweep, axis) or scores.sides(sweep, axis)
    apart = [
        _rate(sweep.shown(side.stratum), axis, side.arm, baseline, _of(ended, side.ours), _of(ended, side.theirs))
        for side in sides
    ]
    pooled = []
    for arm in [arm for arm in sweep.axes[axis] if any(side.arm == arm for side in sides)]:
        ours = [entry for side in sides if side.arm == arm for entry in side.ours]
        theirs = [entry for side in sides if side.arm == arm for entry in side.theirs]
        pooled.append(_rate(None, axis, arm, baseline, _of(ended, ours), _of(ended, theirs)))
    return _corrected(apart) + (_corrected(pooled) if len(apart) > len(pooled) else [])


def ends(sweep: Sweep, lost: float = LOST, least: float = LEAST, floor: float = FLOOR) -> dict[str, str]:
    """run id -> one of REASONS or HELD, for the runs that ended; `least` in the endpoint's margins, `floor` in nats."""
    end = sweep.manifest["endpoint"]
    sign = 1.0 if end["goal"] == "max" else -1.0
    curves, entropy = scores.curves(sweep, end["metric"]), scores.curves(sweep, ENTROPY)
    found = {}
    for entry in sweep.runs:
        if entry.run in sweep.censored:
            continue
        if entry.state == "diverged":
            found[entry.run] = "diverged"
        elif entry.run in curves and curves[entry.run].notna().any():
            fallen = fell_back(sign * curves[entry.run], end["last"], least * end["margin"], lost)
            frozen = entry.run in entropy and final(entropy[entry.run]) < floor
            found[entry.run] = "fell back" if fallen else "froze" if frozen else HELD
    return found


def fell_back(curve: "pd.Series", last: int, least: float, lost: float = LOST) -> bool:
    """Whether a curve (more is better) ended `least` or more under its peak and gave back more than `lost` of its gain.

    False for fewer evaluations than `last`: it has no endpoint.
    """
    known = curve.sort_index().dropna()
    if len(known) < last:
        return False
    levels = known.rolling(last).mean().dropna()
    start, end = float(known.iloc[0]), float(levels.iloc[-1])
    peak = max(start, float(levels.max()))
    return peak - end >= least and peak - end > lost * (peak - start)


def final(curve: "pd.Series", steps: int = LAST_STEPS) -> float:
    """Mean of the last `steps` recorded values; NaN where there is none."""
    return float(curve.sort_index().dropna().iloc[-steps:].mean())


def rule(sweep: Sweep) -> str:
    """The definition in one sentence, with the sweep's numbers."""
    end = sweep.manifest["endpoint"]
    return (
        f"Collapsed: diverged; or the mean of the last {end['last']} evaluations lies {LEAST * end['margin']:g} or "
        f"more below the best {end['last']} in a row and more than {LOST:.0%} of the gain is lost; or the "
        f"entropy of the last {LAST_STEPS} steps is under {FLOOR:g} nats. Wilson's 95 % intervals, Fisher's exact test."
    )


def _of(ended: dict[str, str], entries: list[Entry]) -> Share:
    """Each run counts once, however many places of the grid it fills."""
    from scipy import stats as scipy_stats

    found = [ended[run] for run in dict.fromkeys(entry.run for entry in entries) if run in ended]
    reasons = Counter(reason for reason in found if reason != HELD)
    collapsed, runs = sum(reasons.values()), len(found)
    if not runs:
        return Share(0, 0, math.nan, math.nan, math.nan, {})
    interval = scipy_stats.binomtest(collapsed, runs).proportion_ci(method="wilson")
    return Share(collapsed, runs, collapsed / runs, float(interval.low), float(interval.high), dict(reasons))


def _rate(stratum: dict[str, str] | None, axis: str, arm: str, baseline: str, ours: Share, theirs: Share) -> Rate:
    from scipy import stats as scipy_stats

    table = [[side.collapsed, side.runs - side.collapsed] for side in (ours, theirs)]
    p = float(scipy_stats.fisher_exact(table).pvalue) if ours.runs and theirs.runs else math.nan
    return Rate(stratum, axis, arm, baseline, ours, theirs, p, math.nan)


def _corrected(found: list[Rate]) -> list[Rate]:
    return [replace(r, p_holm=p) for r, p in zip(found, stats.holm([r.p for r in found]), strict=True)]
