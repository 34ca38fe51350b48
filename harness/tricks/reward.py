"""Slot `reward`: the score that a sample is trained on. rewards[P,G], lengths[P,G] -> [P,G]; no gradient.

Raw rewards are 1 for a right, finished answer and 0 for anything else. A trick may also name tokens[P,G,T],
mask[P,G,T], formatted[P,G] (an answer could be read from the response) and limit (the most tokens a response may have).
Leaves out: grading (`harness.tasks`).
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def raw(rewards: Float[Tensor, "P G"], lengths: Int[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    """r' = r: one for a right answer, zero for a wrong one.

    Ref: arXiv:2508.08221 figure 18, legend "reward [1, 0]".
    """
    return rewards.clone()


def affine(
    rewards: Float[Tensor, "P G"], lengths: Int[Tensor, "P G"], *, scale: float = 2.0, shift: float = -1.0
) -> Float[Tensor, "P G"]:
    """r' = scale · r + shift; by default {1, 0} becomes {1, -1}.

    Every z-score is unchanged by it (up to eps), so under one it is an A/A control and not a trick.

    Ref: arXiv:2508.08221 figure 18, legend "reward [1, -1]".
    """
    return scale * rewards + shift


def soft_overlong(
    rewards: Float[Tensor, "P G"],
    lengths: Int[Tensor, "P G"],
    limit: int,
    *,
    buffer_share: float = 0.2,
    factor: float = 1.0,
    scale: float = 2.0,
    shift: float = -1.0,
) -> Float[Tensor, "P G"]:
    """r' = scale · r + shift + factor · min(0, max(-1, (L - B - |y|) / B)), L = limit, B = buffer_share · L.

    Up to L - B tokens nothing is taken off, at L tokens `factor`. A buffer of 0 is a hard cut: nothing up to L,
    `factor` beyond. Scale and shift are DAPO's rewards {1, -1}, which set the size of the punishment against them.

    Ref: arXiv:2503.14476 eqs. 7 and 13 (DAPO: L = 20480, B = 4096).
    """
    over = lengths.double() - (1 - buffer_share) * limit
    share = over / (buffer_share * limit) if buffer_share > 0 else (over > 0).double()
    return scale * rewards + shift - factor * share.clamp(0, 1)


def length_penalty(
    rewards: Float[Tensor, "P G"], lengths: Int[Tensor, "P G"], *, coefficient: float = 1.0
) -> Float[Tensor, "P G"]:
    """r' = r + coefficient · (λ if r > 0 else min(0, λ)), λ = 0.5 - (|y| - min_g|y|) / (max_g|y| - min_g|y|).

    Half a point for a right answer that is the group's shortest, half a point off for its longest, right or wrong; a
    short wrong answer gains nothing. A group of equal lengths keeps its rewards.

    Ref: arXiv:2501.12599 section 2.3.3 (Kimi k1.5, length penalty).
    """
    if not rewards.numel():
        return rewards.clone()
    size = lengths.double()
    low, high = size.amin(-1, keepdim=True), size.amax(-1, keepdim=True)
    place = torch.where(high > low, 0.5 - (size - low) / (high - low), 0.0)
    return rewards + coefficient * torch.where(rewards > 0, place, place.clamp(max=0))


def length_dependent_accuracy(
    rewards: Float[Tensor, "P G"], lengths: Int[Tensor, "P G"], *, alpha: float = 0.1
) -> Float[Tensor, "P G"]:
    """r' = r · (1 - α σ((|y| - mean) / std)), mean and std (ddof 1) of |y| over the group's right answers.

    A right answer is worth a little less the longer it is among the right ones. With fewer than two right answers, or
    all of one length, the place is 0 and σ is 1/2. Wrong answers stay at 0.

    Ref: arXiv:2502.04463 (Arora and Zanette).
    """
    right, size = rewards > 0, lengths.double()
    number = right.sum(-1, keepdim=True)
    mean = torch.where(right, size, 0.0).sum(-1, keepdim=True) / number
    squares = torch.where(right, size - mean, 0.0).square().sum(-1, keepdim=True)
    std = (squares / (number - 1)).sqrt()  # not a number for one right answer, and then not above 0
    place = torch.where(std > 0, (size - mean) / std, 0.0)
    return rewards * (1 - alpha * place.sigmoid())


def format_bonus(
    rewards: Float[Tensor, "P G"], formatted: Bool[Tensor, "P G"], *, bonus: float = 0.1
) -> Float[Tensor, "P G"]:
    """r' = r + bonus · formatted: a little for a response from which an answer can be read, right or wrong.

    Ref: arXiv:2501.12948 section 2.2.2 (DeepSeek-R1, format rewards).
    """
    return rewards + bonus * formatted.to(rewards.dtype)


def repetition_penalty(
    rewards: Float[Tensor, "P G"],
    tokens: Int[Tensor, "P G T"],
    lengths: Int[Tensor, "P G"],
    *,
    ngram: int = 3,
    factor: float = 1.0,
) -> Float[Tensor, "P G"]:
    """r' = r - factor · (1 - distinct / all), over the token n-grams of a response; one shorter than n loses nothing.

    Ref: arXiv:2502.03373 (repetition penalty), as a share of the sample in place of a sum over tokens.
    """
    rows = zip(tokens.flatten(0, 1).tolist(), lengths.flatten().tolist(), strict=True)
    repeated = [_repeated(ids[:length], ngram) for ids, length in rows]
    return rewards - factor * torch.tensor(repeated, dtype=torch.float64).view(rewards.shape)


def _repeated(ids: list[int], ngram: int) -> float:
    """The share of n-grams that stand earlier in the sequence too."""
    grams = [tuple(ids[start : start + ngram]) for start in range(len(ids) - ngram + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
