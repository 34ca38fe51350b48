"""Slot `keep`: which tokens carry loss, which samples enter the statistics.

mask[P,G,T], truncated[P,G], rewards[P,G] -> Kept(tokens[P,G,T], counted[P,G], zeroed[P,G]); no gradient. A trick may
also name lengths[P,G] and limit, the most tokens a response may have. Truncated means that the engine stopped for
length, never that the length equals the limit. rewards are raw: 1 = right.

A trick that names gap[P,G,T] = log π_old - log π_engine, what the trainer makes of the sampled tokens against what the
engine sampled them with, corrects for that gap: q = exp(gap). It needs sampling.old_logp: recompute.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Kept:
    """tokens: carries loss; counted: enters means and stds of the advantage; zeroed: its shaped reward becomes 0.

    factor multiplies the weights of kept tokens; None = 1.
    """

    tokens: Bool[Tensor, "P G T"]
    counted: Bool[Tensor, "P G"]
    zeroed: Bool[Tensor, "P G"]
    factor: Float[Tensor, "P G T"] | None = None


def everything(mask: Bool[Tensor, "P G T"], truncated: Bool[Tensor, "P G"]) -> Kept:
    """tokens = mask, counted = 1: truncated samples train like any other.

    Ref: arXiv:2508.08221 section 4.4, "w/o overlong filtering".
    """
    return _without(torch.zeros_like(truncated), mask)


def drop_truncated(mask: Bool[Tensor, "P G T"], truncated: Bool[Tensor, "P G"]) -> Kept:
    """tokens = mask · (1 - truncated), counted = 1: a truncated sample carries no loss but stays in the statistics.

    The field disagrees on "overlong filtering": ROLL and TRL mask the loss only, as here; `discount_truncated` and
    `zero_truncated` are the other two readings.

    Ref: arXiv:2503.14476 section 3.4; arXiv:2508.08221 section 4.4.
    """
    return _without(truncated, mask)


def discount_truncated(mask: Bool[Tensor, "P G T"], truncated: Bool[Tensor, "P G"]) -> Kept:
    """tokens = mask · (1 - truncated), counted = 1 - truncated: a truncated sample also leaves the statistics.

    Ref: arXiv:2508.08221 section 4.4, the second reading of "masking the reward signal".
    """
    return Kept(mask & ~truncated[..., None], ~truncated, torch.zeros_like(truncated))


def zero_truncated(mask: Bool[Tensor, "P G T"], truncated: Bool[Tensor, "P G"]) -> Kept:
    """tokens = mask, counted = 1, r' = 0 where truncated: its reward is masked, and it trains and counts as a zero.

    Under rewards {1, 0} this is `everything`, for a truncated sample is never right; it differs once the reward slot
    gives wrong answers anything but 0.

    Ref: arXiv:2508.08221 section 4.4, the third reading of "masking the reward signal".
    """
    return Kept(mask.clone(), torch.ones_like(truncated), truncated.clone())


def error_max(
    mask: Bool[Tensor, "P G T"],
    rewards: Float[Tensor, "P G"],
    lengths: Int[Tensor, "P G"],
    limit: int,
    *,
    share: float = 0.8,
) -> Kept:
    """tokens = mask · (1 - 1[r ≤ 0 and |y| ≥ share · limit]), counted = 1: wrong and too long carries no loss.

    Ref: arXiv:2508.08221 section 2.4, "Error Max Clip Mask"; arXiv:2506.06122 (ROLL, `error_max_len_clip`).
    """
    return _without((rewards <= 0) & (lengths >= share * limit), mask)


def right_min(
    mask: Bool[Tensor, "P G T"],
    rewards: Float[Tensor, "P G"],
    lengths: Int[Tensor, "P G"],
    limit: int,
    *,
    share: float = 0.2,
) -> Kept:
    """tokens = mask · (1 - 1[r > 0 and |y| < share · limit]), counted = 1: right and too short carries no loss.

    The paper only names it and no public code holds it; this is the mirror image of `error_max`.

    Ref: arXiv:2508.08221 section 2.4, "Right Min Clip Mask".
    """
    return _without((rewards > 0) & (lengths < share * limit), mask)


def drop_zero_variance(mask: Bool[Tensor, "P G T"], rewards: Float[Tensor, "P G"]) -> Kept:
    """tokens = mask · 1[max_g r > min_g r], counted = 1: groups all right or all wrong leave the loss's denominators.

    Unlike `admit: mixed_only` it neither refills the batch nor changes the statistics.

    Ref: arXiv:2510.13786 (ScaleRL, zero-variance filtering).
    """
    flat = rewards == rewards[:, :1]
    return _without(flat.all(-1, keepdim=True).expand(rewards.shape), mask)


def token_tis(mask: Bool[Tensor, "P G T"], gap: Float[Tensor, "P G T"], *, cap: float = 2.0) -> Kept:
    """tokens = mask, factor = min(q_t, cap): truncated importance sampling of each token against the engine.

    The field disagrees on the cap: verl and slime 2, TRL 3.

    Ref: arXiv:1802.01561 section 4.1 (truncated importance weights); against an inference engine, Yao et al. 2025,
    "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training".
    """
    return _weighted(gap.exp().clamp(max=cap), mask)


def sequence_tis(mask: Bool[Tensor, "P G T"], gap: Float[Tensor, "P G T"], *, cap: float = 2.0) -> Kept:
    """tokens = mask, factor = min(Π_t q_t, cap): truncated importance sampling of each whole response.

    Ref: arXiv:1802.01561 section 4.1, of a whole sequence; TRL `sequence_truncate`, verl `rollout_is: sequence`.
    """
    whole = torch.where(mask, gap, 0.0).sum(-1, keepdim=True).exp().clamp(max=cap)
    return _weighted(whole.expand(mask.shape), mask)


def token_icepop(
    mask: Bool[Tensor, "P G T"], gap: Float[Tensor, "P G T"], *, low: float = 0.5, high: float = 5.0
) -> Kept:
    """tokens = mask · 1[low ≤ q_t ≤ high], factor = q_t: tokens that engine and trainer see too differently are masked.

    Ref: arXiv:2510.18855 (Ring-1T, "IcePop", low = 0.5, high = 5).
    """
    ratio = gap.exp()
    return _weighted(ratio, mask & (ratio >= low) & (ratio <= high))


def sequence_icepop(
    mask: Bool[Tensor, "P G T"], gap: Float[Tensor, "P G T"], *, low: float = 0.5, high: float = 2.0
) -> Kept:
    """tokens = mask · 1[low ≤ Π_t q_t ≤ high], factor = Π_t q_t: masks whole responses, which stay in statistics.

    TRL's default correction is this without a lower bound and with high = 3.

    Ref: arXiv:2510.18855 (its two-sided mask), of a whole sequence; TRL `sequence_mask`.
    """
    ratio = torch.where(mask, gap, 0.0).sum(-1, keepdim=True).exp().expand(mask.shape)
    return _weighted(ratio, mask & (ratio >= low) & (ratio <= high))


def _weighted(factor: Tensor, tokens: Tensor) -> Kept:
    none = torch.zeros(tokens.shape[:2], dtype=torch.bool)
    return Kept(tokens.clone(), ~none, none, torch.where(tokens, factor, 0.0))


def _without(dropped: Tensor, mask: Tensor) -> Kept:
    """Every sample counts; the dropped ones carry no loss."""
    return Kept(mask & ~dropped[..., None], torch.ones_like(dropped), torch.zeros_like(dropped))
