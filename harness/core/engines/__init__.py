"""Engines turn prompts into rollouts. An engine samples with explicit parameters and gives back token ids."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from harness.config import RunConfig
from harness.core import parallel
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout


@dataclass(frozen=True)
class SamplingParams:
    """Every field is stated; nothing is taken from a model's generation config. temperature 0 = greedy."""

    max_new_tokens: int
    temperature: float
    top_p: float = 1.0
    top_k: int = 0
    replay: bool = False  # the rollout is to say which tokens top-k and top-p left to choose from

    @property
    def truncated(self) -> bool:
        """Whether some tokens cannot be sampled."""
        return self.temperature > 0 and (self.top_p < 1.0 or self.top_k > 0)


@runtime_checkable
class Engine(Protocol):
    def sync(self, policy: Policy) -> dict[str, float]:
        """Takes over the policy's current weights; gives what the step's record is to say of it."""

    def generate(self, prompts: Prompts, seeds: np.ndarray, params: SamplingParams) -> Rollout:
        """One response per seed; seeds[P,G] fix the noise of each."""

    def close(self) -> None:
        """After the run's last generation."""


def load(config: RunConfig) -> Engine:
    """What sampling.engine names, imported only when it is asked for; of several ranks each has one, for its share."""
    engine: Engine
    if config.identity.sampling.engine == "vllm":
        from harness.core.engines.vllm import VllmEngine

        engine = VllmEngine(config)
    else:
        from harness.core.engines.hf import HfEngine

        engine = HfEngine()
    if parallel.size() > 1:
        from harness.core.engines.shared import SharedEngine

        engine = SharedEngine(engine)
    return engine
