"""What every step records: from the raw rollout and the ratios, never through the knob under study.

All keys, with formula and unit, are in docs/metrics.md. Leaves out: evaluation (`evaluate.py`), wall-clock
(`record.py`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from harness import tricks
from harness.core.collect import Collected
from harness.core.parallel import from_all_ranks
from harness.core.repeats import ends_in_repetition
from harness.core.shapes import Rollout, stack
from harness.core.step import Batch, RowLoss
from harness.tricks import Bound

EPS_GRID = (0.20, 0.24, 0.28, 0.32)  # the paper's grid of upper clips, arXiv:2508.08221 figure 11

Metrics = dict[str, float | int | None]


def rollout_metrics(collected: Collected) -> Metrics:
    """Of everything sampled in the step, before any slot but `admit`, which decides how much that is."""
    rollout, rewards = collected.rollout, collected.rewards  # 1 = right, 0 = not
    lengths, right, truncated = rollout.lengths.double(), rewards > 0, rollout.truncated
    return {
        "train/accuracy": _mean(rewards),
        "train/reward_mean": _mean(rewards),
        "train/reward_std": _std(rewards.flatten()),
        "train/reward_std_within": _mean(rewards.std(dim=-1)) if rewards.shape[1] > 1 else 0.0,
        "train/zero_variance_share": _mean((rewards.amax(-1) == rewards.amin(-1)).double()),
        "train/formatted_share": _mean(collected.formatted.double()),
        "policy/entropy": _mean(_entropies(rollout)),
        "length/mean": _mean(lengths),
        "length/sd": _std(lengths.flatten()),
        "length/correct": _mean(lengths[right]),
        "length/wrong": _mean(lengths[~right]),
        "length/truncated_share": _mean(truncated.double()),
        "length/repeat_share": _mean(
            ends_in_repetition(rollout.tokens[truncated], rollout.lengths[truncated]).double()
        ),
        "count/rounds": collected.rounds,
        "count/prompts_drawn": collected.drawn,
        "count/prompts_generated": rollout.tokens.shape[0],
        "count/samples_generated": rewards.numel(),
        "count/tokens_generated": int(rollout.lengths.sum()),
    } | gap_metrics(rollout)


def gap_metrics(rollout: Rollout) -> Metrics:
    """How far engine and trainer are apart on the sampled tokens, before any correction; empty where nobody asked."""
    if rollout.trainer_logp is None:
        return {}
    gap = (rollout.trainer_logp - rollout.logp)[rollout.mask].double()  # log π_trainer / π_engine
    ratio = gap.exp()
    return {
        "gap/mean_abs": _mean(gap.abs()),
        "gap/max_abs": _extreme(gap.abs(), torch.amax),
        "gap/kl": _mean(-gap),
        "gap/ratio_mean": _mean(ratio),
        "gap/outside_share": _mean(((ratio < 0.5) | (ratio > 2)).double()),
    }


def mean_entropy(rollout: Rollout) -> float:
    """Token mean in nats, as recorded in `policy/entropy`."""
    return float(_entropies(rollout).double().mean())


def _entropies(rollout: Rollout) -> Tensor:
    """[n] of all sampled tokens."""
    assert rollout.entropy is not None  # the trainer has scored what an engine could not
    return rollout.entropy[rollout.mask]


def batch_metrics(batch: Batch) -> Metrics:
    """Of the prepared batch: what the slots made of it. Some only where there is a reference policy or a critic."""
    kept, advantage = batch.kept.any(-1), batch.advantage[batch.kept]
    found: Metrics = {
        "advantage/max": _extreme(advantage, torch.amax),
        "advantage/min": _extreme(advantage, torch.amin),
        "advantage/std_used": _std(batch.rewards[batch.counted]),
        "reward/shaped_mean": _mean(batch.rewards),
        "count/prompts_trained": len(batch.rows.lengths) // batch.group_size,
        "count/samples_trained": int(kept.sum()),
        "count/tokens_trained": int(batch.kept.sum()),
    }
    mask = batch.rows.mask
    if batch.ref_logp is not None:
        found["policy/kl_reference"] = _mean((batch.old_logp - batch.ref_logp)[mask])
    if batch.values is not None and batch.returns is not None:
        returns, values = batch.returns[mask].double(), batch.values[mask].double()
        spread = float(returns.var(correction=0)) if returns.numel() else 0.0
        left = float((returns - values).var(correction=0)) if returns.numel() else 0.0
        found["critic/value_mean"] = _mean(values)
        found["critic/return_mean"] = _mean(returns)
        found["critic/explained_variance"] = 1 - left / spread if spread > 0 else None
    return found


def update_metrics(policy: list[float], critic: list[float], critic_loss: list[float]) -> Metrics:
    """Of the step's updates: gradient norms before clipping, and the critic's loss, each a list over updates."""
    found: Metrics = {
        "grad/norm": float(np.mean(policy)) if policy else None,
        "grad/norm_max": max(policy, default=None),
        "count/updates": len(policy),
    }
    if critic:
        found |= {"critic/grad_norm": float(np.mean(critic)), "critic/loss": float(np.mean(critic_loss))}
    return found


@dataclass(frozen=True)
class Clipped:
    """Tokens whose gradient the surrogate set to 0, in every update of a step; a row of the batch once an update."""

    rows: Int[Tensor, "m"]  # of the batch
    high: Bool[Tensor, "m T"]  # A > 0
    low: Bool[Tensor, "m T"]  # A < 0 and ρ < 1


class RatioMetrics:
    """Clip fractions, ratio extremes and the knob's effect, over the kept tokens of all updates of one step."""

    def __init__(self, surrogate: Bound) -> None:
        self.surrogate = surrogate
        self.parts: list[RowLoss] = []
        self.at_first = 0.0  # largest |log ρ| of the first update

    def add(self, part: RowLoss, first: bool = False) -> None:
        """`first`: of the step's first update, when the weights are still those that were sampled from."""
        self.parts.append(part)
        if first and part.kept.any():
            self.at_first = max(self.at_first, float(part.logratio[part.kept].abs().max()))

    def result(self) -> tuple[Metrics, Clipped]:
        """Of all ranks. Rows stay rows, for a sequence-level surrogate gives a token a gradient by its row."""
        at_first = max(from_all_ranks([self.at_first]))
        self.parts = from_all_ranks(self.parts)
        if not self.parts:
            none = torch.zeros(0, 1)
            self.parts = [RowLoss(torch.zeros(()), none[:, 0].long(), none, none, none.bool())]
        logratio, advantage, kept = (
            stack([getattr(part, name) for part in self.parts]) for name in ("logratio", "advantage", "kept")
        )
        plain = tricks.bind("surrogate", "clip", {"low": 0.2, "high": 0.2})
        ours, base = (_token_gradient(s, logratio, advantage, kept) for s in (self.surrogate, plain))
        still = kept & (ours == 0)
        clipped = Clipped(
            torch.cat([part.rows for part in self.parts]),
            still & (advantage > 0),
            still & (advantage < 0) & (logratio < 0),
        )
        ours, base, idle = ours[kept], base[kept], still[kept]
        ratio, sign = logratio[kept].exp(), advantage[kept]
        up, down = sign > 0, sign < 0
        share = 1 / max(1, ratio.numel())
        grid: Metrics = {
            f"clip/high_{round(100 * eps)}": int((up & (ratio > 1 + eps)).sum()) * share for eps in EPS_GRID
        }
        found: Metrics = {
            "clip/low_20": int((down & (ratio < 1 - 0.2)).sum()) * share,
            "clip/high": int(clipped.high.sum()) * share,
            "clip/low": int(clipped.low.sum()) * share,
            "clip/dual": int((down & idle & (ratio >= 1)).sum()) * share,
            "clip/knob_changed_tokens": int((~torch.isclose(ours, base, rtol=1e-5, atol=1e-8)).sum()),
            "ratio/max": _extreme(ratio, torch.amax),
            "ratio/min": _extreme(ratio, torch.amin),
            "ratio/first_update": at_first,
        }
        return grid | found, clipped


def _token_gradient(surrogate: Bound, logratio: Tensor, advantage: Tensor, kept: Tensor) -> Tensor:
    """∂(Σ S)/∂logratio of each token."""
    with torch.enable_grad():
        variable = logratio.detach().requires_grad_()
        gain = surrogate({"logratio": variable, "advantage": advantage, "mask": kept})
        return torch.autograd.grad(torch.where(kept, gain, 0.0).sum(), variable)[0]


def _mean(x: Tensor) -> float | None:
    return float(x.double().mean()) if x.numel() else None


def _std(x: Tensor) -> float:
    """ddof 1; 0 for fewer than two values."""
    return float(x.double().std()) if x.numel() > 1 else 0.0


def _extreme(x: Tensor, of: Any) -> float | None:
    return float(of(x)) if x.numel() else None
