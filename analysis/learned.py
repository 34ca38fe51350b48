"""What the arms of a sweep tell of each other: how much a pair's difference scatters, and how large effects are there.

A pair's difference is d ~ N(μ, σ²), and over the arms of a sweep, with weights w_k of a few spreads τ_k,

    σ² ~ d₀ s₀² / χ²(d₀),      μ / σ ~ Σ w_k N(0, τ_k²)

d₀ and s₀ follow from mean and variance of the arms' log variances, w from a few rounds of expectation and maximisation
of what the arms' means are likely under. With κ = 1/τ², n pairs of mean m and Σ(d - m)² = Q leave of component k

    weight ∝ w_k (1 + n τ²)^-½ S^(-(d₀ + n)/2),     S = d₀ s₀² + Q + m² n / (1 + n τ²)
    d_next = m n / (κ + n) + √(S / (d₀ + n) · (1 + 1/(κ + n))) · T(d₀ + n)

FLAT is the law of one arm that knows nothing of others (κ = 0, d₀ = -1): Student's t with n - 1 degrees of freedom.
A law tells only who is worth more seeds (`futility.py`); no verdict is read off it.
Sources: Smyth 2004 (Stat. Appl. Genet. Mol. Biol. 3), section 6.2, d₀ and s₀; Stephens 2017 (Biostatistics 18), the
mixture, here of standardised effects; Gelman et al., Bayesian Data Analysis, section 3.3, the predictive law.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.stats import MIN_PAIRS

if TYPE_CHECKING:
    import numpy as np

ENOUGH = 8  # arms with two pairs or more; fewer are taken one by one
TAUS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # standard deviations of a pair
MOST_DF = 1000.0  # d₀ of arms whose variances differ no more than by chance
ROUNDS = 200


@dataclass(frozen=True)
class Law:
    """d₀, s₀² (squares of the differences' unit), and τ_k with w_k."""

    df: float
    square: float
    taus: tuple[float, ...]
    weights: tuple[float, ...]


FLAT = Law(-1.0, 0.0, (math.inf,), (1.0,))


def law(arms: Sequence[Sequence[float]]) -> Law:
    """The law of these arms' paired differences; FLAT where fewer than ENOUGH have two pairs and some scatter."""
    import numpy as np

    known = [np.array(arm) for arm in arms if len(arm) > 1 and np.ptp(arm) > 0]
    if len(known) < ENOUGH:
        return FLAT
    n, mean = np.array([len(arm) for arm in known]), np.array([arm.mean() for arm in known])
    squares = np.array([((arm - arm.mean()) ** 2).sum() for arm in known])
    df, square = _variances(squares / (n - 1), n - 1)
    plain = Law(df, square, TAUS, (1 / len(TAUS),) * len(TAUS))
    weights, alike = np.array(plain.weights), likelihoods(plain, n, mean, squares)
    for _ in range(ROUNDS):
        each = weights * alike
        # one arm's worth of every τ alike: the estimate of a few arms would leave none to those that it has not seen
        weights = ((each / each.sum(axis=1, keepdims=True)).sum(axis=0) + 1 / len(TAUS)) / (len(known) + 1)
    return Law(df, square, TAUS, tuple(weights.tolist()))


def likelihoods(law: Law, n: "np.ndarray", mean: "np.ndarray", squares: "np.ndarray") -> "np.ndarray":
    """[...] pairs, their means and Q -> [..., K], relative to the likeliest component of each arm."""
    import numpy as np

    n = np.asarray(n)[..., None]
    wide = 1 + n * np.array(law.taus) ** 2
    with np.errstate(divide="ignore"):
        log = -0.5 * np.log(wide) - (law.df + n) / 2 * np.log(scatter(law, n, mean[..., None], squares[..., None]))
    found: np.ndarray = np.exp(log - log.max(axis=-1, keepdims=True))
    return found


def scatter(law: Law, n: "np.ndarray | int", mean: "np.ndarray", squares: "np.ndarray") -> "np.ndarray":
    """S, [..., 1] -> [..., K]."""
    import numpy as np

    found: np.ndarray = law.df * law.square + squares + mean**2 * n / (1 + n * np.array(law.taus) ** 2)
    return found


def fewest(law: Law) -> int:
    """Pairs that an arm has to have: its own tell the scatter where the law does not."""
    return 2 if law.df > 0 else MIN_PAIRS


def chosen(law: Law, n: int, mean: "np.ndarray", squares: "np.ndarray", points: "np.ndarray") -> "np.ndarray":
    """[..., 1] and [draws] -> [..., draws]: the component of each draw, in the order of τ, by its weight."""
    import numpy as np

    if len(law.taus) == 1:
        return np.zeros((*mean.shape[:-1], len(points)), int)
    weights = np.array(law.weights) * likelihoods(law, np.array(n), mean[..., 0], squares[..., 0])
    below = np.cumsum(weights, axis=-1) / weights.sum(axis=-1, keepdims=True)
    found: np.ndarray = (points > below[..., :-1, None]).sum(axis=-2)
    return found


def _variances(variances: "np.ndarray", df: "np.ndarray") -> tuple[float, float]:
    """d₀, to a whole number, and s₀² of variances of ν degrees of freedom.

    e = log s² - ψ(ν/2) + log(ν/2) has the mean log s₀² - ψ(d₀/2) + log(d₀/2) and the variance ψ'(ν/2) + ψ'(d₀/2).
    """
    import numpy as np
    from scipy import optimize, special

    e = np.log(variances) - special.digamma(df / 2) + np.log(df / 2)
    excess = float(e.var(ddof=1) - special.polygamma(1, df / 2).mean())
    d0 = MOST_DF
    if excess > float(special.polygamma(1, MOST_DF / 2)):
        half = optimize.brentq(lambda half: float(special.polygamma(1, half)) - excess, 1e-3, MOST_DF / 2)
        d0 = max(1.0, float(round(2 * half)))
    return d0, math.exp(float(e.mean()) + float(special.digamma(d0 / 2)) - math.log(d0 / 2))
