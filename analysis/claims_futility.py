"""How likely more seeds are to decide a claim, and which of its findings could still decide it.

An undecided claim is decided by one contradiction, or by an outcome of every finding that is open; seeds go to what the
likelier of the two needs. With q the chance
that a finding gets an outcome and c that the outcome is a contradiction, each by `futility.py`,

    chance = 1 - Π (1 - c)  +  Π (q - c)

as if findings were independent: those that share a baseline are not, and get outcomes together a little more often.
Leaves out: judging (`claims.py`), who asks for seeds (`undecided.py`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from analysis import expectations, futility, learned

if TYPE_CHECKING:
    from analysis.claims import Draft, Finding

Laws = dict[tuple[str, str], learned.Law]  # by metric and reading; FLAT of others
LEVEL = 0.05  # of an interval that supports, and of both one-sided tests of "no difference"


def judged(
    stop: dict[str, Any] | None,
    findings: Sequence["Finding"],
    drafts: Sequence["Draft"],
    levels: Sequence[float],
    laws: Laws,
) -> tuple[list["Finding"], float]:
    """The findings with the chance of those that are open, and the claim's; NaN where nothing is given up or open.

    `levels`: at which Holm's procedure tests each. Nor is a chance given while runs behind a finding have not ended.
    """
    opened = [f.outcome == "undecided" and not f.control for f in findings]
    settled = not any(opened) or any(f.outcome == "contradicted" for f in findings)
    if stop is None or not futility.least(stop) or settled:
        return list(findings), math.nan
    asked = [draft for draft, on in zip(drafts, opened, strict=True) if on]
    left = [stop["max_seeds"] - planned(draft) for draft in drafts]
    ended = all(futility.ended(side) for draft in asked for side in draft.sides)
    if not ended or max(stop["max_seeds"] - planned(draft) for draft in asked) <= 0:
        return list(findings), math.nan
    at = [LEVEL / len(drafts) if math.isnan(level) else level for level in levels]
    each = {
        place: chances(draft, at[place], stop["max_seeds"], left[place], laws)
        for place, draft in enumerate(drafts)
        if opened[place]
    }
    found = [
        replace(f, chance=each[place][0], against=each[place][1]) if place in each else f
        for place, f in enumerate(findings)
    ]
    return found, together(each.values())


def together(each: Iterable[tuple[float, float]]) -> float:
    """The chance of a claim whose open findings have these (q, c)."""
    each = list(each)
    return 1 - math.prod(1 - c for _, c in each) + math.prod(q - c for q, c in each)


def asking(findings: Sequence["Finding"], least: float) -> list[int]:
    """The places of the findings that an undecided claim gets seeds for; all open ones where `least` is 0.

    By the likelier of the ways in which it may be decided: an outcome of each takes all of the open ones, a
    contradiction takes one, so that the likeliest goes first, and the next one where that has lost its chance.
    """
    opened = [i for i, f in enumerate(findings) if f.outcome == "undecided" and f.effect is not None and not f.control]
    if not least or any(math.isnan(findings[i].chance) for i in opened):
        return opened
    likeliest = max((findings[i].against for i in opened), default=0.0)
    by_all = math.prod(findings[i].chance - findings[i].against for i in opened)
    by_one = 1 - math.prod(1 - findings[i].against for i in opened)
    return opened if by_all >= by_one else [i for i in opened if findings[i].against == likeliest]


def planned(draft: "Draft") -> int:
    """Seeds for which every level that is compared has a run."""
    return futility.planned(*draft.sides)


def chances(draft: "Draft", level: float, most: int, more: int, laws: Laws | None = None) -> tuple[float, float]:
    """(q, c) of a finding that `more` pairs may be added to; (1, 0) where the pairs are too few for its law."""
    import numpy as np

    n, finding = len(draft.values), draft.finding
    law = (laws or {}).get((finding.metric, finding.read), learned.FLAT)
    if n < learned.fewest(law):
        return (1.0 if n and more else 0.0), 0.0
    lines = futility.arm_lines(level, finding.margin)
    support = [replace(lines[0], level=LEVEL / 2), replace(lines[1], level=LEVEL / 2)]
    crossed = futility.crossed(np.array(draft.values), [*lines, *support], most, more, law)
    any_outcome, against = expectations.outcomes_in(finding.expect, crossed)
    return float(any_outcome.mean()), float(against.mean())
