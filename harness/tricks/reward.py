"""Slot `reward`: the score that a sample is trained on. rewards[P,G], lengths[P,G] -> [P,G]; no gradient.

Raw rewards are 1 for a right, finished answer and 0 for anything else. Leaves out: grading (`harness.tasks`).
"""

from jaxtyping import Float, Int
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
