"""How likely more seeds are to decide something: what a sweep gives up by, where the chance is too small.

Of n pairs with mean m and standard deviation s, and with nothing known before them (flat in μ and log σ), the next is

    d = m + s · √(1 + 1/n) · T,     T of Student's t with n - 1 degrees of freedom

and the one after it follows in the same way from the mean and deviation of n + 1: mean and deviation are both as
uncertain as so few pairs leave them. DRAWS such futures (the points of a Sobol sequence, so that the answer depends on
nothing but the pairs) are judged by the test that will judge the real one, at every look; the chance is the share of
those that it decides, to about 0.01.

Giving up adds no error: the test in `sequential.py` errs as seldom as it says whoever stops when. Leaves out: who asks
for seeds (`undecided.py`), at which chance to give up (`bench/futility.py` compares some).
Sources: Spiegelhalter, Freedman, Blackburn 1986 (Controlled Clinical Trials 7), predictive power; Gelman et al.,
Bayesian Data Analysis, section 3.2, the predictive law; Jennison, Turnbull 2000, chapter 10.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from analysis import sequential
from analysis.load import Entry
from analysis.stats import MIN_PAIRS
from harness.store import SETTLED

if TYPE_CHECKING:
    import numpy as np

DRAWS = 4096  # a power of two


@dataclass(frozen=True)
class Line:
    """What may come to be shown: that the mean lies above (sign 1) or below (-1) a number, at a one-sided level."""

    null: float
    sign: int
    level: "float | np.ndarray"  # over all looks; an array where differences have rows


def least(stop: dict[str, Any] | None) -> float:
    """The chance under which a sweep with the manifest's `stop` gives up; 0 where it never does."""
    return float((stop or {}).get("futility") or 0.0)


def ended(entries: Iterable[Entry]) -> bool:
    """Whether no run is to come any more of those that are planned; a failed one may, after `retry`."""
    return all(entry.state in SETTLED for entry in entries)


def said(chance: float, stop: dict[str, Any] | None) -> str:
    """Such as "given up: a decision by 10 seeds had a chance of 4 %"."""
    return f"given up: a decision by {(stop or {})['max_seeds']} seeds had a chance of {percent(chance)}"


def percent(chance: float) -> str:
    return f"{100 * chance:.0f} %" if chance >= 0.01 else "under 1 %"


def of_arm(
    stop: dict[str, Any] | None, differences: Sequence[float], missing: int, level: float, margin: float
) -> float:
    """`arm` of a contrast in a sweep with the manifest's `stop`, `missing` of whose pairs were planned and are lost.

    NaN where nothing is given up: no `futility`, or all seeds have been had.
    """
    if not stop or not least(stop):
        return math.nan
    more = stop["max_seeds"] - len(differences) - missing
    return arm(differences, level, margin, stop["max_seeds"], more) if more > 0 else math.nan


def arm(differences: Sequence[float], level: float, margin: float, most: int, more: int) -> float:
    """The chance that an arm is trick, trap or neutral when `more` pairs have come, most of them at most in all.

    `level`: two-sided, what Holm's correction leaves the arm now. 1 under three pairs, which tell no deviation.
    """
    import numpy as np

    if len(differences) < MIN_PAIRS:
        return 1.0
    above, below, least, greatest = crossed(np.array(differences), arm_lines(level, margin), most, more)
    return float((above | below | (least & greatest)).mean())


def arm_lines(level: "float | np.ndarray", margin: float, alpha: float = 0.05) -> list[Line]:
    """Above 0, below 0, above -margin, below the margin."""
    half = level / 2
    return [Line(0.0, 1, half), Line(0.0, -1, half), Line(-margin, 1, alpha), Line(margin, -1, alpha)]


def crossed(differences: "np.ndarray", lines: Sequence[Line], most: int, more: int, draws: int = DRAWS) -> "np.ndarray":
    """[..., n] differences, n ≥ 3 -> bool[lines, ..., draws]: is each line crossed at any look up to n + more?

    Looks that have been taken count: what is shown stays shown. `most` is the N of `sequential.py`.
    """
    import numpy as np

    n = differences.shape[-1]
    found = np.zeros((len(lines), *differences.shape[:-1], draws), bool)
    steps = _steps(n, more, draws)
    for k in range(MIN_PAIRS, n + more + 1):
        if k <= n:
            mean, square = (moment[..., None] for moment in _moments(differences[..., :k]))
        else:
            step = np.sqrt(square) * steps[k - n - 1]
            mean, square = mean + step / k, square + step**2 * ((k - 1) / k)
        error = np.sqrt(square / (k * (k - 1)))
        for place, line in enumerate(lines):
            found[place] |= line.sign * (mean - line.null) > _critical(k, most, line.level) * error
    return found


def _moments(part: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
    """Mean, and Σ (d - mean)²."""
    return part.mean(axis=-1), part.var(axis=-1) * part.shape[-1]


def _critical(k: int, most: int, level: "float | np.ndarray") -> "float | np.ndarray":
    """As `sequential.critical`; of levels [...] as [..., 1]."""
    import numpy as np

    if np.ndim(level) == 0:
        return sequential.critical(k, most, float(level))
    known, place = np.unique(level, return_inverse=True)
    values = np.array([sequential.critical(k, most, float(one)) for one in known])
    found: np.ndarray = values[place.reshape(np.shape(level))][..., None]
    return found


@lru_cache(maxsize=256)
def _steps(n: int, more: int, draws: int) -> "np.ndarray":
    """[more, draws] of (d_k - m) / √Σ (d - m)² of the k - 1 pairs before, for k = n + 1 … n + more."""
    import numpy as np
    from scipy import special
    from scipy.stats import qmc

    if not more:
        return np.empty((0, draws))
    points = qmc.Sobol(more, scramble=False).random(draws).T + 0.5 / draws
    k = np.arange(n + 1, n + more + 1)[:, None]
    found: np.ndarray = special.stdtrit(k - 2, points) * np.sqrt((1 + 1 / (k - 1)) / (k - 2))
    return found
