"""How likely more seeds are to decide a claim, and which of its findings could still decide it.

An undecided claim is decided by one contradiction, or by an outcome of every finding that is open. With q the chance
that a finding gets an outcome and c that the outcome is a contradiction, each by `futility.py`,

    chance = 1 - Π (1 - c)  +  Π (q - c)

as if findings were independent: those that share a baseline are not, and get outcomes together a little more often.
Leaves out: judging (`claims.py`), who asks for seeds (`undecided.py`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from analysis import expectations, futility
from analysis.stats import MIN_PAIRS

if TYPE_CHECKING:
    from analysis.claims import Draft, Finding

LEVEL = 0.05  # of an interval that supports, and of both one-sided tests of "no difference"


def judged(
    stop: dict[str, Any] | None, findings: Sequence["Finding"], drafts: Sequence["Draft"], levels: Sequence[float]
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
    each = {
        place: chances(draft, levels[place], stop["max_seeds"], left[place])
        for place, draft in enumerate(drafts)
        if opened[place]
    }
    found = [replace(f, chance=each[place][0]) if place in each else f for place, f in enumerate(findings)]
    return found, together(each.values())


def together(each: Iterable[tuple[float, float]]) -> float:
    """The chance of a claim whose open findings have these (q, c)."""
    each = list(each)
    return 1 - math.prod(1 - c for _, c in each) + math.prod(q - c for q, c in each)


def planned(draft: "Draft") -> int:
    """Seeds for which every level that is compared has a run."""
    return len(set.intersection(*({entry.seed for entry in side} for side in draft.sides)))


def chances(draft: "Draft", level: float, most: int, more: int) -> tuple[float, float]:
    """(q, c) of a finding that `more` pairs may be added to. Nothing is known of one or two pairs: (1, 0)."""
    import numpy as np

    n, finding = len(draft.values), draft.finding
    if n < MIN_PAIRS:
        return (1.0 if n and more else 0.0), 0.0
    lines = futility.arm_lines(level, finding.margin)
    support = [replace(lines[0], level=LEVEL / 2), replace(lines[1], level=LEVEL / 2)]
    crossed = futility.crossed(np.array(draft.values), [*lines, *support], most, more)
    any_outcome, against = expectations.outcomes_in(finding.expect, crossed)
    return float(any_outcome.mean()), float(against.mean())
