"""What a run remembers of its earlier steps besides weights: reward moments, entropies, pass rates by problem.

Tricks read it (`past`, `entropies`, `history`) and checkpoints carry it. Leaves out: weights and optimizers
(`learner.py`).
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from harness.tricks import moments


@dataclass
class History:
    moments: Tensor = field(default_factory=moments.empty)  # [5] of all rewards trained on so far
    entropies: list[float] = field(default_factory=list)  # token mean of every rollout so far, nats
    pass_rates: dict[int, float] = field(default_factory=dict)  # by problem id, at its last visit

    def of(self, problems: list[int]) -> Float[Tensor, "P"]:
        """Each problem's share of right answers at its last visit, NaN if there was none."""
        return torch.tensor([self.pass_rates.get(i, torch.nan) for i in problems], dtype=torch.float64)

    def visit(self, problems: list[int], rewards: Float[Tensor, "P G"]) -> None:
        """Notes the pass rates of a rollout; of a problem drawn twice the later one stands."""
        self.pass_rates |= dict(zip(problems, rewards.mean(-1).tolist(), strict=True))

    def add_rewards(self, rewards: Float[Tensor, "n"]) -> None:
        self.moments = moments.merge(self.moments, rewards)

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        return {
            "moments": self.moments,
            "entropies": torch.tensor(self.entropies, dtype=torch.float64),
            "visited": torch.tensor(list(self.pass_rates), dtype=torch.int64),
            "pass_rates": torch.tensor(list(self.pass_rates.values()), dtype=torch.float64),
        }

    @staticmethod
    def load(tensors: dict[str, Tensor]) -> "History":
        """Raises KeyError where one of them is missing."""
        rates = zip(tensors["visited"].tolist(), tensors["pass_rates"].tolist(), strict=True)
        return History(tensors["moments"], tensors["entropies"].tolist(), dict(rates))
