"""One rollout batch as training data: `prepare` (no gradient) and `loss` (carries it).

    L(θ) = - Σ_{p,g,t} w_pgt · [ S(ρ_pgt, Â_pgt) - κ_pgt ]
    Â = advantage(reward(r)),  w = weight(keep(mask)),  prompts p from admit

Slots that see the whole batch see no gradient; the two that carry it see rows and never the batch. So every split into
micro-batches or ranks gives the same gradient. Leaves out: which trick fills a slot (`harness.tricks`), `admit`, which
decides what gets here (`collect.py`), and the critic's loss (`critic.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness import tricks
from harness.config import Tricks
from harness.core import batching, parallel
from harness.core.policy import Policy
from harness.core.shapes import Rollout, Rows
from harness.tricks import Bound
from harness.tricks.advantage import Estimate

Slots = Mapping[str, Bound]


def bind_slots(config: Tricks) -> dict[str, Bound]:
    """slot -> its trick with its knobs, a function of a mapping of what the slot offers."""
    chosen = {slot: getattr(config, slot) for slot in tricks.SLOTS}
    return {slot: tricks.bind(slot, trick.name, trick.knobs) for slot, trick in chosen.items()}


def needed(slots: Slots) -> set[str]:
    """Every input that some slot names: what a run has to provide."""
    return {name for slot in slots.values() for name in slot.inputs}


@dataclass(frozen=True)
class Samples:
    """The admitted prompts' samples, as graded, and what else is known of them before the slots."""

    rollout: Rollout
    rewards: Float[Tensor, "P G"]  # raw: 1 = right
    formatted: Bool[Tensor, "P G"]
    limit: int  # the most tokens a response may have
    past: Float[Tensor, "5"]  # moments of the rewards of earlier steps
    entropies: Float[Tensor, "S"]  # mean entropy of every rollout so far, this one last
    ref_logp: Float[Tensor, "B T"] | None = None
    values: Float[Tensor, "B T"] | None = None
    old: Literal["engine", "recompute", "detach"] = "engine"


@dataclass(frozen=True)
class Batch:
    """Rows (B = prompts × G, whole groups in order) with all that the losses need."""

    rows: Rows
    group_size: int
    old_logp: Float[Tensor, "B T"]
    advantage: Float[Tensor, "B T"]
    weight: Float[Tensor, "B T"]
    kept: Bool[Tensor, "B T"]
    rewards: Float[Tensor, "B"]  # as trained on, after the reward slot
    counted: Bool[Tensor, "B"]
    right: Bool[Tensor, "B"]
    entropies: Float[Tensor, "S"]
    ref_logp: Float[Tensor, "B T"] | None = None
    values: Float[Tensor, "B T"] | None = None
    returns: Float[Tensor, "B T"] | None = None
    detach: bool = False  # ratios are taken against the update itself, and all 1

    def of_prompts(self, prompts: Int[Tensor, "p"]) -> Int[Tensor, "b"]:
        """Row indices of these prompts' groups."""
        return (prompts[:, None] * self.group_size + torch.arange(self.group_size)).flatten()


@torch.no_grad()
def prepare(samples: Samples, slots: Slots) -> Batch:
    """Runs the four slots that look at the whole batch; rewards and statistics are float64."""
    rollout = samples.rollout
    mask, raw = rollout.mask, samples.rewards
    shape, rows, old_logp = mask.shape, rollout.rows(), rollout.logp
    if samples.old == "recompute":
        assert rollout.trainer_logp is not None
        old_logp = rollout.trainer_logp
    offered = {
        "rewards": raw,
        "formatted": samples.formatted,
        "lengths": rollout.lengths,
        "tokens": rollout.tokens,
        "mask": mask,
        "truncated": rollout.truncated,
        "limit": samples.limit,
        "past": samples.past,
    }
    if samples.values is not None:
        offered["values"] = samples.values.view(shape)
    if samples.ref_logp is not None:
        offered["kl"] = torch.where(mask, old_logp - samples.ref_logp.view(shape), 0.0)
    if rollout.trainer_logp is not None:
        offered["gap"] = torch.where(mask, (rollout.trainer_logp - rollout.logp).double(), 0.0)
    kept = slots["keep"](offered)
    shaped = torch.where(kept.zeroed, 0.0, slots["reward"](offered))
    found = slots["advantage"](offered | {"rewards": shaped, "counted": kept.counted})
    advantage = found.advantage if isinstance(found, Estimate) else found
    if advantage.dim() == 2:
        advantage = advantage[..., None].expand(shape)
    weight = slots["weight"](offered | {"mask": kept.tokens})
    if kept.factor is not None:
        weight = weight * kept.factor
    return Batch(
        rows,
        shape[1],
        old_logp.flatten(0, 1),
        advantage.flatten(0, 1).float(),
        weight.flatten(0, 1).float(),
        kept.tokens.flatten(0, 1),
        shaped.flatten(),
        kept.counted.flatten(),
        raw.flatten() > 0,
        samples.entropies,
        samples.ref_logp,
        samples.values,
        found.returns.flatten(0, 1).float() if isinstance(found, Estimate) else None,
        samples.old == "detach",
    )


@dataclass(frozen=True)
class RowLoss:
    """One micro-batch's part of the loss, and what the step's metrics read from it (without gradient)."""

    loss: Float[Tensor, ""]
    rows: Int[Tensor, "b"]  # of the batch
    logratio: Float[Tensor, "b T"]
    advantage: Float[Tensor, "b T"]
    kept: Bool[Tensor, "b T"]


def loss(
    policy: Policy, batch: Batch, index: Int[Tensor, "b"], slots: Slots, temperature: float, scale: float
) -> RowLoss:
    """- scale · Σ w (S - κ) over these rows. `scale` is the number of updates that share one pass over the batch.

    The weights of the whole rollout batch sum to what their formula says; an update sees its rows' share of it,
    times the number of updates, so that the mean over a pass is the loss of the whole batch.
    """
    rows = batch.rows.take(index)
    width = rows.tokens.shape[1]
    kept, advantage, weight = (x[index, :width] for x in (batch.kept, batch.advantage, batch.weight))
    logp, entropy = policy.logprobs(rows, temperature, with_entropy="entropy" in slots["penalty"].inputs)
    # `where`, not a product: a masked position may hold anything, and 0 · inf is not 0.
    logp = torch.where(kept, logp, 0.0)
    old = logp.detach() if batch.detach else torch.where(kept, batch.old_logp[index, :width], 0.0)
    logratio = logp - old
    offered = {"logratio": logratio, "advantage": advantage, "mask": kept, "logp": logp, "entropy": entropy}
    offered |= {"right": batch.right[index], "entropies": batch.entropies}
    if batch.ref_logp is not None:
        offered["ref_logp"] = torch.where(kept, batch.ref_logp[index, :width], 0.0)
    gain = slots["surrogate"](offered) - slots["penalty"](offered)
    total = -scale * torch.where(kept, weight * gain, 0.0).sum()
    return RowLoss(total, index, logratio.detach(), advantage, kept)


def micro_batches(
    batch: Batch, index: Int[Tensor, "b"], max_rows: int | None, max_tokens: int | None = None
) -> list[Int[Tensor, "m"]]:
    """This rank's rows of an update in parts within the limits; rows of like length go together to save padding.

    As many parts on every rank: a rank with fewer rows gets empty ones.
    """

    def cut(share: Int[Tensor, "c"]) -> list[Int[Tensor, "m"]]:
        return batching.parts(batch.rows, share, max_rows, max_tokens)

    return parallel.own_parts(batching.by_length(batch.rows, index), cut)


def accumulate(
    policy: Policy,
    batch: Batch,
    index: Int[Tensor, "b"],
    slots: Slots,
    temperature: float,
    scale: float,
    micro_batch_rows: int | None,
    micro_batch_tokens: int | None = None,
) -> list[RowLoss]:
    """Adds the gradient of one update, a micro-batch at a time."""
    parts = []
    for part in micro_batches(batch, index, micro_batch_rows, micro_batch_tokens):
        if not len(part):  # sharded weights: the other ranks wait for a pass of this one, whose gradient is 0
            loss(policy, batch, index[:1], slots, temperature, 0.0).loss.backward()
            continue
        row_loss = loss(policy, batch, part, slots, temperature, scale)
        row_loss.loss.backward()
        parts.append(replace(row_loss, loss=row_loss.loss.detach()))  # else the graph lives as long as the metrics
    return parts
