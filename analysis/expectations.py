"""What numbers say of an expectation: supported, contradicted, no difference or undecided.

The same rules twice: on the intervals of the seeds at hand, and on what futures of more seeds would show. Leaves out:
the claims (`claims.py`), their futures (`claims_futility.py`).
"""

from typing import TYPE_CHECKING

from analysis import stats, verdict

if TYPE_CHECKING:
    import numpy as np

TRENDS = ("increasing", "not_increasing")
EXPECTATIONS = ("higher", "lower", "not_higher", "no_difference", *TRENDS)


def outcome_of(expect: str, effect: stats.Paired, narrow: stats.Paired, p_holm: float, margin: float) -> str:
    """What a 95 % interval (`effect`), a 90 % one (`narrow`) and the adjusted p say of an expectation.

    "No difference" and its like are two one-sided tests at 5 %: the 90 % interval within ± margin, or under it.
    """
    within = -margin < narrow.low and narrow.high < margin
    opposed = p_holm < verdict.ALPHA
    if expect in ("higher", "increasing", "lower"):
        toward, away = (effect.high < 0, effect.mean > 0) if expect == "lower" else (effect.low > 0, effect.mean < 0)
        if toward:
            return "supported"
        return "contradicted" if away and opposed else "no difference" if within else "undecided"
    if expect in ("not_higher", "not_increasing"):
        if narrow.high < margin:
            return "supported"
        return "contradicted" if effect.mean > 0 and opposed else "undecided"
    return "supported" if within else "contradicted" if opposed else "undecided"


def outcomes_in(expect: str, crossed: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
    """Whether there is an outcome, and whether it is a contradiction, by the rules of `outcome_of`, in futures.

    `crossed`: above and below 0 at Holm's level, above -margin, below margin, above and below 0 at the plain level.
    """
    up, down, least, most, plainly_up, plainly_down = crossed
    within = least & most
    if expect in ("higher", "increasing", "lower"):
        for_it, against = (plainly_down, up) if expect == "lower" else (plainly_up, down)
        return for_it | against | within, against & ~for_it
    if expect in ("not_higher", "not_increasing"):
        return most | up, up & ~most
    return within | up | down, (up | down) & ~within
