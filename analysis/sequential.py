"""Paired t intervals that stay valid when looked at after every seed: a group-sequential t test, exact at any n.

With p_n the ordinary one-sided t p-value of the first n of at most N pairs,

    x = min over the looks n = 3 … of p_n / (n / N)²,      sequential p = G(x) = P(x or less by chance at any look)

so that rejecting where G(x) < alpha errs with probability alpha in all looks together, whoever decides when to stop. It
is alpha spending of the Wang-Tsiatis kind: the look at n uses up little while n / N is small, where a t test of two or
three degrees of freedom can show little anyway. Of what was compared (`bench/sequential.py`) it takes the fewest seeds.
G is computed and not simulated: by Basu's theorem the t statistics of growing n are a Markov chain of one number. Looks
that are not taken only make it safer, so the size of a round does not enter; N does, and is fixed before the first one.

Assumes normal differences that are independent between seeds, as the t interval does. The mean of a contrast that
stopped early is a little too large. Leaves out: who goes on (`undecided.py`), families (`stats.holm` takes these p).
Sources: Wang, Tsiatis 1987 (Biometrics 43); Jennison, Turnbull 2000, chapters 2, 9 and 11 (repeated intervals, t).
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from analysis import stats as fixed
from analysis.stats import MIN_PAIRS, Paired

if TYPE_CHECKING:
    import numpy as np

CELLS = 160  # of the angle of the t statistic; twice as many move G by less than 0.3 %
GRID = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 6e-3, 0.012, 0.025, 0.05, 0.1, 0.2, 0.4, 0.7)  # where G is computed


class PairedTest(Protocol):
    """What `stats.paired` and `paired` with its `most` are alike in."""

    def __call__(self, differences: Sequence[float], confidence: float = 0.95) -> Paired: ...


def tests(manifest: dict[str, Any]) -> tuple[PairedTest, Callable[[Sequence[float], float], bool]]:
    """`paired` and `equivalent` as the sweep was designed: those of this file where it stops when decided."""
    if stop := manifest.get("stop"):
        return partial(paired, most=stop["max_seeds"]), partial(equivalent, most=stop["max_seeds"])
    return fixed.paired, fixed.equivalent


def said(stop: dict[str, Any]) -> str:
    """How the manifest's `stop` was judged, for the reports."""
    rounds, most, futility = stop["round"], stop["max_seeds"], stop.get("futility")
    looks = f"{rounds} round{'s' if rounds != 1 else ''} so far, {seeds({'stop': stop})} of at most {most}"
    given_up = (
        f" Given up (p): undecided, and the chance p that seeds up to {most} decide it is under {100 * futility:g} %, "
        "by their pairs and by what the sweep's arms are like."
        if futility
        else ""
    )
    return (
        f"Sequential design ({looks}): seeds were added only where nothing was decided; n is each contrast's own. "
        "Intervals and p are widened for peeking: 95 % over all looks together, by a group-sequential t test. A "
        f"difference that was decided early looks a little larger than it is.{given_up}"
    )


def seeds(manifest: dict[str, Any]) -> str:
    """Such as "3 seeds", or "3 … 6 seeds" where some cells were given more."""
    if stop := manifest.get("stop"):
        return f"{stop['first']} … {max(stop['wanted'].values(), default=0)} seeds"
    return f"{len(manifest['seeds'])} seeds"


def interval(manifest: dict[str, Any]) -> str:
    """What the intervals of a sweep's differences are, for captions and footnotes."""
    return "95 % interval over all looks together" if manifest.get("stop") else "95 % t interval over seeds"


def beside(manifest: dict[str, Any]) -> str:
    """A sentence for means and fits that are not judged, empty where seeds were not added by results."""
    return (
        " Seeds were added where nothing was decided: unequally, and these intervals are not widened for it."
        if manifest.get("stop")
        else ""
    )


def bands(manifest: dict[str, Any]) -> dict[str, str]:
    """`stats.BANDS` of single arms, as they are in this sweep."""
    note = " (not widened for the looks of `stop`)" if manifest.get("stop") else ""
    return fixed.BANDS | {"t": fixed.BANDS["t"] + note}


def share(n: float, most: int) -> float:
    """How much the look at n pairs may use up, relative to the last one: (n / most)²."""
    return (n / most) ** 2


def paired(differences: Sequence[float], confidence: float = 0.95, *, most: int) -> Paired:
    """mean, and the intersection over all looks n of mean_n ± t(1 - x·share(n), n - 1) · sd_n / √n, G(x) = alpha/2.

    p = 2 · the smaller of both one-sided sequential p: it is below alpha exactly where the interval leaves out 0. In
    the order of the seeds; under three pairs as `stats.paired`. Looks that contradict each other, which happens with
    probability below alpha, leave the point between them. Raises ValueError for no or more than `most` differences.
    """
    import numpy as np

    plain = fixed.paired(differences, confidence)
    if plain.n < MIN_PAIRS:
        return plain
    values = np.array(differences)
    p = 2 * min(float(p_by_look(values, most)[-1]), float(p_by_look(-values, most)[-1]))
    mean, error = _moments(values)
    half = error * [critical(n, most, (1 - confidence) / 2) for n in range(MIN_PAIRS, plain.n + 1)]
    low, high = float((mean - half).max()), float((mean + half).min())
    if low > high:
        low = high = (low + high) / 2
    return Paired(plain.mean, low, high, plain.sd, plain.n, min(1.0, p))


def equivalent(differences: Sequence[float], margin: float, alpha: float = 0.05, *, most: int) -> bool:
    """Two one-sided tests, each at level alpha over all looks: below the margin, and above -margin. False for n < 3."""
    import numpy as np

    if len(differences) < MIN_PAIRS:
        return False
    values = np.array(differences)
    return all(float(p_by_look(side, most, -margin)[-1]) < alpha for side in (values, -values))


def p_by_look(differences: "np.ndarray", most: int, null: float = 0.0) -> "np.ndarray":
    """The sequential p of "the mean is at most `null`" against "greater" after each look: [..., n] -> [..., n - 2].

    It can only fall while pairs are added. Differences that are all equal are no chance: p is 1, or 0 but for 1e-299.
    Raises ValueError for more than `most` pairs, since the looks would spend more than alpha.
    """
    import numpy as np
    from scipy import special

    if differences.shape[-1] > most:
        raise ValueError(f"{differences.shape[-1]} pairs, though stop.max_seeds planned for {most} at most")
    mean, error = _moments(differences)
    numbers = np.arange(MIN_PAIRS, differences.shape[-1] + 1)
    shares = np.array([share(n, most) for n in numbers])
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = special.stdtr(numbers - 1, -(mean - null) / error)
    tail = np.where(error > 0, tail, mean <= null)
    return chance(np.minimum.accumulate(tail / shares, axis=-1), most)


def _moments(differences: "np.ndarray") -> "tuple[np.ndarray, np.ndarray]":
    """Mean and its standard error at each look, [..., n] -> [..., n - 2]."""
    import numpy as np

    parts = [differences[..., :n] for n in range(MIN_PAIRS, differences.shape[-1] + 1)]
    mean = np.stack([part.mean(axis=-1) for part in parts], axis=-1)
    return mean, np.stack([part.std(axis=-1, ddof=1) / math.sqrt(part.shape[-1]) for part in parts], axis=-1)


def chance(x: "np.ndarray | float", most: int) -> "np.ndarray":
    """G(x): the probability that p_n ≤ x · share(n, most) at any n from 3 to `most`, where nothing is to be found."""
    import numpy as np

    return np.exp(_table(most)(np.log(np.clip(x, 1e-300, 1.0))))


@lru_cache(maxsize=4096)
def critical(n: int, most: int, alpha: float) -> float:
    """The t statistic of n pairs that a one-sided test at level alpha over all looks takes for a finding."""
    from scipy.optimize import brentq

    table = _table(most)
    x = math.exp(brentq(lambda log_x: float(table(log_x)) - math.log(alpha), -690.0, 0.0, xtol=1e-10))
    return _critical(x * share(n, most), n - 1)


def crossing(x: float, most: int, cells: int = CELLS) -> float:
    """G(x) without a table, by the chain u_n = Σd / √Σd² of normal d around 0.

    u_{n+1} = (u_n + r) / √(1 + r²) with r = d_{n+1} / √Σd², whose law is that of a t of n degrees of freedom over √n
    and does not depend on u_n: the ratios have no scale, so by Basu's theorem they tell nothing of Σd². t_n is
    √(n - 1) tan θ with u_n = √n sin θ. The law of θ among those that crossed at no look is kept as the mass of `cells`
    equal cells of (-π/2, θ of the boundary), each at its middle; masses beyond a boundary are exact for each cell.
    """
    import numpy as np

    edges = _edges(MIN_PAIRS, x, most, cells)
    below = _cap(edges, MIN_PAIRS - 2)
    mass, crossed = np.diff(below), 1.0 - below[-1]
    for n in range(MIN_PAIRS + 1, most + 1):
        u = math.sqrt(n - 1) * np.sin((edges[1:] + edges[:-1]) / 2)
        edges = _edges(n, x, most, cells)
        beyond = _beyond(math.sqrt(n) * np.sin(edges)[None, :], u[:, None], n - 1)
        above = mass @ beyond
        crossed += above[-1]
        mass = above[:-1] - above[1:]
    return float(crossed)


def _edges(n: int, x: float, most: int, cells: int) -> "np.ndarray":
    import numpy as np

    boundary = math.atan(_critical(x * share(n, most), n - 1) / math.sqrt(n - 1))
    return -math.pi / 2 + (boundary + math.pi / 2) * (1 - np.cos(np.linspace(0.0, math.pi, cells + 1))) / 2


def _beyond(y: "np.ndarray", u: "np.ndarray", n: int) -> "np.ndarray":
    """P(u_{n+1} > y | u_n = u): with r = tan φ it is √(1 + u²) sin(φ + atan u), and φ has density ∝ cosⁿ⁻¹ φ."""
    import numpy as np

    turn, a = np.arctan(u), np.arcsin(np.clip(y / np.sqrt(1 + u**2), -1.0, 1.0))
    first = _cap(math.pi - a - turn, n - 1) - _cap(a - turn, n - 1)
    return first + _cap(-math.pi - a - turn, n - 1)  # a second arc, where u is low and y lower


def _cap(angle: "np.ndarray", power: int) -> "np.ndarray":
    """The share of cos^power on (-π/2, π/2) that lies below `angle`, by the recursion of ∫ cos^k."""
    import numpy as np

    angle = np.clip(angle, -math.pi / 2, math.pi / 2)
    sine, cosine = np.sin(angle), np.cos(angle)
    area, whole = (angle + math.pi / 2, math.pi) if power % 2 == 0 else (sine + 1.0, 2.0)
    for k in range(2 + power % 2, power + 1, 2):
        area = cosine ** (k - 1) * sine / k + (k - 1) / k * area
        whole *= (k - 1) / k
    return area / whole


@lru_cache(maxsize=64)
def _table(most: int) -> Callable[[float], "np.ndarray"]:
    """log x -> log G: monotone cubics through GRID, G(1) = 1, and far below the sum over looks, which it never tops."""
    import numpy as np
    from scipy.interpolate import PchipInterpolator

    union = sum(share(n, most) for n in range(MIN_PAIRS, most + 1))
    known = {1e-300: 1e-300 * union, **{x: crossing(x, most) for x in GRID}, 1.0: 1.0}
    found: Callable[[float], np.ndarray] = PchipInterpolator(np.log(list(known)), np.log(list(known.values())))
    return found


def _critical(tail: float, df: int) -> float:
    from scipy import stats

    return float(stats.t.isf(min(tail, 1.0), df))
