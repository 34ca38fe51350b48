"""Slot `keep`: which tokens carry loss, which samples enter the statistics.

mask[P,G,T], truncated[P,G], rewards[P,G] -> Kept(tokens[P,G,T], counted[P,G]); no gradient. Truncated means that
the engine stopped for length, never that the length equals the limit.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Kept:
    """tokens[P,G,T]: carries loss; counted[P,G]: enters means and standard deviations of the advantage."""

    tokens: Bool[Tensor, "P G T"]
    counted: Bool[Tensor, "P G"]


def everything(mask: Bool[Tensor, "P G T"], truncated: Bool[Tensor, "P G"], rewards: Float[Tensor, "P G"]) -> Kept:
    """tokens = mask, counted = 1: truncated samples train like any other.

    Ref: arXiv:2508.08221 section 4.4, "w/o overlong filtering".
    """
    return Kept(mask.clone(), torch.ones_like(truncated))


def drop_truncated(mask: Bool[Tensor, "P G T"], truncated: Bool[Tensor, "P G"], rewards: Float[Tensor, "P G"]) -> Kept:
    """tokens = mask · (1 - truncated), counted = 1: a truncated sample carries no loss but stays in the statistics.

    The field disagrees on "overlong filtering": ROLL and TRL mask the loss only, as here; see `discount_truncated`.

    Ref: arXiv:2503.14476 section 3.4; arXiv:2508.08221 section 4.4.
    """
    return Kept(mask & ~truncated[..., None], torch.ones_like(truncated))


def discount_truncated(
    mask: Bool[Tensor, "P G T"], truncated: Bool[Tensor, "P G"], rewards: Float[Tensor, "P G"]
) -> Kept:
    """tokens = mask · (1 - truncated), counted = 1 - truncated: a truncated sample also leaves the statistics.

    Ref: arXiv:2508.08221 section 4.4, the second reading of "masking the reward signal".
    """
    return Kept(mask & ~truncated[..., None], ~truncated)
