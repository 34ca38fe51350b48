"""Sampling: the distribution it draws from, its noise, its ends."""

from pathlib import Path

import numpy as np
import pytest
import torch

from harness.config import Model
from harness.core import engines
from harness.core.engines.hf import HfEngine, _choose, _truncate
from harness.core.policy import Policy
from harness.core.seeds import derive, minibatches, prompt_order, uniforms
from harness.core.shapes import Prompts

F4 = torch.tensor([[2.0, 1.0, 0.0, -1.0]]).softmax(-1)  # .643914, .236883, .087144, .032059


def test_choice_follows_the_distribution() -> None:
    noise = torch.arange(0.0005, 1, 0.001, dtype=torch.float64)  # a thousand even quantiles
    drawn = _choose(F4.expand(1000, 4), noise)
    assert torch.bincount(drawn).tolist() == [644, 237, 87, 32]


def test_top_k_and_top_p_keep_the_stated_mass() -> None:
    top_k = _truncate(F4, engines.SamplingParams(1, 1.0, top_k=2))
    assert float(top_k.sum()) == pytest.approx(0.880797, abs=1e-6)
    # .643914 + .236883 = .8808 < .9, so the third token is kept as well
    assert _truncate(F4, engines.SamplingParams(1, 1.0, top_p=0.9))[0].gt(0).tolist() == [True, True, True, False]
    assert _truncate(F4, engines.SamplingParams(1, 1.0, top_p=0.6))[0].gt(0).tolist() == [True, False, False, False]


def test_the_same_seed_gives_the_same_response_in_any_company(tiny_model: Path) -> None:
    policy = Policy.load(Model(role="", path=str(tiny_model)))
    engine = HfEngine()
    engine.sync(policy)
    prompts = policy.encode(["Q 1 + 2 = ? A", "Q 3 A", "Q 4 + 4 = ? A"])
    seeds = np.array([[11, 12], [13, 14], [15, 16]])
    params = engines.SamplingParams(24, 1.0)
    together = engine.generate(Prompts.of(prompts), seeds, params)
    alone = engine.generate(Prompts.of(prompts[1:2]), seeds[1:2, ::-1].copy(), params)
    for sample, twin in ((0, 1), (1, 0)):
        length = int(together.lengths[1, sample])
        assert int(alone.lengths[0, twin]) == length
        assert torch.equal(alone.tokens[0, twin, :length], together.tokens[1, sample, :length])
    assert not torch.equal(together.tokens[:, 0], together.tokens[:, 1])


def test_a_response_ends_with_its_first_end_token_or_is_truncated(tiny_model: Path) -> None:
    policy = Policy.load(Model(role="", path=str(tiny_model)))
    engine = HfEngine()
    engine.sync(policy)
    rollout = engine.generate(
        Prompts.of(policy.encode(["Q 1 + 2 = ? A"] * 8)), np.arange(64).reshape(8, 8), engines.SamplingParams(24, 1.0)
    )
    ends = rollout.tokens == policy.end_tokens[0]
    assert torch.equal(rollout.truncated, ~(ends & rollout.mask).any(-1))
    last = rollout.tokens.gather(-1, rollout.lengths[..., None] - 1)[..., 0]
    assert (last[~rollout.truncated] == policy.end_tokens[0]).all()
    assert int((ends & rollout.mask).sum(-1).max()) == 1
    assert not rollout.tokens[~rollout.mask].any() and not rollout.logp[~rollout.mask].any()
    assert (rollout.lengths[rollout.truncated] == 24).all()


def test_generation_config_defaults_do_not_leak(tiny_model: Path, tmp_path: Path) -> None:
    policy = Policy.load(Model(role="", path=str(tiny_model)))
    before = _greedy(policy)
    policy.model.generation_config.repetition_penalty = 5.0
    policy.model.generation_config.top_k = 1
    assert _greedy(policy) == before


def _greedy(policy: Policy) -> list:
    engine = HfEngine()
    engine.sync(policy)
    prompts = Prompts.of(policy.encode(["Q 1 + 2 = ? A"]))
    return engine.generate(prompts, np.zeros((1, 1)), engines.SamplingParams(12, 0.0)).tokens.tolist()


def test_seeds_are_pinned_and_streams_only_append() -> None:
    assert derive(0, "rollout", 0, 0, 0) == derive(0, "rollout", 0, 0, 0)
    parts = {
        derive(s, p, t, i, g) for s in range(3) for p in "ab" for t in range(3) for i in range(3) for g in range(3)
    }
    assert len(parts) == 3 * 2 * 3 * 3 * 3
    short, long = uniforms(np.array([5, 6]), 8), uniforms(np.array([5, 6]), 32)
    assert np.array_equal(short, long[:, :8])
    assert 0.49 < uniforms(np.arange(100), 100).mean() < 0.51 and not np.array_equal(long[0], long[1])


def test_every_prompt_comes_once_an_epoch() -> None:
    drawn = [i for step in range(20) for i in prompt_order(3, 40, step * 4, 4)]
    assert sorted(drawn[:40]) == sorted(drawn[40:]) == list(range(40))
    assert drawn[:40] != drawn[40:]
    assert prompt_order(3, 40, 38, 4) == drawn[38:42]


def test_minibatches_split_all_prompts_once() -> None:
    parts = minibatches(1, 2, 0, 16, 5)
    assert sorted(int(i) for part in parts for i in part) == list(range(16))
    assert sorted(len(part) for part in parts) == [3, 3, 3, 3, 4]
    assert len(minibatches(1, 2, 0, 3, 5)) == 3  # fewer prompts than parts: no empty update
