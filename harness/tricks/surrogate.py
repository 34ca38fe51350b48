"""Slot `surrogate`: the objective of one token, which carries the gradient.

logratio[B,T], advantage[B,T], mask[B,T] -> [B,T], to be maximised. Rows see no other row. logratio is
log π_θ - log π_old, 0 where masked.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def clip(
    logratio: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    low: float = 0.2,
    high: float = 0.2,
) -> Float[Tensor, "B T"]:
    """S = min(ρ A, clip(ρ, 1 - low, 1 + high) A) with ρ = exp(logratio); high > low is "clip higher".

    The gradient is 0 exactly where A > 0 and ρ > 1 + high, or A < 0 and ρ < 1 - low. No dual clip; ρ is not
    bounded for A < 0.

    Ref: arXiv:1707.06347 eq. 7; arXiv:2503.14476 eq. 10; arXiv:2508.08221 eq. 8.
    """
    ratio = logratio.exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)
