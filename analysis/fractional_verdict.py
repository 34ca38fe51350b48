"""The verdict of a fractional factorial sweep: a word per main effect and per interaction, and what is said of them.

    main effect     the word of an arm, by the rules of `verdict.py`, on the runs with it less the runs without it, over
                    both levels of every other arm; one family is a factor's effects in all strata
    interaction     higher, lower, neutral or inconclusive; one family is all interactions in all strata

Each carries what is confounded with it. Leaves out: estimation (`fractional.py`), layout.
"""

import math
from collections.abc import Sequence
from typing import Any

from analysis import fractional, scores, text, verdict
from analysis.fractional import Effect, Stratum
from analysis.load import Entry, Sweep
from analysis.verdict import Contrast, Draft, Measure

ORDERS = (1, 2)  # factors of an effect
Place = tuple[Stratum, list[list[Entry]], Any]  # a stratum, its runs by row, and their scores [rows, seeds]


def judge(sweep: Sweep, order: int = 1) -> list[Contrast]:
    """Main effects (order 1) or two-factor interactions (2) on each measure but equal tokens, which belong to pairs."""
    of = fractional.design(sweep)
    if of is None:
        return []
    tokens = scores.run_scores(sweep, verdict.TOKENS, lambda curve: float(curve.sum()))
    lengths = scores.run_scores(sweep, verdict.LENGTH, scores.reader(sweep, "last"))
    wanted = [effect for effect in fractional.effects(of) if len(effect.names) == order]
    families = [[effect] for effect in wanted] if order == 1 else [wanted]
    places = [(stratum, fractional.rows(sweep, of, stratum)) for stratum in fractional.strata(sweep, of)]
    found = []
    for family in families:
        for measure in verdict.measures(sweep):
            if measure.read == "tokens":
                continue
            numbers = scores.run_scores(sweep, measure.metric, scores.reader(sweep, measure.read))
            known: list[Place] = [(stratum, rows, fractional.blocks(rows, numbers)[0]) for stratum, rows in places]
            drafts = [
                _draft(of["factors"], measure, place, effect, tokens, lengths) for place in known for effect in family
            ]
            found += verdict.family(sweep, measure, drafts)
    return found


def lacking(sweep: Sweep) -> list[str]:
    """A sentence per stratum in which seeds are left out for want of a run, naming one."""
    of, said = fractional.design(sweep), []
    for stratum in fractional.strata(sweep, of) if of else []:
        rows = fractional.rows(sweep, of or {}, stratum)
        lost = {entry.seed: entry for row in rows for entry in row if entry.state != "done"}
        if lost:
            entry = min(lost.values(), key=lambda entry: entry.seed)
            at = ", ".join(stratum.values())
            said.append(
                f"{f'{at}: ' if at else ''}{text.plural(len(lost), 'seed')} of {len(rows[0])} left out: an effect "
                f"takes all {len(rows)} runs of a seed, and run {entry.run} is {entry.state}, for one."
            )
    return said


def remarks(sweep: Sweep) -> list[str]:
    """What a reader has to know of a fraction before its numbers; empty for other designs."""
    of = fractional.design(sweep)
    if of is None:
        return []
    made = "; ".join(of["generators"])
    said = [
        f"A fraction: {of['runs']} of {of['of']} combinations, resolution {of['resolution']} ({made}). Each number is "
        "an effect over all of its runs: those with the arm less those without it, the other arms at both of their "
        "levels. Beside it, in brackets, what it cannot be told from; interactions of three arms or more are taken for "
        "nothing. An arm with the others at their baseline is not compared: a fraction lacks those runs, and "
        "design: oat or full has them."
    ]
    if sweep.manifest["claims"]:
        said.append(
            "Claims on one of its arms are tested by the arm's effect, over both levels of the others; those that are "
            "not testable here need design: oat or full."
        )
    return said + lacking(sweep)


def method(sweep: Sweep) -> list[str]:
    """How a fraction was judged, in place of the sentences on pairs."""
    of, end = fractional.design(sweep) or {}, sweep.manifest["endpoint"]
    return [
        f"Effects are differences within a seed ({len(sweep.manifest['seeds'])} planned): the mean of half of its "
        f"{of.get('runs')} runs less that of the other half, all on the same prompts and noise. Intervals: 95 % t over "
        "seeds.",
        "trick, trap: p < .05 after Holm's correction over an arm's places; interactions, after that over all of them: "
        f"higher or lower. neutral: 90 % interval within ± {end['margin']:g} (entropy ± {verdict.ENTROPY_MARGIN:g} "
        "nats). Under three seeds: no verdict.",
        "Interaction: half of what one arm's effect differs by between the other's two levels.",
        f"Endpoint: mean of the last {end['last']} evaluations, never the best; whole curve: its mean height.",
    ]


def _draft(
    factors: dict[str, list[str]],
    measure: Measure,
    place: Place,
    effect: Effect,
    tokens: dict[str, float],
    lengths: dict[str, float],
) -> Draft:
    """One effect in one stratum."""
    stratum, rows, block = place
    main = len(effect.names) == 1
    up, down = fractional.split(rows, effect.signs)
    low, high = factors[effect.name] if main else ("", effect.name)
    return Draft(
        stratum,
        effect.name,
        high,
        low,
        fractional.by_seed(block, effect.signs, len(rows[0])),
        up,
        down,
        _relative(tokens, up, down) if main else math.nan,
        _relative(lengths, up, down) if main else math.nan,
        measure.sign if main else None,
        effect.confounded,
    )


def _relative(numbers: dict[str, float], up: Sequence[Entry], down: Sequence[Entry]) -> float:
    """Mean of the runs with the arm over the mean of those without, less 1; NaN where a side has none."""
    ours, theirs = (
        [numbers[e.run] for e in side if not math.isnan(numbers.get(e.run, math.nan))] for side in (up, down)
    )
    base = math.fsum(theirs) / len(theirs) if theirs else 0.0
    return math.fsum(ours) / len(ours) / base - 1 if ours and base else math.nan
