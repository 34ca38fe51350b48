"""All that one run learns: policy and optimizer, critic and its optimizer where there is one, and its history.

Loads what the identity and the chosen tricks need (a frozen reference policy too, which never changes and is in no
checkpoint) and makes the K updates on a batch. Leaves out: sampling (`collect.py`), files (`checkpoint.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from harness.config import RunConfig
from harness.core import critic as critics
from harness.core import seeds
from harness.core.critic import Critic
from harness.core.history import History
from harness.core.metrics import RatioMetrics
from harness.core.optimizer import Optimizer
from harness.core.policy import Policy
from harness.core.shapes import Rows
from harness.core.step import Batch, Slots, accumulate, needed

REFERENCE = {"ref_logp", "kl"}  # inputs that a frozen copy of the first policy provides


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
        self.policy = Policy.load(identity.model)
        self.reference = Policy.load(identity.model) if needed(slots) & REFERENCE else None
        self.optimizer = Optimizer(self.policy.parameters(), identity.train, identity.train.lr)
        self.history = History()
        self.critic: Critic | None = None
        if identity.critic:
            self.critic = Critic.load(identity.model)
            parameters = list(self.critic.named_parameters().values())
            self.critic_optimizer = Optimizer(parameters, identity.train, identity.critic.lr)

    def tensors(self) -> dict[str, Tensor]:
        """Everything by name, for a checkpoint."""
        found = {f"model/{name}": value.detach() for name, value in self.policy.named_parameters().items()}
        found |= {f"optimizer/{name}": value for name, value in self.optimizer.state().items()}
        found |= {f"history/{name}": value for name, value in self.history.tensors().items()}
        if self.critic:
            found |= {f"critic/{name}": value.detach() for name, value in self.critic.named_parameters().items()}
            found |= {f"critic_optimizer/{name}": value for name, value in self.critic_optimizer.state().items()}
        return found

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Takes over what `tensors()` gave. Raises KeyError for a missing one before anything is changed."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}

        history = History.load(part("history/"))
        pairs = [(p, tensors[f"model/{name}"]) for name, p in self.policy.named_parameters().items()]
        if self.critic:
            pairs += [(p, tensors[f"critic/{name}"]) for name, p in self.critic.named_parameters().items()]
        with torch.no_grad():
            for parameter, value in pairs:
                parameter.copy_(value)
        self.optimizer.load(part("optimizer/"))
        if self.critic:
            self.critic_optimizer.load(part("critic_optimizer/"))
        self.history = history

    @torch.no_grad()
    def score(self, rows: Rows, values: Callable[[Rows], Tensor]) -> Float[Tensor, "B T"]:
        """Per-token values of all rows, a micro-batch at a time; 0 beyond a response's length."""
        out = torch.zeros(rows.tokens.shape)
        size = self.config.runtime.micro_batch_rows or max(1, len(rows.lengths))
        for index in torch.arange(len(rows.lengths)).split(size):
            if len(index):
                part = values(rows.take(index))
                out[index, : part.shape[1]] = part
        return out

    def reference_logprobs(self, rows: Rows) -> Float[Tensor, "B T"] | None:
        reference, temperature = self.reference, self.config.identity.sampling.temperature
        return self.score(rows, lambda part: reference.logprobs(part, temperature)[0]) if reference else None

    def values(self, rows: Rows) -> Float[Tensor, "B T"] | None:
        return self.score(rows, self.critic.values) if self.critic else None

    def update(self, batch: Batch, step: int, ratios: RatioMetrics) -> Norms:
        """K optimizer updates of the policy on one batch, and of the critic; stops at a norm that is not finite."""
        identity, seed = self.config.identity, self.config.seed
        size, temperature = self.config.runtime.micro_batch_rows, identity.sampling.temperature
        parts = identity.train.updates_per_rollout // identity.train.epochs
        num_prompts, norms = len(batch.rows.lengths) // batch.group_size, Norms()
        for epoch in range(identity.train.epochs):
            for prompts in seeds.minibatches(seed, step, epoch, num_prompts, parts):
                index = batch.of_prompts(torch.from_numpy(prompts))
                if batch.kept[index].any():  # else all of its samples are filtered out: there is no gradient to follow
                    for part in accumulate(self.policy, batch, index, self.slots, temperature, float(parts), size):
                        ratios.add(part)
                    norms.policy.append(self.optimizer.step(step))
                if self.critic and identity.critic:
                    clip = identity.critic.value_clip
                    norms.critic_loss.append(critics.accumulate(self.critic, batch, index, float(parts), clip, size))
                    norms.critic.append(self.critic_optimizer.step(step))
                if not norms.finite:
                    return norms
        return norms
