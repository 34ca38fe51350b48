"""Slot `surrogate`: the objective of one token, which carries the gradient.

logratio[B,T], advantage[B,T], mask[B,T] -> [B,T], to be maximised. Rows see no other row. logratio is
log π_θ - log π_old, 0 where masked. sg[·] stops the gradient.
"""

import math

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
    return _clipped(logratio.exp(), advantage, low, high)


def dual_clip(
    logratio: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    low: float = 0.2,
    high: float = 0.2,
    c: float = 3.0,
) -> Float[Tensor, "B T"]:
    """S = max(clip(ρ, A), c A) where A < 0, else clip(ρ, A): a bound on what one very unlikely token can cost.

    The field disagrees on c: 3 (verl, always on), 1 + 2 · clip = 1.4 (ROLL).

    Ref: arXiv:1912.09729 eq. 5.
    """
    clipped = clip(logratio, advantage, mask, low=low, high=high)
    return torch.where(advantage < 0, torch.maximum(clipped, c * advantage), clipped)


def reinforce(
    logratio: Float[Tensor, "B T"], advantage: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """S = A · logratio, whose gradient A ∇ log π is the policy gradient without a ratio: no clip, no correction.

    Ref: arXiv:2402.14740 eq. 3; Williams 1992.
    """
    return advantage * logratio


def gspo(
    logratio: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    low: float = 3e-4,
    high: float = 4e-4,
) -> Float[Tensor, "B T"]:
    """S = min(s A, clip(s, 1 - low, 1 + high) A), s = sg[exp(mean_t logratio)] · exp(logratio - sg[logratio]).

    The ratio is the sequence's, the geometric mean of its tokens' ratios over `mask`; the stop-gradient form gives a
    token its own advantage. A row without tokens has s = 1.

    Ref: arXiv:2507.18071 (GSPO, in its token form; section 5.1 for the clips).
    """
    sequence = _row_mean(logratio, mask).detach()
    return _clipped((sequence + logratio - logratio.detach()).exp(), advantage, low, high)


def cispo(
    logratio: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    low: float = 1.0,
    high: float = 4.0,
) -> Float[Tensor, "B T"]:
    """S = sg[clip(ρ, 1 - low, 1 + high)] · A · logratio: the weight is clipped, no token loses its gradient.

    low = 1 sets no lower bound. The field disagrees on what the knob means: the cap itself (TRL), or 1 + high (here,
    verl, SkyRL).

    Ref: arXiv:2506.13585 eqs. 4 and 5 (MiniMax-M1); arXiv:2510.13786 (cap 5).
    """
    return logratio.detach().exp().clamp(1 - low, 1 + high) * advantage * logratio


def sapo(
    logratio: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    tau_positive: float = 1.0,
    tau_negative: float = 1.05,
) -> Float[Tensor, "B T"]:
    """S = (4/τ) · sigmoid(τ (ρ - 1)) · A, τ = tau_positive where A > 0, else tau_negative: a soft clip.

    The gradient is A at ρ = 1; its factor on ρ A fades on both sides of it, and no token loses it altogether.

    Ref: arXiv:2511.20347 (SAPO).
    """
    tau = torch.where(advantage > 0, tau_positive, tau_negative)
    return 4 / tau * (tau * (logratio.exp() - 1)).sigmoid() * advantage


def gmpo(
    logratio: Float[Tensor, "B T"],
    advantage: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    low: float = 0.4,
    high: float = 0.4,
) -> Float[Tensor, "B T"]:
    """S = A · exp(mean_t c), c = min(logratio, high) where A ≥ 0, else max(logratio, -low), on every token of a row.

    The geometric mean of the clipped ratios over `mask`; the clips are in log space. It assumes one advantage per row.
    Meant for `weight: sequence_mean`, which then counts each row once.

    Ref: arXiv:2507.20673 (GMPO; clips e^±0.4).
    """
    clipped = torch.where(advantage >= 0, logratio.clamp(max=high), logratio.clamp(min=-low))
    return advantage * _row_mean(clipped, mask).exp()


def topr(
    logratio: Float[Tensor, "B T"], advantage: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], *, cap: float = 1.0
) -> Float[Tensor, "B T"]:
    """S = A · logratio where A ≥ 0, else sg[min(ρ, cap)] · A · logratio: wrong answers fade as they become unlikely.

    The paper's ratio is the sequence's; per token here, as ROLL has it.

    Ref: arXiv:2503.14286 (TOPR).
    """
    weight = torch.where(advantage < 0, logratio.detach().clamp(max=math.log(cap)).exp(), 1.0)
    return weight * advantage * logratio


def _clipped(ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    """min(ρ A, clip(ρ, 1 - low, 1 + high) A)."""
    return torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)


def _row_mean(x: Tensor, mask: Tensor) -> Tensor:
    """The mean over the masked tokens of each row, [B, 1]; 0 for a row without any."""
    return torch.where(mask, x, 0.0).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
