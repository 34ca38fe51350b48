"""Slot `admit`: which prompts of the batch train at all. rewards[P,G] -> bool[P]; no gradient.

Leaves out: refilling the batch after a rejection, which is the loop's work.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def everything(rewards: Float[Tensor, "P G"]) -> Bool[Tensor, "P"]:
    """admit_p = 1: every prompt trains, also one whose answers are all right or all wrong.

    Ref: arXiv:2402.03300 section 4.1 (GRPO drops no prompt).
    """
    return torch.ones(rewards.shape[0], dtype=torch.bool, device=rewards.device)
