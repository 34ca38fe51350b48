"""Slot `penalty`: what is subtracted from a token's objective, which carries the gradient.

It names what it needs of logp[B,T], ref_logp[B,T], entropy[B,T] and mask[B,T], and gives [B,T].
"""

import torch
from jaxtyping import Float
from torch import Tensor


def none(logp: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """κ = 0: no reference policy, no entropy bonus.

    Ref: arXiv:2508.08221 appendix A.1 (init_kl_coef 0).
    """
    return torch.zeros_like(logp)
