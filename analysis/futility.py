"""How likely more seeds are to decide something: what a sweep gives up by, where the chance is too small.

The pairs to come are drawn from what n pairs leave open under the law of the sweep's arms (`learned.py`), one after the
other: mean and deviation are both as uncertain as so few pairs leave them. Where no law was learned (few arms, a
claim's other metrics) nothing is known but the pairs; of their mean m and standard deviation s the next is

    d = m + s · √(1 + 1/n) · T,     T of Student's t with n - 1 degrees of freedom

DRAWS such futures (the points of a Sobol sequence, so that the answer depends on nothing but the pairs) are judged by
the test that will judge the real one, at every look; the chance is the share of those that it decides, to about 0.01.

Giving up adds no error: the test in `sequential.py` errs as seldom as it says whoever stops when. Leaves out: who asks
for seeds (`undecided.py`), at which chance to give up (`bench/futility.py` compares some).
Sources: Spiegelhalter, Freedman, Blackburn 1986 (Controlled Clinical Trials 7), predictive power; Gelman et al.,
Bayesian Data Analysis, section 3.2, the predictive law; Jennison, Turnbull 2000, chapter 10.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from analysis import learned, scores, sequential
from analysis.load import Entry, Sweep
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


def law(sweep: Sweep, numbers: scores.Both) -> learned.Law:
    """Of all arms of a sweep but its controls, by numbers of its endpoint; FLAT where nothing is ever given up."""
    if not least(sweep.manifest.get("stop")):
        return learned.FLAT
    sides = [side for axis in sweep.baseline if axis not in sweep.controls for side in scores.sides(sweep, axis)]
    whole = [side for side in sides if not scores.is_censored(side.ours, side.theirs)]
    return learned.law([scores.pair_by(numbers, side.ours, side.theirs).differences for side in whole])


def planned(*sides: Iterable[Entry]) -> int:
    """Seeds for which every side has a run."""
    return len(set.intersection(*({entry.seed for entry in side} for side in sides)))


def said(chance: float, stop: dict[str, Any] | None) -> str:
    """Such as "given up: a decision by 10 seeds had a chance of 4 %"."""
    return f"given up: a decision by {(stop or {})['max_seeds']} seeds had a chance of {percent(chance)}"


def percent(chance: float) -> str:
    return f"{100 * chance:.0f} %" if chance >= 0.01 else "under 1 %"


def of_arm(
    stop: dict[str, Any] | None,
    differences: Sequence[float],
    missing: int,
    level: float,
    margin: float,
    law: learned.Law,
) -> float:
    """`arm` of a contrast in a sweep with the manifest's `stop`, `missing` of whose pairs were planned and are lost.

    NaN where nothing is given up: no `futility`, or all seeds have been had.
    """
    if not stop or not least(stop):
        return math.nan
    more = stop["max_seeds"] - len(differences) - missing
    return arm(differences, level, margin, stop["max_seeds"], more, law) if more > 0 else math.nan


def arm(
    differences: Sequence[float], level: float, margin: float, most: int, more: int, law: learned.Law = learned.FLAT
) -> float:
    """The chance that an arm is trick, trap or neutral when `more` pairs have come, most of them at most in all.

    `level`: two-sided, what Holm's correction leaves the arm now. 1 where the pairs are too few for the law.
    """
    import numpy as np

    if len(differences) < learned.fewest(law):
        return 1.0
    above, below, least, greatest = crossed(np.array(differences), arm_lines(level, margin), most, more, law)
    return float((above | below | (least & greatest)).mean())


def arm_lines(level: "float | np.ndarray", margin: float, alpha: float = 0.05) -> list[Line]:
    """Above 0, below 0, above -margin, below the margin."""
    half = level / 2
    return [Line(0.0, 1, half), Line(0.0, -1, half), Line(-margin, 1, alpha), Line(margin, -1, alpha)]


def crossed(
    differences: "np.ndarray",
    lines: Sequence[Line],
    most: int,
    more: int,
    law: learned.Law = learned.FLAT,
    draws: int = DRAWS,
) -> "np.ndarray":
    """[..., n] differences -> bool[lines, ..., draws]: is each line crossed at any look up to n + more?

    Looks that have been taken count: what is shown stays shown. `most` is the N of `sequential.py`.
    """
    import numpy as np

    n = differences.shape[-1]
    found = np.zeros((len(lines), *differences.shape[:-1], draws), bool)
    mean, square = (moment[..., None] for moment in _moments(differences))
    future = _future(law, n, more, mean, square, draws)
    for k in range(min(MIN_PAIRS, n), n + more + 1):
        if k <= n:
            mean, square = (moment[..., None] for moment in _moments(differences[..., :k]))
        else:
            step = next(future) - mean
            mean, square = mean + step / k, square + step**2 * ((k - 1) / k)
        if k < MIN_PAIRS:
            continue
        error = np.sqrt(square / (k * (k - 1)))
        for place, line in enumerate(lines):
            found[place] |= line.sign * (mean - line.null) > _critical(k, most, line.level) * error
    return found


def _future(
    law: learned.Law, n: int, more: int, mean: "np.ndarray", square: "np.ndarray", draws: int
) -> Iterator["np.ndarray"]:
    """The next `more` pairs after n, each [..., draws]; mean and Σ (d - mean)² of the n are [..., 1]."""
    import numpy as np

    if not more:
        return
    which, _ = _points(more, draws)
    chosen = learned.chosen(law, n, mean, square, which)
    with np.errstate(divide="ignore"):
        kappa = np.array(law.taus)[chosen] ** -2.0  # inf for effects that are 0
    scatter = np.take_along_axis(learned.scatter(law, n, mean, square), chosen, axis=-1)
    centre = mean / (1 + kappa / n)
    for k in range(n, n + more):
        step = np.sqrt(scatter / (law.df + k) * (1 + 1 / (kappa + k))) * _quantiles(law.df + k, k - n, more, draws)
        yield centre + step
        scatter = scatter + step**2 / (1 + 1 / (kappa + k))
        centre = centre + step / (kappa + k + 1)


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


@lru_cache(maxsize=16)
def _points(more: int, draws: int) -> "tuple[np.ndarray, np.ndarray]":
    """Which component a future is of, [draws], and where each of its pairs lies, [more, draws]; all within (0, 1)."""
    from scipy.stats import qmc

    points = qmc.Sobol(1 + more, scramble=False).random(draws).T + 0.5 / draws
    return points[-1], points[:-1]


@lru_cache(maxsize=256)
def _quantiles(df: float, place: int, more: int, draws: int) -> "np.ndarray":
    """[draws] of T(df), for the pair at `place` of those to come."""
    from scipy import special

    found: np.ndarray = special.stdtrit(df, _points(more, draws)[1][place])
    return found
