"""The critic of PPO: a value of every response token's state, V(prompt, response before the token).

A model of its own, started from the policy's weights, with a linear head on its last hidden states that starts at 0,
so that the first advantages are plain returns.

    L = ½ Σ w · max((V - R)², (clip(V, V_old ± c) - R)²),  w = mask / Σ mask over the whole rollout batch

Leaves out: where the returns R come from (`tricks/advantage.py: gae`).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from harness.core import parallel, qwen3, sharded
from harness.core.forward import padded_states
from harness.core.policy import Policy
from harness.core.shapes import Rows
from harness.core.step import Batch, micro_batches


class Critic:
    def __init__(self, policy: Policy) -> None:
        """Takes the policy's model for its own."""
        self.model, self.fast = policy.model, policy.fast
        self.model.set_output_embeddings(torch.nn.Identity())  # the language model's head is of no use here
        self.model.value_head = torch.nn.Parameter(torch.zeros(self.model.config.hidden_size, device=policy.device))

    @property
    def head(self) -> Float[Tensor, "d"]:
        return self.model.value_head

    def named_parameters(self) -> dict[str, Tensor]:
        """Those trained: the body's, without the language model's head, and the value head's."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def values(self, rows: Rows) -> Float[Tensor, "B T"]:
        """V before every response token, on the CPU; 0 beyond a response's length."""
        packed = self.fast and qwen3.fits(self.model, rows)
        states = qwen3.packed_states if packed else padded_states
        found = sharded.within(self.model, lambda: states(self.model, rows).float() @ self.head.float())
        return torch.zeros(rows.mask.shape).masked_scatter(rows.mask, found.cpu())


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
    critic: Critic,
    batch: Batch,
    index: Int[Tensor, "b"],
    scale: float,
    clip: float | None,
    micro_batch_rows: int | None,
    micro_batch_tokens: int | None = None,
) -> float:
    """Adds the gradient of one update, a micro-batch at a time; the loss, of all ranks."""
    total = torch.zeros((), dtype=torch.float64)
    for part in micro_batches(batch, index, micro_batch_rows, micro_batch_tokens):
        if not len(part):  # as in `step.accumulate`
            loss(critic, batch, index[:1], 0.0, clip).backward()
            continue
        value = loss(critic, batch, part, scale, clip)
        value.backward()
        total += value.detach()
    return float(parallel.sum_over_ranks(total))
