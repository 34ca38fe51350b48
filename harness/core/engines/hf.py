"""Engine `hf`: batched sampling from the training weights in this process.

Samples by inverting the cumulative distribution at one uniform number per token, a stream per seed, so that arms
that differ little sample nearly alike. Finished sequences are dropped from the batch once they fill a quarter of
it. The log-probability it reports is over the full vocabulary, also under top-k or top-p. Leaves out: any batch
limit by memory (the caller sends what fits).
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from harness.core.engines import SamplingParams
from harness.core.policy import Policy, tempered
from harness.core.seeds import uniforms
from harness.core.shapes import Prompts, Rollout

DROP_BELOW = 0.75  # rows are dropped from the cache when fewer than this share of them is alive


class HfEngine:
    policy: Policy

    def sync(self, policy: Policy) -> None:
        self.policy = policy  # the weights are shared: nothing to copy

    @torch.no_grad()
    def generate(self, prompts: Prompts, seeds: np.ndarray, params: SamplingParams) -> Rollout:
        num_prompts, samples = seeds.shape
        total, limit = num_prompts * samples, params.max_new_tokens
        noise = torch.from_numpy(uniforms(seeds, limit).reshape(total, limit)) if params.temperature else None
        ends = torch.tensor(self.policy.end_tokens)
        tokens = torch.zeros(total, limit, dtype=torch.long)
        logp, entropy = torch.zeros(total, limit), torch.zeros(total, limit)
        lengths, truncated = torch.full((total,), limit), torch.ones(total, dtype=torch.bool)

        decoder = self.policy.decoder(prompts, samples, limit)
        rows, alive, logits = torch.arange(total), torch.ones(total, dtype=torch.bool), decoder.first_logits
        for t in range(limit):
            logs = tempered(logits, params.temperature or 1.0).log_softmax(-1)
            probabilities = logs.exp()
            token = _choose(probabilities, noise[rows, t], params) if noise is not None else logs.argmax(-1)
            tokens[rows, t] = token
            logp[rows, t] = logs.gather(-1, token[:, None])[:, 0]
            entropy[rows, t] = torch.linalg.vecdot(probabilities, logs).neg_()
            ended = (token[:, None] == ends).any(-1) & alive
            lengths[rows[ended]], truncated[rows[ended]] = t + 1, False
            alive = alive & ~ended
            left = int(alive.sum())
            if left == 0 or t + 1 == limit:
                break
            if left < DROP_BELOW * len(rows):
                kept = alive.nonzero()[:, 0]
                decoder.keep(kept)
                rows, token, alive = rows[kept], token[kept], torch.ones(left, dtype=torch.bool)
            logits = decoder.step(token)

        width = int(lengths.max())
        beyond = torch.arange(width) >= lengths[:, None]  # rows that ended run on until they are dropped

        def shaped(x: Tensor) -> Tensor:
            return x[:, :width].masked_fill(beyond, 0).view(num_prompts, samples, width)

        by_sample = (num_prompts, samples)
        return Rollout(
            prompts,
            shaped(tokens),
            lengths.view(by_sample),
            truncated.view(by_sample),
            shaped(logp),
            shaped(entropy),
        )


def _choose(probabilities: Float[Tensor, "R V"], noise: Float[Tensor, "R"], params: SamplingParams) -> Int[Tensor, "R"]:
    """The token at which the cumulative distribution passes the noise."""
    cumulative = _truncate(probabilities, params).cumsum(-1, dtype=torch.float64)
    place = (noise * cumulative[:, -1])[:, None]
    return torch.searchsorted(cumulative, place, right=True)[:, 0].clamp(max=probabilities.shape[-1] - 1)


def _truncate(probabilities: Float[Tensor, "R V"], params: SamplingParams) -> Float[Tensor, "R V"]:
    """Zeroes all but the top_k most likely tokens, then all beyond the smallest set of mass top_p."""
    if 0 < params.top_k < probabilities.shape[-1]:
        floor = probabilities.topk(params.top_k).values[:, -1:]
        probabilities = probabilities.where(probabilities >= floor, 0.0)
    if params.top_p < 1.0:
        ordered, order = probabilities.sort(descending=True)
        before = ordered.cumsum(-1) - ordered
        ordered = ordered.where(before < params.top_p * ordered.sum(-1, keepdim=True), 0.0)
        probabilities = torch.zeros_like(probabilities).scatter(-1, order, ordered)
    return probabilities
