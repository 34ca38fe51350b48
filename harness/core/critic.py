"""The critic of PPO: a value of every response token's state, V(prompt, response before the token).

A model of its own, started from the policy's weights, with a linear head on its last hidden states that starts at 0,
so that the first advantages are plain returns.

    L = ½ Σ w · max((V - R)², (clip(V, V_old ± c) - R)²),  w = mask / Σ mask over the whole rollout batch

Leaves out: where the returns R come from (`tricks/advantage.py: gae`).
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from harness.config import Model
from harness.core import qwen3
from harness.core.policy import Policy, padded_states
from harness.core.shapes import Rows
from harness.core.step import Batch, micro_batches


class Critic:
    def __init__(self, model: Any, fast: bool) -> None:
        self.model, self.fast = model, fast
        self.head = torch.nn.Parameter(torch.zeros(model.config.hidden_size))

    @staticmethod
    def load(config: Model) -> "Critic":
        policy = Policy.load(config)
        return Critic(policy.model, policy.fast)

    def named_parameters(self) -> dict[str, Tensor]:
        """The body's, without the language model's head, and the value head's."""
        return dict(self.model.base_model.named_parameters()) | {"value_head": self.head}

    def values(self, rows: Rows) -> Float[Tensor, "B T"]:
        """V before every response token; 0 beyond a response's length."""
        packed = self.fast and qwen3.fits(self.model, rows)
        states = (qwen3.packed_states if packed else padded_states)(self.model, rows)
        mask = rows.mask
        return torch.zeros(mask.shape).masked_scatter(mask, states.float() @ self.head)


def loss(critic: Critic, batch: Batch, index: Int[Tensor, "b"], scale: float, clip: float | None) -> Float[Tensor, ""]:
    """scale · L of these rows; `scale` as in `step.loss`. Raises AssertionError for a batch without returns."""
    assert batch.values is not None and batch.returns is not None
    rows = batch.rows.take(index)
    mask, width = rows.mask, rows.tokens.shape[1]
    old, returns = batch.values[index, :width], batch.returns[index, :width]
    values = critic.values(rows)
    error = (values - returns).square()
    if clip is not None:
        error = torch.maximum(error, (values.clamp(old - clip, old + clip) - returns).square())
    return scale * 0.5 * torch.where(mask, error, 0.0).sum() / batch.rows.lengths.sum()


def accumulate(
    critic: Critic, batch: Batch, index: Int[Tensor, "b"], scale: float, clip: float | None, size: int | None
) -> float:
    """Adds the gradient of one update, a micro-batch at a time; the loss."""
    total = 0.0
    for part in micro_batches(batch, index, size):
        value = loss(critic, batch, part, scale, clip)
        value.backward()
        total += float(value.detach())
    return total
