"""Designs whose numbers are effects over the levels of the other arms: fractions and samples.

What claims take from them: the effect of one level of an axis less another's, seed by seed, in each stratum. Leaves
out: estimation (`fractional.py`, `sampled.py`), verdicts on arms (`fractional_verdict.py`, `sampled_verdict.py`).
"""

from dataclasses import dataclass
from typing import Any

from analysis import fractional, sampled, scores
from analysis.fractional import Stratum
from analysis.load import Entry, Sweep


@dataclass(frozen=True)
class Effect:
    stratum: Stratum
    values: list[float]  # by seed
    sides: list[list[Entry]]  # the runs with the arm, and those with the level that it is compared with
    over: str  # what it is an average over


def of(sweep: Sweep) -> bool:
    """Whether the sweep's arms are judged by such effects."""
    return fractional.design(sweep) is not None or sampled.design(sweep) is not None


def axes(sweep: Sweep) -> dict[str, list[str]]:
    """axis -> the levels that it has in the design, of the axes that are averaged over; empty for other designs."""
    if (fraction := fractional.design(sweep)) is not None:
        return dict(fraction["factors"])
    sample = sampled.design(sweep)
    return sampled.levels(sweep, sample) if sample else {}


def sides(sweep: Sweep, axis: str) -> list[scores.Side]:
    """An axis's runs with each arm and those at the baseline, in every stratum; empty for other designs."""
    if (sample := sampled.design(sweep)) is None:
        return fractional.sides(sweep, axis)
    known = sampled.levels(sweep, sample).get(axis, [])
    return [
        scores.Side(fit.stratum, arm, ours, theirs)
        for fit in sampled.fits(sweep, sample, {})
        for arm in known[1:]
        if (ours := sampled.runs_at(fit, axis, arm)) and (theirs := sampled.runs_at(fit, axis, known[0]))
    ]


def effects(sweep: Sweep, axis: str, arm: str, baseline: str, numbers: dict[str, float]) -> list[Effect]:
    """In every stratum, empty where the design does not have the axis with both levels. `numbers`: of the runs."""
    if not {arm, baseline} <= set(axes(sweep).get(axis, ())):
        return []
    if (fraction := fractional.design(sweep)) is not None:
        return _of_fraction(sweep, fraction, axis, arm, numbers)
    sample = sampled.design(sweep)
    found = []
    for fit in sampled.fits(sweep, sample, numbers) if sample else []:
        sides = [sampled.runs_at(fit, axis, level) for level in (arm, baseline)]
        if all(sides):
            values = sampled.pair(fit, (axis, arm), (axis, baseline)).differences
            found.append(Effect(fit.stratum, values, sides, "over the sampled levels of the others"))
    return found


def _of_fraction(sweep: Sweep, of: dict[str, Any], axis: str, arm: str, numbers: dict[str, float]) -> list[Effect]:
    turn = 1 if of["factors"][axis][1] == arm else -1
    signs = next(effect.signs for effect in fractional.effects(of) if effect.names == (axis,))
    found = []
    for stratum in fractional.strata(sweep, of):
        rows = fractional.rows(sweep, of, stratum)
        block, _ = fractional.blocks(rows, numbers)
        values = [turn * value for value in fractional.by_seed(block, signs, len(rows[0])).differences]
        sides = [*fractional.split(rows, signs)]
        found.append(Effect(stratum, values, sides[::turn], "over both levels of the others"))
    return found
