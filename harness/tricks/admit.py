"""Slot `admit`: which prompts of the batch train at all. bool[P]; no gradient.

rewards[P,G] are raw (1 = right), never shaped, and history[P] is the share of right answers at the prompt's last visit
in an earlier step, NaN if there was none. A trick that does not name `rewards` is asked before sampling, so that what
it refuses costs nothing. Leaves out: refilling the batch after a refusal, which is the loop's work
(`sampling.max_rounds`).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def everything(rewards: Float[Tensor, "P G"]) -> Bool[Tensor, "P"]:
    """admit_p = 1: every prompt trains, also one whose answers are all right or all wrong.

    Ref: arXiv:2402.03300 section 4.1 (GRPO drops no prompt).
    """
    return torch.ones(rewards.shape[0], dtype=torch.bool, device=rewards.device)


def mixed_only(rewards: Float[Tensor, "P G"]) -> Bool[Tensor, "P"]:
    """admit_p = 1[max_g r > min_g r]: prompts with both right and wrong answers (dynamic sampling).

    A group of one has no spread and is refused (verl admits it). The batch is refilled from further prompts within
    `sampling.max_rounds` rounds; with 1 it only shrinks.

    Ref: arXiv:2503.14476 eq. 11 (DAPO).
    """
    if not rewards.numel():
        return torch.zeros(rewards.shape[0], dtype=torch.bool)
    return rewards.amax(-1) > rewards.amin(-1)


def pass_rate_between(rewards: Float[Tensor, "P G"], *, low: float = 0.1, high: float = 0.95) -> Bool[Tensor, "P"]:
    """admit_p = 1[low < mean_g(r) < high], both strict: the difficulty mask.

    With 8 samples the defaults drop exactly the prompts with none or all right. ROLL admits everything at one sample.

    Ref: arXiv:2508.08221 section 2.4, "Difficulty Mask"; arXiv:2506.06122 (ROLL, `difficulty_mask`).
    """
    rate = rewards.mean(-1)
    return (rate > low) & (rate < high)


def no_positive_resampling(history: Float[Tensor, "P"], *, threshold: float = 0.9) -> Bool[Tensor, "P"]:
    """admit_p = 1 - 1[history_p ≥ threshold]: a prompt solved at its last visit is not drawn again.

    A prompt never visited (NaN) is admitted. Since a refused prompt is not sampled, its history stays: it is gone
    for good.

    Ref: arXiv:2510.13786 (ScaleRL, No-Positive-Resampling).
    """
    return ~(history >= threshold)
