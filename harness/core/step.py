"""One rollout batch as training data: `prepare` (no gradient) and `loss` (carries it).

    L(θ) = - Σ_{p,g,t} w_pgt · [ S(ρ_pgt, Â_pgt) - κ_pgt ]
    Â = advantage(reward(r)),  w = weight(keep(mask)),  prompts p from admit

Five slots see the whole batch once and no gradient; two see rows and never the batch. So every split into
micro-batches gives the same gradient. Leaves out: which trick fills a slot (`harness.tricks`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness import tricks
from harness.config import Tricks
from harness.core.policy import Policy
from harness.core.shapes import Rollout, Rows

Slot = Callable[[Mapping[str, Any]], Any]


def bind_slots(config: Tricks) -> dict[str, Slot]:
    """slot -> its trick with its knobs, a function of a mapping of what the slot offers."""
    chosen = {slot: getattr(config, slot) for slot in tricks.SLOTS}
    return {slot: tricks.bind(slot, trick.name, trick.knobs) for slot, trick in chosen.items()}


@dataclass(frozen=True)
class Batch:
    """Admitted prompts as rows (B = prompts × G, whole groups in order), with all that the loss needs."""

    rows: Rows
    group_size: int
    old_logp: Float[Tensor, "B T"]
    advantage: Float[Tensor, "B T"]
    weight: Float[Tensor, "B T"]
    kept: Bool[Tensor, "B T"]
    rewards: Float[Tensor, "B"]  # as trained on, after the reward slot
    counted: Bool[Tensor, "B"]

    def of_prompts(self, prompts: Int[Tensor, "p"]) -> Int[Tensor, "b"]:
        """Row indices of these prompts' groups."""
        return (prompts[:, None] * self.group_size + torch.arange(self.group_size)).flatten()


@torch.no_grad()
def prepare(rollout: Rollout, rewards: Float[Tensor, "P G"], slots: Mapping[str, Slot]) -> Batch:
    """Runs the five slots that look at the whole batch; rewards are raw (1 = right), in float64."""
    prompts, samples, width = rollout.tokens.shape
    offered: dict[str, Any] = {
        "rewards": rewards,
        "lengths": rollout.lengths,
        "mask": rollout.mask,
        "truncated": rollout.truncated,
    }
    kept = slots["keep"](offered)
    admitted = slots["admit"](offered)
    shaped = slots["reward"](offered)
    counted = kept.counted & admitted[:, None]
    advantage = slots["advantage"](offered | {"rewards": shaped, "counted": counted})
    if advantage.dim() == 2:
        advantage = advantage[..., None].expand(prompts, samples, width)
    tokens = kept.tokens & admitted[:, None, None]
    weight = slots["weight"]({"mask": tokens})

    chosen = admitted.nonzero()[:, 0]
    rows = Rows(
        rollout.prompts,
        chosen.repeat_interleave(samples),
        rollout.tokens[chosen].flatten(0, 1),
        rollout.lengths[chosen].flatten(),
    )

    def by_row(x: Tensor) -> Tensor:
        return x[chosen].flatten(0, 1)

    return Batch(
        rows,
        samples,
        by_row(rollout.logp),
        by_row(advantage.float()),
        by_row(weight.float()),
        by_row(tokens),
        by_row(shaped),
        by_row(counted),
    )


@dataclass(frozen=True)
class RowLoss:
    """One micro-batch's part of the loss, and what the step's metrics read from it (without gradient)."""

    loss: Float[Tensor, ""]
    logratio: Float[Tensor, "b T"]
    advantage: Float[Tensor, "b T"]
    kept: Bool[Tensor, "b T"]


def loss(
    policy: Policy,
    batch: Batch,
    index: Int[Tensor, "b"],
    slots: Mapping[str, Slot],
    temperature: float,
    scale: float,
) -> RowLoss:
    """- scale · Σ w (S - κ) over these rows. `scale` is the number of updates that share one pass over the batch.

    The weights of the whole rollout batch sum to what their formula says; an update sees its rows' share of it,
    times the number of updates, so that the mean over a pass is the loss of the whole batch.
    """
    rows = batch.rows.take(index)
    width = rows.tokens.shape[1]
    kept, advantage, weight = (x[index, :width] for x in (batch.kept, batch.advantage, batch.weight))
    logp, entropy = policy.logprobs(rows, temperature, with_entropy=False)
    # `where`, not a product: a masked position may hold anything, and 0 · inf is not 0.
    logratio = torch.where(kept, logp - batch.old_logp[index, :width], 0.0)
    offered = {"logratio": logratio, "advantage": advantage, "mask": kept, "logp": logp, "entropy": entropy}
    gain = slots["surrogate"](offered) - slots["penalty"](offered)
    total = -scale * torch.where(kept, weight * gain, 0.0).sum()
    return RowLoss(total, logratio.detach(), advantage, kept)


def accumulate(
    policy: Policy,
    batch: Batch,
    index: Int[Tensor, "b"],
    slots: Mapping[str, Slot],
    temperature: float,
    scale: float,
    micro_batch_rows: int | None,
) -> list[RowLoss]:
    """Adds the gradient of one update, a micro-batch at a time; rows of like length go together to save padding."""
    order = index[torch.argsort(batch.rows.lengths[index], stable=True)]
    parts = []
    for part in order.split(micro_batch_rows or max(1, len(order))):
        row_loss = loss(policy, batch, part, slots, temperature, scale)
        row_loss.loss.backward()
        parts.append(row_loss)
    return parts
