"""What every step records: from the raw rollout and the ratios, never through the knob under study.

All keys, with formula and unit, are in docs/metrics.md. Leaves out: evaluation (`evaluate.py`), wall-clock
(`record.py`).
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from harness import tricks
from harness.core.shapes import Rollout
from harness.core.step import Batch, RowLoss, Slot

EPS_GRID = (0.20, 0.24, 0.28, 0.32)  # the paper's grid of upper clips, arXiv:2508.08221 figure 11

Metrics = dict[str, float | int | None]


def rollout_metrics(rollout: Rollout, rewards: Float[Tensor, "P G"]) -> Metrics:
    """Of the sampled batch, before any slot. rewards: 1 = right, 0 = not."""
    lengths, right = rollout.lengths.double(), rewards > 0
    entropy = rollout.entropy[rollout.mask].double()
    return {
        "train/accuracy": _mean(rewards),
        "train/reward_mean": _mean(rewards),
        "train/reward_std": _std(rewards.flatten()),
        "train/reward_std_within": _mean(rewards.std(dim=-1)) if rewards.shape[1] > 1 else 0.0,
        "train/zero_variance_share": _mean((rewards.amax(-1) == rewards.amin(-1)).double()),
        "policy/entropy": _mean(entropy),
        "length/mean": _mean(lengths),
        "length/sd": _std(lengths.flatten()),
        "length/correct": _mean(lengths[right]),
        "length/wrong": _mean(lengths[~right]),
        "length/truncated_share": _mean(rollout.truncated.double()),
        "count/prompts_generated": rollout.tokens.shape[0],
        "count/tokens_generated": int(rollout.lengths.sum()),
    }


def batch_metrics(batch: Batch) -> Metrics:
    """Of the prepared batch: what the slots made of it."""
    kept, advantage = batch.kept.any(-1), batch.advantage[batch.kept]
    return {
        "advantage/max": _extreme(advantage, torch.amax),
        "advantage/min": _extreme(advantage, torch.amin),
        "advantage/std_used": _std(batch.rewards[batch.counted]),
        "count/prompts_trained": len(batch.rows.lengths) // batch.group_size,
        "count/samples_trained": int(kept.sum()),
        "count/tokens_trained": int(batch.kept.sum()),
    }


class RatioMetrics:
    """Clip fractions, ratio extremes and the knob's effect, over the kept tokens of all updates of one step."""

    def __init__(self, surrogate: Slot) -> None:
        self.surrogate = surrogate
        self.parts: list[tuple[Tensor, Tensor]] = []

    def add(self, part: RowLoss) -> None:
        self.parts.append((part.logratio[part.kept], part.advantage[part.kept]))

    def result(self) -> Metrics:
        empty = torch.zeros(0)
        logratio = torch.cat([part for part, _ in self.parts] or [empty])[None]
        advantage = torch.cat([part for _, part in self.parts] or [empty])[None]
        ratio, up, down = logratio.exp(), advantage > 0, advantage < 0
        share = 1 / max(1, ratio.numel())
        ours = _token_gradient(self.surrogate, logratio, advantage)
        plain = _token_gradient(tricks.bind("surrogate", "clip", {"low": 0.2, "high": 0.2}), logratio, advantage)
        grid: Metrics = {
            f"clip/high_{round(100 * eps)}": int((up & (ratio > 1 + eps)).sum()) * share for eps in EPS_GRID
        }
        return grid | {
            "clip/low_20": int((down & (ratio < 1 - 0.2)).sum()) * share,
            "clip/high": int((up & (ours == 0)).sum()) * share,
            "clip/low": int((down & (ours == 0)).sum()) * share,
            "clip/knob_changed_tokens": int((~torch.isclose(ours, plain, rtol=1e-5, atol=1e-8)).sum()),
            "ratio/max": _extreme(ratio, torch.amax),
            "ratio/min": _extreme(ratio, torch.amin),
        }


def _token_gradient(surrogate: Slot, logratio: Tensor, advantage: Tensor) -> Tensor:
    """∂S/∂logratio of each token, with the others held."""
    with torch.enable_grad():
        variable = logratio.detach().requires_grad_()
        offered: Mapping[str, Any] = {
            "logratio": variable,
            "advantage": advantage,
            "mask": torch.ones_like(advantage, dtype=torch.bool),
        }
        gain = surrogate(offered)
        return torch.autograd.grad(gain.sum(), variable)[0]


def _mean(x: Tensor) -> float | None:
    return float(x.double().mean()) if x.numel() else None


def _std(x: Tensor) -> float:
    """ddof 1; 0 for fewer than two values."""
    return float(x.double().std()) if x.numel() > 1 else 0.0


def _extreme(x: Tensor, of: Any) -> float | None:
    return float(of(x)) if x.numel() else None
