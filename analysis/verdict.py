"""Trick, trap, neutral or inconclusive: one word per arm against its baseline, in every stratum.

    d_s = endpoint(arm, seed s) - endpoint(baseline, seed s)
    fewer than 3 pairs                       -> description only, no verdict
    Holm-adjusted p < .05 and d in favour    -> trick,   against -> trap
    90 % interval within ± margin (TOST)     -> neutral
    else                                     -> inconclusive, with the seeds that would settle it

The family of Holm's correction is all contrasts of one axis on one metric. Leaves out: the paper's claims
(`claims.py`), drawing and text.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from analysis import stats
from analysis.load import Entry, Sweep

if TYPE_CHECKING:
    import pandas as pd

MIN_PAIRS = stats.MIN_PAIRS
ALPHA = 0.05
ENTROPY = "policy/entropy"
ENTROPY_MARGIN = 0.01  # nats

Endpoint = Callable[["pd.Series"], float]  # one run's curve, indexed by step -> its one number


@dataclass(frozen=True)
class Contrast:
    """One arm against the baseline in one stratum, on one metric read off each run by one endpoint."""

    metric: str
    read: str  # "last" | "area"
    stratum: dict[str, str]
    axis: str
    arm: str
    baseline: str
    effect: stats.Paired | None  # None without a pair
    p_holm: float
    low_holm: float  # the interval at Holm's level: it leaves out 0 exactly where p_holm < .05
    high_holm: float
    word: str
    within_margin: bool  # TOST; beside a verdict of trick or trap: real, but smaller than what matters
    seeds_more: int | None  # 0 where the word is final; None for more than anyone would run
    detectable: float
    arm_mean: float
    baseline_mean: float
    missing_pairs: int
    arm_diverged: int  # runs that left no endpoint because they diverged: what remains are the survivors
    baseline_diverged: int


def judge(sweep: Sweep) -> list[Contrast]:
    """For each axis with a baseline: the spec's endpoint, the area under the same curve, and the entropy's area."""
    end = sweep.manifest["endpoint"]
    sign = 1.0 if end["goal"] == "max" else -1.0
    found: list[Contrast] = []
    for axis in sweep.baseline:
        found += contrasts(sweep, axis, end["metric"], "last", end["margin"], sign)
        found += contrasts(sweep, axis, end["metric"], "area", end["margin"], sign)
        if end["metric"] != ENTROPY:
            found += contrasts(sweep, axis, ENTROPY, "area", ENTROPY_MARGIN, None)
    return found


def contrasts(
    sweep: Sweep, axis: str, metric: str, read: str, margin: float, sign: float | None = 1.0
) -> list[Contrast]:
    """All contrasts of one axis; sign +1 when more is better, -1 when less is, None when it is neither."""
    baseline, scores = sweep.baseline[axis], run_scores(sweep, metric, reader(sweep, read))
    pairs = [
        (stratum, arm, pair(scores, sweep.having(stratum | {axis: arm}), theirs))
        for stratum in sweep.strata(axis)
        if (theirs := sweep.having(stratum | {axis: baseline}))
        for arm in sweep.axes[axis]
        if arm != baseline and sweep.having(stratum | {axis: arm})
    ]
    effects = [stats.paired(p.differences) if p.differences else None for _, _, p in pairs]
    p_values = [e.p if e and e.n >= MIN_PAIRS else math.nan for e in effects]
    adjusted, levels = stats.holm(p_values), stats.holm_level(p_values, ALPHA)
    found = []
    for (stratum, arm, p), effect, p_holm, level in zip(pairs, effects, adjusted, levels, strict=True):
        enough = effect is not None and effect.n >= MIN_PAIRS
        wide = stats.paired(p.differences, 1 - level) if enough else None
        within = enough and stats.equivalent(p.differences, margin)
        found.append(
            Contrast(
                metric=metric,
                read=read,
                stratum=stratum,
                axis=axis,
                arm=arm,
                baseline=baseline,
                effect=effect,
                p_holm=p_holm,
                low_holm=wide.low if wide else math.nan,
                high_holm=wide.high if wide else math.nan,
                word=_word(effect, p_holm, within, sign),
                within_margin=within,
                seeds_more=seeds_more(effect, p_holm < ALPHA or within, margin, ALPHA / len(pairs)),
                detectable=stats.detectable(effect.sd, effect.n) if effect else math.nan,
                arm_mean=p.arm_mean,
                baseline_mean=p.baseline_mean,
                missing_pairs=p.missing,
                arm_diverged=_diverged(sweep.having(stratum | {axis: arm})),
                baseline_diverged=_diverged(sweep.having(stratum | {axis: baseline})),
            )
        )
    return found


def without_baseline(sweep: Sweep) -> list[dict[str, str]]:
    """Strata whose arms cannot be compared, since the spec excludes the baseline there."""
    lone = []
    for axis, baseline in sweep.baseline.items():
        for stratum in sweep.strata(axis):
            if sweep.having(stratum) and not sweep.having(stratum | {axis: baseline}):
                lone.append(stratum | {axis: f"no {baseline}"})
    return lone


def reader(sweep: Sweep, read: str) -> Endpoint:
    return partial(stats.endpoint, last=sweep.manifest["endpoint"]["last"]) if read == "last" else stats.area


def run_scores(sweep: Sweep, metric: str, endpoint: Endpoint) -> dict[str, float]:
    """run id -> endpoint of its curve, of finished runs only; NaN where the curve is too short."""
    frame = sweep.frame[(sweep.frame["metric"] == metric) & (sweep.frame["state"] == "done")]
    return {str(run): endpoint(part.set_index("step")["value"]) for run, part in frame.groupby("run", observed=True)}


@dataclass(frozen=True)
class Pair:
    differences: list[float]
    arm_mean: float
    baseline_mean: float
    missing: int  # seeds planned for both arms that do not yet have both


def pair(scores: dict[str, float], arm: list[Entry], baseline: list[Entry]) -> Pair:
    """Differences seed by seed; a seed counts when both of its runs have a score."""
    ours, theirs = by_seed(scores, arm), by_seed(scores, baseline)
    both = [(ours[s], theirs[s]) for s in sorted(ours.keys() & theirs.keys())]
    known = [(a, b) for a, b in both if not math.isnan(a) and not math.isnan(b)]
    return Pair(
        [a - b for a, b in known], _mean([a for a, _ in known]), _mean([b for _, b in known]), len(both) - len(known)
    )


def by_seed(scores: dict[str, float], entries: list[Entry]) -> dict[int, float]:
    """seed -> score; NaN for a run without one."""
    return {entry.seed: scores.get(entry.run, math.nan) for entry in entries}


def seeds_more(effect: stats.Paired | None, settled: bool, margin: float, alpha: float = ALPHA) -> int | None:
    """Seeds beyond those at hand to find, with power .8, the effect seen or one of the margin's size if it is smaller.

    The standard deviation is that of the pairs at hand, itself uncertain by half at three pairs: read it as "about".
    """
    if effect is None or effect.n < MIN_PAIRS:
        return MIN_PAIRS - (effect.n if effect else 0)
    if settled:
        return 0
    needed = stats.seeds_needed(max(abs(effect.mean), margin), effect.sd, alpha=alpha)
    return None if math.isinf(needed) else max(1, int(needed) - effect.n)


def _word(effect: stats.Paired | None, p_holm: float, within_margin: bool, sign: float | None) -> str:
    if effect is None or effect.n < MIN_PAIRS:
        return "description only"
    if p_holm < ALPHA:
        if sign is None:
            return "higher" if effect.mean > 0 else "lower"
        return "trick" if effect.mean * sign > 0 else "trap"
    return "neutral" if within_margin else "inconclusive"


def _diverged(entries: list[Entry]) -> int:
    return sum(entry.state == "diverged" for entry in entries)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
