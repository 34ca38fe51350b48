"""Slot `advantage`: how good a sample is, given the others. rewards[P,G], counted[P,G] -> [P,G]; no gradient.

One that works on tokens also names mask[P,G,T], values[P,G,T] or kl[P,G,T] and gives [P,G,T]; one that trains a critic
gives an `Estimate`. past[5] are the moments of earlier steps' rewards (`moments.py`). Statistics run over counted
samples only; a sample that is not counted has advantage 0. Standard deviations have ddof 1 and `eps` is added to them.
Spread is judged by max == min, never by a computed standard deviation, whose float residue would be amplified by 1/eps.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from harness.tricks import moments


@dataclass(frozen=True)
class Estimate:
    """advantage[P,G,T] trains the policy, returns[P,G,T] is what the critic learns to predict."""

    advantage: Float[Tensor, "P G T"]
    returns: Float[Tensor, "P G T"]


def none(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    """A = r. With rewards {1, 0} a wrong answer has no gradient at all.

    Ref: arXiv:2508.08221 figure 4, "No Normalization".
    """
    return torch.where(counted, rewards, 0.0)


def group_mean(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    """A = r - mean_g(r): the mean over the group. A group with one counted sample, or all equal, gives 0.

    Ref: arXiv:2503.20783 eq. 3 (Dr. GRPO); arXiv:2508.08221 eq. 7 read at group level.
    """
    return _centred(rewards, counted)


def batch_mean(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    """A = r - mean_batch(r): the mean over all P·G samples. A batch of equal rewards gives 0.

    Ref: arXiv:2508.08221 eq. 7 read as its text does, at batch level.
    """
    return _centred(rewards.reshape(1, -1), counted.reshape(1, -1)).reshape(rewards.shape)


def group_z(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"], *, eps: float = 1e-6) -> Float[Tensor, "P G"]:
    """A = (r - mean_g(r)) / (std_g(r) + eps), ddof 1; a group of one or of equal rewards gives 0.

    The field disagrees: one right in four gives 1.5000 (ddof 1, eps 1e-6), 1.4997 (eps 1e-4) or 1.7321 (ddof 0).
    Affine invariant: scale · r + shift gives the same A, up to eps.

    Ref: arXiv:2402.03300 eq. 3; arXiv:2508.08221 eq. 5.
    """
    return _centred(rewards, counted) / (_std(rewards, counted) + eps)


def batch_z(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"], *, eps: float = 1e-6) -> Float[Tensor, "P G"]:
    """A = (r - mean_batch(r)) / (std_batch(r) + eps), ddof 1 over all P·G samples; equal rewards give 0.

    Groups without spread get an advantage, unlike under `group_z`. Affine invariant.

    Ref: arXiv:2508.08221 eq. 6.
    """
    flat, use = rewards.reshape(1, -1), counted.reshape(1, -1)
    return (_centred(flat, use) / (_std(flat, use) + eps)).reshape(rewards.shape)


def group_mean_batch_std(
    rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"], *, centred: bool = False, eps: float = 1e-6
) -> Float[Tensor, "P G"]:
    """A = (r - mean_g(r)) / (std_batch(x) + eps), ddof 1 over all P·G samples; x = r, or r - mean_g(r) if `centred`.

    The field disagrees: the std of raw rewards (ROLL, TRL, the default here) or of group-centred ones (AReaL,
    ScaleRL), which is never larger: 1.5x smaller where prompts differ in difficulty, 1.75x where they differ much.
    Equal rewards give 0.
    Affine invariant.

    Ref: arXiv:2508.08221 section 4.1.3 and section 5 (Lite PPO); arXiv:2510.13786 (centred).
    """
    a = _centred(rewards, counted)
    spread = a if centred else rewards
    return a / (_std(spread.reshape(1, -1), counted.reshape(1, -1)) + eps)


def leave_one_out(rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    """A_i = r_i - mean of the group's other counted rewards = K/(K-1) · (r_i - mean_g(r)), K counted samples.

    A group with one counted sample, or all equal, gives 0 (the field disagrees on one: A = r, 0, or a division by 0).

    Ref: arXiv:2402.14740 (RLOO).
    """
    number = counted.sum(-1, keepdim=True)
    return _centred(rewards, counted) * number / (number - 1).clamp(min=1)


def running(
    rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"], past: Float[Tensor, "5"], *, eps: float = 1e-6
) -> Float[Tensor, "P G"]:
    """A = (r - mean(R)) / (std(R) + eps), R = all counted rewards of this step and of those before it, ddof 1.

    `past` = the moments of the earlier steps' rewards, as trained on (`moments.py`). Rewards that have all been equal
    so far give 0. Affine invariant.

    Ref: arXiv:2506.06122 (ROLL, reward normalisation of type `running`).
    """
    count, mean, squares, low, high = moments.merge(past, rewards[counted])
    std = (squares / (count - 1)).sqrt()
    return torch.where(counted & (high > low), (rewards - mean) / (std + eps), 0.0)


def reinforce_pp(
    rewards: Float[Tensor, "P G"],
    counted: Bool[Tensor, "P G"],
    mask: Bool[Tensor, "P G T"],
    kl: Float[Tensor, "P G T"],
    *,
    beta: float = 0.01,
    gamma: float = 1.0,
    eps: float = 1e-8,
) -> Float[Tensor, "P G T"]:
    """A = (R_t - mean(R)) / sqrt(var(R) + eps) over the batch's tokens, R_t = Σ_{s≥t} γ^{s-t} (r·1[s=last] - β kl_s).

    kl = log π_old - log π_ref, the k1 penalty as a reward. ddof 1 over all valid tokens of counted samples, so that
    long responses weigh more; one token, or all R equal, gives 0.

    Ref: arXiv:2501.03262 (REINFORCE++).
    """
    use = mask & counted[..., None]
    penalised = torch.where(mask, _on_last_token(rewards, mask) - beta * kl, 0.0)
    return _whiten(_returns(penalised, gamma), use, eps)


def reinforce_pp_baseline(
    rewards: Float[Tensor, "P G"], counted: Bool[Tensor, "P G"], mask: Bool[Tensor, "P G T"], *, eps: float = 1e-8
) -> Float[Tensor, "P G T"]:
    """A = (x - mean(x)) / sqrt(var(x) + eps) over the batch's tokens, x = r - mean_g(r) on every token of a sample.

    ddof 1 over all valid tokens of counted samples: a length-weighted relative of `group_mean_batch_std`. One token,
    or equal rewards in every group, gives 0. Affine invariant.

    Ref: arXiv:2501.03262 (REINFORCE++-Baseline).
    """
    use = mask & counted[..., None]
    return _whiten(_centred(rewards, counted)[..., None].expand(mask.shape), use, eps)


def gae(
    rewards: Float[Tensor, "P G"],
    counted: Bool[Tensor, "P G"],
    mask: Bool[Tensor, "P G T"],
    values: Float[Tensor, "P G T"],
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    whiten: bool = False,
    eps: float = 1e-8,
) -> Estimate:
    """A_t = Σ_l (γλ)^l δ_{t+l}, δ_t = r_t + γ V_{t+1} - V_t, r on the last token, V = 0 beyond it; returns = A + V.

    With `whiten`, A then becomes (A - mean) / sqrt(var + eps) over the valid tokens of counted samples, ddof 1; the
    returns do not change. The field disagrees: verl always whitens, ROLL on request. V = 0 after truncation too.

    Ref: arXiv:1506.02438 eq. 16 (GAE); arXiv:1707.06347 eqs. 11 and 12 (PPO).
    """
    value = torch.where(mask, values.double(), 0.0)
    after = torch.cat([value[..., 1:], torch.zeros_like(value[..., :1])], dim=-1)
    delta = torch.where(mask, _on_last_token(rewards, mask) + gamma * after - value, 0.0)
    advantage = _returns(delta, gamma * lam)
    use = mask & counted[..., None]
    shown = _whiten(advantage, use, eps) if whiten else torch.where(use, advantage, 0.0)
    return Estimate(shown, torch.where(mask, advantage + value, 0.0))


def _on_last_token(rewards: Tensor, mask: Tensor) -> Tensor:
    """[P,G,T] float64: a sample's reward on its last token, 0 elsewhere."""
    last = mask & (mask.cumsum(-1) == mask.sum(-1, keepdim=True))
    return torch.where(last, rewards[..., None].double(), 0.0)


def _returns(rewards: Tensor, discount: float) -> Tensor:
    """R_t = r_t + discount · R_{t+1} along the last axis, from its end."""
    out, after = torch.empty_like(rewards), torch.zeros_like(rewards[..., 0])
    for t in reversed(range(rewards.shape[-1])):
        after = out[..., t] = rewards[..., t] + discount * after
    return out


def _whiten(x: Tensor, use: Tensor, eps: float) -> Tensor:
    """(x - mean) / sqrt(var + eps) over the used tokens, ddof 1; 0 elsewhere, and without spread."""
    used = x[use]
    if used.numel() < 2 or bool(used.max() == used.min()):
        return torch.zeros_like(x)
    return torch.where(use, (x - used.mean()) * (used.var() + eps).rsqrt(), 0.0)


def _centred(rewards: Tensor, counted: Tensor) -> Tensor:
    """r - mean over counted samples of the last axis; exactly 0 where these are all equal, or a sample not counted."""
    return torch.where(counted & _has_spread(rewards, counted), rewards - _mean(rewards, counted), 0.0)


def _mean(rewards: Tensor, counted: Tensor) -> Tensor:
    return torch.where(counted, rewards, 0.0).sum(-1, keepdim=True) / counted.sum(-1, keepdim=True)


def _std(rewards: Tensor, counted: Tensor) -> Tensor:
    """std over counted samples of the last axis, ddof 1, [..., 1]; 1 where there is no spread to divide by."""
    squares = torch.where(counted, rewards - _mean(rewards, counted), 0.0).square().sum(-1, keepdim=True)
    variance = squares / (counted.sum(-1, keepdim=True) - 1)
    return torch.where(_has_spread(rewards, counted), variance.sqrt(), 1.0)


def _has_spread(rewards: Tensor, counted: Tensor) -> Tensor:
    if not rewards.numel():
        return counted.any(-1, keepdim=True)
    high = rewards.masked_fill(~counted, -torch.inf).amax(-1, keepdim=True)
    low = rewards.masked_fill(~counted, torch.inf).amin(-1, keepdim=True)
    return high > low
