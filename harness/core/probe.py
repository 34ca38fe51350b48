"""Whether an engine samples from the policy's weights: both score the same few tokens after one long prompt.

    gap = max |log π_engine(token) - log π_policy(token)|, in nats

The prompt is a fixed row of random tokens, longer than the blocks by which an engine caches prefixes, and always the
same: so a cache that kept a prefix of older weights shows as much as weights or a head that were not taken over. The
temperature is high, since the log-probability of a token that is nearly sure hardly moves with the weights. Leaves out:
differences smaller than the tolerance, and what truncated sampling does (tests compare that).
"""

from typing import TYPE_CHECKING

import numpy as np
import torch

from harness.config import RunConfig
from harness.core.policy import Policy
from harness.core.shapes import Prompts

if TYPE_CHECKING:
    from harness.core.engines import Engine

TEMPERATURE = 2.0  # vLLM takes no higher one
PROMPT, TOKENS, SAMPLES = 160, 4, 8  # vLLM's blocks have 16 tokens on a GPU and 128 on a CPU
TOLERANCE = {"float32": 1e-4, "bfloat16": 0.5}  # nats; measured: 6e-6 to 4e-5, and 0.1 to 0.31


def check(engine: "Engine", policy: Policy, config: RunConfig) -> float:
    """The gap. Raises RuntimeError above the tolerance, runtime.probe_tolerance or the dtype's own."""
    found = gap(engine, policy)
    tolerance = config.runtime.probe_tolerance or TOLERANCE[config.identity.model.dtype]
    if not found <= tolerance:  # true for nan as well
        raise RuntimeError(
            f"after a weight sync the engine's log-probabilities are {found:.3g} nats from the policy's, more than "
            f"{tolerance:.3g}: it samples from other weights. Set sampling.engine=hf; if only the arithmetic differs "
            "(another dtype or kernel), raise runtime.probe_tolerance"
        )
    return found


@torch.no_grad()
def gap(engine: "Engine", policy: Policy) -> float:
    """max |Δ| over the sampled tokens, nothing truncated."""
    from harness.core.engines import SamplingParams

    room = getattr(policy.model.config.get_text_config(), "max_position_embeddings", None) or PROMPT + TOKENS
    length = min(PROMPT, room - TOKENS)
    words = min(len(policy.tokenizer), policy.model.config.get_text_config().vocab_size)
    prompt = np.random.default_rng(0).integers(words, size=length).tolist()
    seeds = np.arange(SAMPLES)[None]
    rollout = engine.generate(Prompts.of([prompt]), seeds, SamplingParams(TOKENS, TEMPERATURE))
    logp, _ = policy.logprobs(rollout.rows(), TEMPERATURE)
    return float((logp.view(rollout.logp.shape) - rollout.logp).abs().max())
