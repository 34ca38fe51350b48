"""An engine on every rank: each samples its share of the prompts, and all hold the whole rollout.

Prompts go to the ranks by turns. What a sample is follows from its seed, so the share changes nothing in it. Leaves
out: engines that span several ranks.
"""

from dataclasses import replace

import numpy as np
import torch

from harness.core import parallel
from harness.core.engines import Engine, SamplingParams
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout


class SharedEngine:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def sync(self, policy: Policy) -> dict[str, float]:
        return self.engine.sync(policy)

    def generate(self, prompts: Prompts, seeds: np.ndarray, params: SamplingParams) -> Rollout:
        """As the engine's own; a rank without a prompt asks nothing of it."""
        turns = [torch.arange(r, len(seeds), parallel.size()) for r in range(parallel.size())]
        own = turns[parallel.rank()]
        mine = [self.engine.generate(prompts.rows(own), seeds[own.numpy()], params)] if len(own) else []
        whole = Rollout.join(parallel.from_all_ranks(mine))
        return replace(whole.take(torch.cat(turns).argsort()), prompts=prompts)

    def close(self) -> None:
        self.engine.close()
