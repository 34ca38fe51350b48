"""Slot `advantage`: how good a sample is, given the others. rewards[P,G], counted[P,G] -> [P,G]; no gradient.

Statistics run over counted samples only; a sample that is not counted has advantage 0. Standard deviations have
ddof 1 and `eps` is added to them. Spread is judged by max == min, never by a computed standard deviation, whose
float residue would be amplified by 1/eps.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def none(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    """A = r. With rewards {1, 0} a wrong answer has no gradient at all.

    Ref: arXiv:2508.08221 figure 4, "No Normalization".
    """
    return rewards * counted


def group_mean(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    """A = r - mean_g(r): the mean over the group. A group with one counted sample, or all equal, gives 0.

    Ref: arXiv:2503.20783 eq. 3 (Dr. GRPO); arXiv:2508.08221 eq. 7 read at group level.
    """
    return _centred(rewards, counted, dim=-1)


def batch_mean(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    """A = r - mean_batch(r): the mean over all P·G samples. A batch of equal rewards gives 0.

    Ref: arXiv:2508.08221 eq. 7 read as its text does, at batch level.
    """
    return _centred(rewards.reshape(1, -1), counted.reshape(1, -1), dim=-1).reshape(rewards.shape)


def group_z(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"], *, eps: float = 1e-6) -> Float[Tensor, "P G"]:
    """A = (r - mean_g(r)) / (std_g(r) + eps), ddof 1; a group of one or of equal rewards gives 0.

    The field disagrees: one right in four gives 1.5000 (ddof 1, eps 1e-6), 1.4997 (eps 1e-4) or 1.7321 (ddof 0).

    Ref: arXiv:2402.03300 eq. 3; arXiv:2508.08221 eq. 5.
    """
    return _centred(rewards, counted, dim=-1) / (_std(rewards, counted) + eps)


def batch_z(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"], *, eps: float = 1e-6) -> Float[Tensor, "P G"]:
    """A = (r - mean_batch(r)) / (std_batch(r) + eps), ddof 1 over all P·G samples; equal rewards give 0.

    Groups without spread get an advantage, unlike under `group_z`.

    Ref: arXiv:2508.08221 eq. 6.
    """
    flat, use = rewards.reshape(1, -1), counted.reshape(1, -1)
    return (_centred(flat, use, dim=-1) / (_std(flat, use) + eps)).reshape(rewards.shape)


def group_mean_batch_std(
    rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"], *, eps: float = 1e-6
) -> Float[Tensor, "P G"]:
    """A = (r - mean_g(r)) / (std_batch(r) + eps): ddof 1, the std of the raw rewards of the whole batch.

    The field disagrees: raw rewards (ROLL, TRL, here) or group-centred ones (AReaL, ScaleRL), up to 1.8x apart.

    Ref: arXiv:2508.08221 section 4.1.3 and section 5 (Lite PPO).
    """
    return _centred(rewards, counted, dim=-1) / (_std(rewards.reshape(1, -1), counted.reshape(1, -1)) + eps)


def _centred(rewards: Tensor, counted: Tensor, dim: int) -> Tensor:
    """r - mean over counted samples of `dim`; exactly 0 where all counted rewards are equal or not counted."""
    number = counted.sum(dim, keepdim=True).clamp(min=1)
    mean = (rewards * counted).sum(dim, keepdim=True) / number
    return torch.where(counted & _has_spread(rewards, counted), rewards - mean, 0.0)


def _std(rewards: Tensor, counted: Tensor) -> Tensor:
    """std over counted samples of the last axis, ddof 1, [..., 1]; 1 where there is no spread to divide by."""
    number = counted.sum(-1, keepdim=True)
    mean = (rewards * counted).sum(-1, keepdim=True) / number.clamp(min=1)
    squares = ((rewards - mean).square() * counted).sum(-1, keepdim=True)
    return torch.where(_has_spread(rewards, counted), (squares / (number - 1).clamp(min=1)).sqrt(), 1.0)


def _has_spread(rewards: Tensor, counted: Tensor) -> Tensor:
    if not rewards.numel():
        return counted.any(-1, keepdim=True)
    high = rewards.masked_fill(~counted, -torch.inf).amax(-1, keepdim=True)
    low = rewards.masked_fill(~counted, torch.inf).amin(-1, keepdim=True)
    return high > low
