"""Slot `weight`: how much a token counts in the loss. mask[P,G,T] -> [P,G,T]; no gradient.

An aggregation is a weight per token, computed once from the mask of the whole rollout batch. Loss is the sum of
weight times token loss, so that micro-batches and ranks only slice rows and can never change it. A trick may also name
limit, the most tokens a response may have.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def token_mean(mask: Bool[Tensor, "P G T"]) -> Float[Tensor, "P G T"]:
    """w = mask / Σ mask: every token counts alike, Σ w = 1. No token at all gives 0.

    DAPO prints a mean within each prompt's group (`prompt_mean`); every codebase takes it over the batch, as here.

    Ref: arXiv:2508.08221 section 4.3; arXiv:2503.14476 eq. 12.
    """
    return mask.double() / mask.sum().clamp(min=1)


def sequence_mean(mask: Bool[Tensor, "P G T"]) -> Float[Tensor, "P G T"]:
    """w = mask / (N · |o_i|): every sequence counts alike, Σ w = 1; N counts sequences that keep a token.

    The field disagrees on N once sequences are masked: TRL divides by all sequences, ROLL and here by kept ones.

    Ref: arXiv:2402.03300 eq. 3; arXiv:2508.08221 section 4.3.
    """
    return _mean_of_means(mask, mask.sum(-1, keepdim=True))


def prompt_mean(mask: Bool[Tensor, "P G T"]) -> Float[Tensor, "P G T"]:
    """w = mask / (P · Σ_i |o_i|): every prompt counts alike, the tokens of its group alike, Σ w = 1.

    P counts prompts that keep a token. DAPO's formula as printed; its code, and everyone's, is `token_mean`.

    Ref: arXiv:2503.14476 eq. 8; arXiv:2510.13786 (ScaleRL, "prompt average").
    """
    return _mean_of_means(mask, mask.sum((-2, -1), keepdim=True))


def sequence_sum(mask: Bool[Tensor, "P G T"]) -> Float[Tensor, "P G T"]:
    """w = mask / N: the sum over a sequence, the mean over sequences that keep a token; Σ w is their mean length.

    Ref: arXiv:2503.20783 eq. 3, without its constant.
    """
    return mask.double() / _kept(mask.sum(-1))


def constant_length(mask: Bool[Tensor, "P G T"], limit: int) -> Float[Tensor, "P G T"]:
    """w = mask / (N · L): as `sequence_sum`, divided by the constant L = limit, whatever the padding; N counts all.

    The field disagrees: ROLL and verl divide by the padded width and not by N, TRL as here.

    Ref: arXiv:2503.20783 eq. 3 and appendix A (Dr. GRPO).
    """
    number = mask.shape[0] * mask.shape[1]
    return mask.double() / (number * limit)


def microbatch_token_mean(mask: Bool[Tensor, "P G T"], *, rows: int = 4) -> Float[Tensor, "P G T"]:
    """w = mask / (M · Σ_{micro-batch} mask): a token mean inside each micro-batch of `rows` samples, Σ w = 1.

    What much of the field ran as "token mean": with rows = 1 it is `sequence_mean`. Samples are taken in rollout
    order; M counts micro-batches that keep a token. The size is a knob here and never the run's own micro-batch.

    Ref: arXiv:2508.08221 section 4.3 as run by ROLL until 2026 (micro-batches of 4); TRL `bnpo`.
    """
    length = mask.sum(-1).flatten()
    batch = torch.arange(len(length)) // rows
    tokens = torch.zeros(len(length), dtype=length.dtype).index_add_(0, batch, length)
    share = 1.0 / ((tokens > 0).sum() * tokens[batch]).double()
    return torch.where(mask, share.view(*mask.shape[:2], 1), 0.0)


def _mean_of_means(mask: Tensor, length: Tensor) -> Tensor:
    """Every unit that keeps a token counts alike, its tokens alike; `length` holds the units' kept tokens."""
    return torch.where(mask, 1.0 / (_kept(length) * length).double(), 0.0)


def _kept(length: Tensor) -> Tensor:
    """How many of them keep a token, at least 1."""
    return (length > 0).sum().clamp(min=1)
