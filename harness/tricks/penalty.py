"""Slot `penalty`: what is subtracted from a token's objective, which carries the gradient.

A trick names what it needs of logp[B,T], ref_logp[B,T], entropy[B,T], mask[B,T], right[B] (the raw reward is 1) and
entropies[S] (the mean entropy of every rollout so far, this one last), and gives [B,T]. With d = logp - ref_logp, the
three KL estimators are named after Schulman. Leaves out: KL as a reward (`advantage.reinforce_pp`).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def none(logp: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """κ = 0: no reference policy, no entropy bonus.

    Ref: arXiv:2508.08221 appendix A.1 (init_kl_coef 0).
    """
    return torch.zeros_like(logp)


def k1(logp: Float[Tensor, "B T"], ref_logp: Float[Tensor, "B T"], *, beta: float = 0.01) -> Float[Tensor, "B T"]:
    """κ = β d. As a loss its expected gradient on-policy is 0: named here because much of the field runs it.

    Ref: arXiv:2506.09477 (estimators as losses); Schulman 2020, "Approximating KL divergence".
    """
    return beta * (logp - ref_logp)


def k2(logp: Float[Tensor, "B T"], ref_logp: Float[Tensor, "B T"], *, beta: float = 0.01) -> Float[Tensor, "B T"]:
    """κ = β d² / 2, the one whose on-policy gradient is that of the reverse KL.

    Ref: arXiv:2506.09477; Schulman 2020.
    """
    return beta * (logp - ref_logp).square() / 2


def k3(logp: Float[Tensor, "B T"], ref_logp: Float[Tensor, "B T"], *, beta: float = 0.04) -> Float[Tensor, "B T"]:
    """κ = β (exp(-d) + d - 1): unbiased as a value and never negative; its gradient is not that of the KL.

    The field disagrees on a clamp: ±10 on the value (ROLL, verl), none (TRL, here).

    Ref: arXiv:2402.03300 eq. 4 (GRPO, β = 0.04).
    """
    d = logp - ref_logp
    return beta * ((-d).exp() + d - 1)


def entropy_bonus(entropy: Float[Tensor, "B T"], *, coefficient: float = 0.001) -> Float[Tensor, "B T"]:
    """κ = -coefficient · H_t, H_t the entropy of the whole vocabulary at that token.

    Ref: arXiv:1707.06347 eq. 9 (PPO).
    """
    return -coefficient * entropy


def entropy_target(
    entropy: Float[Tensor, "B T"],
    entropies: Float[Tensor, "S"],
    *,
    target: float = 0.2,
    change: float = 0.005,
    largest: float = 1.0,
) -> Float[Tensor, "B T"]:
    """κ = -α H_t, α = c · 1[e_S ≤ target]; c starts at 0 and after each rollout moves by ±change towards the target.

    c_{s+1} = clip(c_s + change, 0, largest) if e_s < target, else clip(c_s - change, 0, largest): the bonus grows while
    the entropy e is too low and is off while it is high enough.

    Ref: arXiv:2505.22312 (Skywork-OR1, adaptive entropy control; target 0.2, change 0.005).
    """
    c, past = 0.0, entropies.tolist()
    for e in past[:-1]:
        c = min(largest, max(0.0, c + (change if e < target else -change)))
    return -(c if past and past[-1] <= target else 0.0) * entropy


def sft(logp: Float[Tensor, "B T"], right: Bool[Tensor, "B"], *, coefficient: float = 0.1) -> Float[Tensor, "B T"]:
    """κ = -coefficient · log π on every token of a right answer: imitation of the policy's own successes.

    Ref: arXiv:2504.05118 (VAPO, positive-example language-model loss, μ = 0.1).
    """
    return torch.where(right[:, None], -coefficient * logp, 0.0)
