"""Slot `weight`: how much a token counts in the loss. mask[P,G,T] -> [P,G,T]; no gradient.

An aggregation is a weight per token, computed once from the mask of the whole rollout batch. Loss is the sum of
weight times token loss, so that micro-batches and ranks only slice rows and can never change it.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def token_mean(mask: Bool[Tensor, "P G T"]) -> Float[Tensor, "P G T"]:
    """w = mask / Σ mask: every token counts alike, Σ w = 1. No token at all gives 0.

    DAPO prints a mean within each prompt's group; every codebase takes it over the batch, as here.

    Ref: arXiv:2508.08221 section 4.3; arXiv:2503.14476 eq. 12.
    """
    return mask.double() / mask.sum().clamp(min=1)


def sequence_mean(mask: Bool[Tensor, "P G T"]) -> Float[Tensor, "P G T"]:
    """w = mask / (N · |o_i|): every sequence counts alike, Σ w = 1; N counts sequences that keep a token.

    The field disagrees on N once sequences are masked: TRL divides by all sequences, ROLL and here by kept ones.

    Ref: arXiv:2402.03300 eq. 3; arXiv:2508.08221 section 4.3.
    """
    length = mask.sum(-1, keepdim=True)
    number = (length > 0).sum().clamp(min=1)
    return torch.where(mask, 1.0 / (number * length.clamp(min=1)).double(), 0.0)
