"""Trick, trap, neutral or inconclusive: one word per arm against the baseline arm, in every stratum.

    d_s = endpoint(arm, seed s) - endpoint(baseline, seed s)
    fewer than 3 pairs                       -> description only, no verdict
    Holm-adjusted p < .05 and d in favour    -> trick,   against -> trap
    90 % interval within ± margin (TOST)     -> neutral
    else                                     -> inconclusive, with the seeds that would settle it

The family of Holm's correction is all contrasts of the arm axis on one metric. Leaves out: the paper's claims
(`claims.py`), drawing and text.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from analysis import stats
from analysis.load import Sweep

if TYPE_CHECKING:
    import pandas as pd

MIN_PAIRS = 3  # under three pairs a t interval says nothing; see the simulations behind docs/log.md
ENTROPY_MARGIN = 0.01  # nats


@dataclass(frozen=True)
class Contrast:
    """One arm against the baseline in one stratum, on one metric read off each run by one endpoint."""

    metric: str
    read: str
    stratum: dict[str, str]
    axis: str
    arm: str
    baseline: str
    effect: stats.Paired | None
    arm_mean: float
    baseline_mean: float
    p_holm: float
    word: str
    seeds_more: int | None
    detectable: float
    missing_pairs: int

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def judge(sweep: Sweep) -> list[Contrast]:
    """The spec's endpoint, the area under the same curve, and the entropy's area; in the order of the axes."""
    end = sweep.manifest["endpoint"]
    sign = 1.0 if end["goal"] == "max" else -1.0
    last = partial(stats.endpoint, last=end["last"])
    return [
        *contrasts(sweep, end["metric"], f"mean of the last {end['last']}", last, end["margin"], sign),
        *contrasts(sweep, end["metric"], "area", stats.area, end["margin"], sign),
        *contrasts(sweep, "policy/entropy", "area", stats.area, ENTROPY_MARGIN, None),
    ]


def contrasts(
    sweep: Sweep,
    metric: str,
    read: str,
    endpoint: "Callable[[pd.Series], float]",
    margin: float,
    sign: float | None,
) -> list[Contrast]:
    """All contrasts of the arm axis; sign +1 when more is better, -1 when less is, None when it is neither."""
    axis = sweep.arm_axis
    if axis is None:
        return []
    baseline, scores = sweep.manifest["baseline"][axis], run_scores(sweep, metric, endpoint)
    pairs = [
        (stratum, arm, pair(scores, sweep, stratum | {axis: arm}, stratum | {axis: baseline}))
        for stratum in strata(sweep, axis)
        for arm in sweep.axes[axis]
        if arm != baseline and planned(sweep, stratum | {axis: arm}) and planned(sweep, stratum | {axis: baseline})
    ]
    effects = [stats.paired(p.differences) if p.differences else None for _, _, p in pairs]
    adjusted = stats.holm([e.p if e and e.n >= MIN_PAIRS else math.nan for e in effects])
    return [
        Contrast(
            metric=metric,
            read=read,
            stratum=stratum,
            axis=axis,
            arm=arm,
            baseline=baseline,
            effect=effect,
            arm_mean=p.arm_mean,
            baseline_mean=p.baseline_mean,
            p_holm=p_holm,
            word=_word(p.differences, effect, p_holm, margin, sign),
            seeds_more=_seeds_more(p.differences, effect, p_holm, margin, family=len(pairs)),
            detectable=stats.detectable(effect.sd, effect.n) if effect else math.nan,
            missing_pairs=p.missing,
        )
        for (stratum, arm, p), effect, p_holm in zip(pairs, effects, adjusted, strict=True)
    ]


def strata(sweep: Sweep, axis: str) -> Iterator[dict[str, str]]:
    """Every combination of the other axes that vary."""
    others = [a for a, levels in sweep.axes.items() if a != axis and len(levels) > 1]
    for levels in product(*(sweep.axes[a] for a in others)):
        yield dict(zip(others, levels, strict=True))


def planned(sweep: Sweep, labels: dict[str, str]) -> bool:
    return any(_matches(entry["labels"], labels) for entry in sweep.manifest["runs"])


def run_scores(sweep: Sweep, metric: str, endpoint: "Callable[[pd.Series], float]") -> dict[str, float]:
    """run id -> endpoint of its curve, of finished runs only; NaN where the curve is too short."""
    frame = sweep.frame[(sweep.frame["metric"] == metric) & (sweep.frame["state"] == "done")]
    return {run: endpoint(part.set_index("step")["value"]) for run, part in frame.groupby("run")}


@dataclass(frozen=True)
class Pair:
    differences: list[float]
    arm_mean: float
    baseline_mean: float
    missing: int  # seeds planned for both arms that do not yet have both


def pair(scores: dict[str, float], sweep: Sweep, arm: dict[str, str], baseline: dict[str, str]) -> Pair:
    """Differences seed by seed; a seed counts when both of its runs have a score."""
    ours, theirs = by_seed(scores, sweep, arm), by_seed(scores, sweep, baseline)
    both = [(ours[s], theirs[s]) for s in sorted(ours.keys() & theirs.keys())]
    known = [(a, b) for a, b in both if not math.isnan(a) and not math.isnan(b)]
    return Pair(
        [a - b for a, b in known], _mean([a for a, _ in known]), _mean([b for _, b in known]), len(both) - len(known)
    )


def by_seed(scores: dict[str, float], sweep: Sweep, labels: dict[str, str]) -> dict[int, float]:
    """seed -> score of the runs with these labels; NaN for a run without one."""
    entries = (entry for entry in sweep.manifest["runs"] if _matches(entry["labels"], labels))
    return {entry["seed"]: scores.get(entry["run"], math.nan) for entry in entries}


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _matches(labels: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(labels.get(axis) == level for axis, level in wanted.items())


def _word(
    differences: list[float], effect: stats.Paired | None, p_holm: float, margin: float, sign: float | None
) -> str:
    if effect is None or effect.n < MIN_PAIRS:
        return "description only"
    if p_holm < 0.05:
        if sign is None:
            return "higher" if effect.mean > 0 else "lower"
        return "trick" if effect.mean * sign > 0 else "trap"
    return "neutral" if stats.equivalent(differences, margin) else "inconclusive"


def _seeds_more(
    differences: list[float], effect: stats.Paired | None, p_holm: float, margin: float, family: int
) -> int | None:
    """Seeds beyond those at hand to find, at level .05 / family, the effect seen or one of the margin's size."""
    if effect is None or effect.n < MIN_PAIRS:
        return MIN_PAIRS - (effect.n if effect else 0)
    if p_holm < 0.05 or stats.equivalent(differences, margin):
        return 0
    needed = stats.seeds_needed(max(abs(effect.mean), margin), effect.sd, alpha=0.05 / family)
    return None if math.isinf(needed) else max(1, int(needed) - effect.n)
