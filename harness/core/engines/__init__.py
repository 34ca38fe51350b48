"""Engines turn prompts into rollouts. An engine samples with explicit parameters and gives back token ids."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout


@dataclass(frozen=True)
class SamplingParams:
    """Every field is stated; nothing is taken from a model's generation config. temperature 0 = greedy."""

    max_new_tokens: int
    temperature: float
    top_p: float = 1.0
    top_k: int = 0


@runtime_checkable
class Engine(Protocol):
    def sync(self, policy: Policy) -> None:
        """Takes over the policy's current weights."""

    def generate(self, prompts: Prompts, seeds: np.ndarray, params: SamplingParams) -> Rollout:
        """One response per seed; seeds[P,G] fix the noise of each."""


def load(name: str) -> Engine:
    """Raises ValueError for a name that is no engine."""
    if name == "hf":
        from harness.core.engines.hf import HfEngine

        return HfEngine()
    raise ValueError(f"sampling.engine: no engine '{name}' (there are: hf)")
