"""All that one run learns: policy and optimizer, critic and its optimizer where there is one, and its history.

Loads what the identity and the chosen tricks need (a frozen reference policy too, which never changes and is in no
checkpoint) and makes the K updates on a batch. Leaves out: sampling (`collect.py`), files (`checkpoint.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from harness import tricks
from harness.config import RunConfig
from harness.core import batching, parallel, seeds, sharded
from harness.core import critic as critics
from harness.core.critic import Critic
from harness.core.history import History
from harness.core.metrics import RatioMetrics
from harness.core.optimizer import Optimizer
from harness.core.pieces import Piece, whole
from harness.core.policy import Policy
from harness.core.shapes import Rows
from harness.core.step import Batch, Slots, accumulate, needed

M = TypeVar("M", Policy, Critic)


@dataclass
class Norms:
    """Of every update of a step: the gradient's 2-norm before clipping, and the critic's loss."""

    policy: list[float] = field(default_factory=list)
    critic: list[float] = field(default_factory=list)
    critic_loss: list[float] = field(default_factory=list)

    @property
    def finite(self) -> bool:
        return all(math.isfinite(norm) for norm in (*self.policy[-1:], *self.critic[-1:]))


class Learner:
    def __init__(self, config: RunConfig, slots: Slots) -> None:
        identity = config.identity
        self.config, self.slots = config, slots
        self.policy = _spread(self._load())
        self.reference = _spread(self._load()) if needed(slots) & tricks.REFERENCE else None
        self.optimizer = Optimizer(self.policy.named_parameters(), identity.train, identity.train.lr)
        self.history = History()
        self.critic: Critic | None = None
        if identity.critic:
            self.critic = _spread(Critic(self._load()))
            self.critic_optimizer = Optimizer(self.critic.named_parameters(), identity.train, identity.critic.lr)

    def _load(self) -> Policy:
        return Policy.load(self.config.identity.model, self.config.runtime, self.config.seed)

    def trained(self) -> dict[str, Piece]:
        """What this rank holds of all that is trained, by name; written into, it is to be given to `load`."""
        found = {f"policy/{name}": piece for name, piece in self.optimizer.pieces().items()}
        if self.critic:
            found |= {f"critic/{name}": piece for name, piece in self.critic_optimizer.pieces().items()}
        return found

    def pieces(self) -> dict[str, Piece]:
        """Everything, for a checkpoint."""
        history = {f"history/{name}": whole(value) for name, value in self.history.tensors().items()}
        return self.trained() | history

    @torch.no_grad()
    def load(self, values: dict[str, Tensor], history: History) -> None:
        """Takes over values of what `trained()` names, and a history. Raises KeyError for a missing one."""
        pairs = [(piece.data, values[name]) for name, piece in self.trained().items()]
        for own, value in pairs:
            own.copy_(value)
        self.optimizer.refresh()
        if self.critic:
            self.critic_optimizer.refresh()
        self.history = history

    @torch.no_grad()
    def score(self, rows: Rows, values: Callable[[Rows], Tensor], *more: int) -> Float[Tensor, "B T *more"]:
        """Per-token values of all rows, a micro-batch at a time; 0 beyond a response's length."""
        out, index = torch.zeros(*rows.tokens.shape, *more), torch.arange(len(rows.lengths))
        for part in parallel.own_parts(batching.by_length(rows, index), lambda share: self._cut(rows, share)):
            if len(part):
                found = values(rows.take(part))
                out[part, : found.shape[1]] = found
            else:  # sharded weights: the other ranks wait for a pass of this one
                values(rows.take(index[:1]))
        return parallel.sum_over_ranks(out)

    def _cut(self, rows: Rows, index: Int[Tensor, "b"]) -> list[Int[Tensor, "m"]]:
        runtime = self.config.runtime
        return batching.parts(rows, index, runtime.micro_batch_rows, runtime.micro_batch_tokens)

    def logprobs(self, rows: Rows) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """The policy's own log-probabilities and entropies of all rows, as it is now."""
        temperature = self.config.identity.sampling.temperature

        def both(part: Rows) -> Tensor:
            logp, entropy = self.policy.logprobs(part, temperature, with_entropy=True)
            assert entropy is not None
            return torch.stack([logp, entropy], -1)

        logp, entropy = self.score(rows, both, 2).unbind(-1)
        return logp, entropy

    def reference_logprobs(self, rows: Rows) -> Float[Tensor, "B T"] | None:
        reference, temperature = self.reference, self.config.identity.sampling.temperature
        return self.score(rows, lambda part: reference.logprobs(part, temperature)[0]) if reference else None

    def values(self, rows: Rows) -> Float[Tensor, "B T"] | None:
        return self.score(rows, self.critic.values) if self.critic else None

    def update(self, batch: Batch, step: int, ratios: RatioMetrics) -> Norms:
        """K optimizer updates of the policy on one batch, and of the critic; stops at a norm that is not finite."""
        identity, seed, runtime = self.config.identity, self.config.seed, self.config.runtime
        temperature, limits = identity.sampling.temperature, (runtime.micro_batch_rows, runtime.micro_batch_tokens)
        parts = identity.train.updates_per_rollout // identity.train.epochs
        num_prompts, norms = len(batch.rows.lengths) // batch.group_size, Norms()
        for epoch in range(identity.train.epochs):
            for prompts in seeds.minibatches(seed, step, epoch, num_prompts, parts):
                index = batch.of_prompts(torch.from_numpy(prompts))
                if batch.kept[index].any():  # else all of its samples are filtered out: there is no gradient to follow
                    for part in accumulate(self.policy, batch, index, self.slots, temperature, float(parts), *limits):
                        ratios.add(part, first=not norms.policy)
                    norms.policy.append(self.optimizer.step(step))
                if self.critic and identity.critic:
                    clip = identity.critic.value_clip
                    norms.critic_loss.append(critics.accumulate(self.critic, batch, index, float(parts), clip, *limits))
                    norms.critic.append(self.critic_optimizer.step(step))
                if not norms.finite:
                    return norms
        return norms


def _spread(model: M) -> M:
    """Over the ranks, where there are several; the functional form, which reads whole weights, is off then."""
    if parallel.size() > 1:
        sharded.shard(model.model)
        model.fast = False
    return model
