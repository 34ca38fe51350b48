"""An arm's effect by stratum and seed, and its mean over strata: the numbers of the figures across models and data.

A mean over strata is taken within each seed first, over the seeds that have a pair in every one of the strata; its
interval is a t interval over those seeds. Leaves out: verdicts (`verdict.py`) and significance of interactions
(`factors.py`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis import panels, sampled, scores
from analysis.load import Entry, Sweep
from analysis.panels import Stratum

BySeed = dict[int, float]


@dataclass(frozen=True)
class Effect:
    """One arm against its baseline in one stratum, seed by seed; without a pair `values` is empty.

    It is where a run of either side was pruned, and then no mean over strata has it: the rest is no sample of them.
    """

    axis: str
    arm: str
    stratum: Stratum
    values: BySeed
    pruned: bool = False


def effects(sweep: Sweep, by_run: dict[str, float], of: Callable[[float, float], float]) -> list[Effect]:
    """of(the arm's number, its baseline's) for every arm in every stratum that plans both.

    Other arms stand at their baseline, as in the analysis of variance, unless an axis is compared nowhere so; in a
    sample the two numbers are the fitted ones, over whatever the other arms are.
    """
    if sample := sampled.design(sweep):
        return _of_sample(sweep, sampled.fits(sweep, sample, by_run), of)
    strata = {axis: panels.strata(sweep, axis) for axis in sweep.baseline}
    found = []
    for axis, baseline in sweep.baseline.items():
        for stratum in sweep.plain(strata[axis]) or strata[axis]:
            theirs = sweep.having(stratum | {axis: baseline})
            for arm in panels.planned(sweep, stratum, axis) if theirs else ():
                if arm != baseline:
                    ours = sweep.having(stratum | {axis: arm})
                    pruned = scores.is_censored(ours, theirs)
                    values = {} if pruned else by_seed(by_run, ours, theirs, of)
                    found.append(Effect(axis, arm, stratum, values, pruned))
    return found


def _of_sample(sweep: Sweep, fits: Sequence[sampled.Fit], of: Callable[[float, float], float]) -> list[Effect]:
    found = []
    for fit in fits:
        for place, (axis, arm) in enumerate(fit.columns):
            if axis in sweep.baseline:
                numbers = zip(fit.seeds, fit.bases[:, place], fit.effects[:, place], strict=True)
                values = {s: of(float(base + effect), float(base)) for s, base, effect in numbers}
                known = {s: value for s, value in values.items() if not math.isnan(value)}
                found.append(Effect(axis, arm, fit.stratum, known))
    return found


def arms(sweep: Sweep, found: Sequence[Effect]) -> list[tuple[str, str]]:
    """(axis, arm) of the effects that have a pair, in the spec's order."""
    there = {(effect.axis, effect.arm) for effect in found if effect.values}
    return [(axis, arm) for axis in sweep.baseline for arm in panels.levels(sweep, axis) if (axis, arm) in there]


def by_seed(
    by_run: dict[str, float], arm: list[Entry], baseline: list[Entry], of: Callable[[float, float], float]
) -> BySeed:
    """seed -> of(arm, baseline), of the seeds for which both have a number."""
    ours, theirs = scores.by_seed(by_run, arm), scores.by_seed(by_run, baseline)
    both = {s: (ours[s], theirs[s]) for s in sorted(ours.keys() & theirs.keys())}
    found = {s: of(a, b) for s, (a, b) in both.items() if not math.isnan(a) and not math.isnan(b)}
    return {s: value for s, value in found.items() if not math.isnan(value)}


def whole(effects: Sequence[Effect]) -> list[Effect]:
    """The effects with a pair, to be averaged; none of them where one was pruned."""
    return [] if any(effect.pruned for effect in effects) else [effect for effect in effects if effect.values]


def mean(parts: Sequence[BySeed]) -> BySeed:
    """Per seed the mean over the parts, of the seeds that are in all of them."""
    shared = set.intersection(*(set(part) for part in parts)) if parts else set()
    return {s: math.fsum(part[s] for part in parts) / len(parts) for s in sorted(shared)}


def difference(arm: float, baseline: float) -> float:
    return arm - baseline


def change(arm: float, baseline: float) -> float:
    """In percent of the baseline; NaN for a baseline of 0."""
    return 100 * (arm / baseline - 1) if baseline else math.nan
