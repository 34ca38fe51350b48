"""Engine `hf`: batched sampling from the training weights in this process.

Samples by inverting the cumulative distribution at one uniform number per token, a stream per seed, so that arms
that differ little sample nearly alike. Finished sequences are dropped from the batch once they fill a quarter of
it. The log-probability it reports is of the distribution it samples from, so over what top-k and top-p leave; the
entropy is of the full vocabulary. Leaves out: any batch limit by memory (the caller sends what fits).
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from harness.core.engines import SamplingParams
from harness.core.head import tempered
from harness.core.hub import AutoModelForCausalLM
from harness.core.policy import Policy
from harness.core.seeds import uniforms
from harness.core.shapes import Prompts, Rollout
from harness.core.sharded import is_sharded

DROP_BELOW = 0.75  # rows are dropped from the cache when fewer than this share of them is alive


class HfEngine:
    policy: Policy
    twin: Policy | None = None

    @torch.no_grad()
    def sync(self, policy: Policy) -> dict[str, float]:
        """Weights of one process are shared, with nothing to copy; sharded ones go into a whole model of its own."""
        if not is_sharded(policy.model):
            self.policy = policy
            return {}
        if self.twin is None:
            self.twin = _twin(policy)
        self.policy, own = self.twin, self.twin.model.state_dict()
        for name, weight in policy.full_weights():
            own[name].copy_(weight)
        return {}

    @torch.no_grad()
    def generate(self, prompts: Prompts, seeds: np.ndarray, params: SamplingParams) -> Rollout:
        num_prompts, samples = seeds.shape
        total, limit = num_prompts * samples, params.max_new_tokens
        on = self.policy.device
        noise = torch.from_numpy(uniforms(seeds, limit).reshape(total, limit)).to(on) if params.temperature else None
        ends = torch.tensor(self.policy.end_tokens, device=on)
        tokens = torch.zeros(total, limit, dtype=torch.long, device=on)
        logp, entropy = (torch.zeros(total, limit, device=on) for _ in range(2))
        support: list[tuple[Tensor, Tensor]] = []  # the rows of a step and what each could choose from
        lengths, truncated = (torch.full((total,), value, device=on) for value in (limit, True))

        decoder = self.policy.decoder(prompts, samples, limit)
        rows, alive, logits = torch.arange(total, device=on), truncated.clone(), decoder.first_logits
        for t in range(limit):
            logs = tempered(logits, params.temperature or 1.0).log_softmax(-1)
            probabilities = logs.exp()
            left = _truncate(probabilities, params) if params.truncated else probabilities
            token = _choose(left, noise[rows, t]) if noise is not None else logs.argmax(-1)
            tokens[rows, t] = token
            logp[rows, t] = logs.gather(-1, token[:, None])[:, 0]
            if params.truncated:
                logp[rows, t] -= left.sum(-1).log()
                if params.replay:
                    support.append((rows, _kept(left)))
            entropy[rows, t] = torch.linalg.vecdot(probabilities, logs).neg_()
            ended = (token[:, None] == ends).any(-1) & alive
            lengths[rows[ended]], truncated[rows[ended]] = t + 1, False
            alive = alive & ~ended
            running = int(alive.sum())
            if running == 0 or t + 1 == limit:
                break
            if running < DROP_BELOW * len(rows):
                kept = alive.nonzero()[:, 0]
                decoder.keep(kept)
                rows, token, alive = rows[kept], token[kept], alive[kept]
            logits = decoder.step(token)

        width = int(lengths.max())
        beyond = torch.arange(width, device=on) >= lengths[:, None]  # rows that ended run on until they are dropped

        def shaped(x: Tensor) -> Tensor:
            return x[:, :width].masked_fill(beyond, 0).view(num_prompts, samples, width).cpu()

        by_sample = (num_prompts, samples)
        return Rollout(
            prompts,
            shaped(tokens),
            lengths.view(by_sample).cpu(),
            truncated.view(by_sample).cpu(),
            shaped(logp),
            shaped(entropy),
            _joined(support, lengths).view(num_prompts, samples, width, -1).cpu() if support else None,
        )

    def close(self) -> None:
        pass


def _twin(policy: Policy) -> Policy:
    """A policy of the same kind with whole weights of its own, which are still to come."""
    with torch.random.fork_rng(devices=[]), policy.device:
        model = AutoModelForCausalLM.from_config(policy.model.config, dtype=getattr(torch, policy.config.dtype))
    model.generation_config = policy.model.generation_config  # has the end tokens
    return Policy(model, policy.tokenizer, policy.config, policy.chunk)


def _choose(probabilities: Float[Tensor, "R V"], noise: Float[Tensor, "R"]) -> Int[Tensor, "R"]:
    """The token at which the cumulative distribution passes the noise."""
    cumulative = probabilities.cumsum(-1, dtype=torch.float64)
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


def _kept(probabilities: Float[Tensor, "R V"]) -> Int[Tensor, "R K"]:
    """The ids of what is not zero, padded with -1."""
    alive = probabilities > 0
    most = int(alive.sum(-1).max())
    ids = alive.byte().topk(most, dim=-1).indices
    return torch.where(alive.gather(-1, ids), ids, -1).int()  # a batch of the paper's has 10^9 of them


def _joined(steps: list[tuple[Tensor, Tensor]], lengths: Int[Tensor, "B"]) -> Int[Tensor, "B T K"]:
    """Every step's kept ids in place; -1 beyond a response's end."""
    most, width = max(kept.shape[-1] for _, kept in steps), int(lengths.max())
    out = torch.full((len(lengths), width, most), -1, dtype=torch.int32, device=lengths.device)
    for t, (rows, kept) in enumerate(steps):
        inside = lengths[rows] > t  # rows that ended run on until they are dropped
        out[rows[inside], t, : kept.shape[-1]] = kept[inside]
    return out
