"""What the engine samples, says of it, and refuses, against transformers' own forward."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from harness.config import Model
from harness.core.engines import SamplingParams
from harness.core.engines.hf import HfEngine
from harness.core.engines.vllm import VllmEngine
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout
from tests.vllm.conftest import configure

pytestmark = pytest.mark.vllm
GLASS = Path(__file__).parents[3] / "shared" / "data" / "glass-en-hf"
TEXTS = ["Q 1 + 2 = ? A", "Q 3 A", "Q 1 + 2 - 3 + 4 = ? A"]


def distribution(folder: Path, rollout: Rollout, temperature: float) -> Tensor:
    """[P G T V] of transformers' own forward, a sequence at a time, without any padding."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts, samples, width = rollout.tokens.shape
    out = torch.zeros(prompts, samples, width, model.config.vocab_size)
    for p in range(prompts):
        start = int(rollout.prompts.lengths[p])
        for g in range(samples):
            length = int(rollout.lengths[p, g])
            ids = torch.cat([rollout.prompts.ids[p, :start], rollout.tokens[p, g, :length]])
            with torch.no_grad():
                logits = model(ids[None]).logits[0, start - 1 : start - 1 + length]
            out[p, g, :length] = (logits / temperature).log_softmax(-1)
    return out


def of_tokens(logs: Tensor, rollout: Rollout) -> Tensor:
    return logs.gather(-1, rollout.tokens[..., None])[..., 0].where(rollout.mask, torch.zeros(()))


def seeds(prompts: int, samples: int, first: int = 0) -> np.ndarray:
    return np.arange(first, first + prompts * samples).reshape(prompts, samples)


@pytest.mark.parametrize(
    "real",
    [False, pytest.param(True, marks=pytest.mark.skipif(not GLASS.exists(), reason=f"needs the model {GLASS.name}"))],
    ids=["random", "trained"],
)
def test_log_probabilities_are_those_of_transformers(folder: Path, real: bool) -> None:
    where = GLASS if real else folder
    policy, engine = Policy.load(Model(role="", path=str(where))), VllmEngine(configure(where))
    assert engine.sync(policy)["engine/probe_gap"] <= 1e-4
    texts = ["Alice said", "The Queen of Hearts", "“Oh"] if real else TEXTS
    rollout = engine.generate(Prompts.of(policy.encode(texts)), seeds(3, 8), SamplingParams(24, 0.7))
    assert int(rollout.lengths.sum()) > 200 and rollout.entropy is None
    expected = of_tokens(distribution(where, rollout, 0.7), rollout)
    assert float((rollout.logp - expected).abs().max()) <= 1e-5
    assert float(rollout.logp[rollout.mask].min()) < -2  # not only sure tokens


def test_top_k_and_top_p_name_what_they_kept_and_the_ratio_is_one(
    folder: Path, policy: Policy, engine: VllmEngine
) -> None:
    temperature, top_p, top_k = 0.99, 0.9, 5
    params = SamplingParams(24, temperature, top_p, top_k, replay=True)
    rollout = engine.generate(Prompts.of(policy.encode(TEXTS)), seeds(3, 16), params)
    logs = distribution(folder, rollout, temperature)
    assert rollout.support is not None and rollout.support.shape[-1] <= top_k
    sizes = set()
    for p, g, t in rollout.mask.nonzero().tolist():
        chances, ids = logs[p, g, t].double().exp().sort(descending=True)
        chances = chances[:top_k] / chances[:top_k].sum()
        before = chances.cumsum(0) - chances
        if float((before - top_p).abs().min()) < 1e-4:
            continue  # too near the edge for two float32 forwards to agree on
        kept = before < top_p
        found = rollout.support[p, g, t]
        assert set(found[found >= 0].tolist()) == set(ids[:top_k][kept].tolist())
        sizes.add(int(kept.sum()))
        place = ids[:top_k].tolist().index(int(rollout.tokens[p, g, t]))
        expected = float((chances[place] / chances[kept].sum()).log())
        assert float(rollout.logp[p, g, t]) == pytest.approx(expected, abs=1e-5)
    assert len(sizes) >= 3
    replayed, _ = policy.logprobs(rollout.rows(), temperature)
    assert float((replayed.detach().view(rollout.logp.shape) - rollout.logp).abs().max()) <= 1e-5
    full, _ = policy.logprobs(Rollout(**{**vars(rollout), "support": None}).rows(), temperature)
    assert float((full.detach().view(rollout.logp.shape) - rollout.logp).abs().max()) > 0.05


def test_samples_follow_the_distribution(folder: Path, policy: Policy, engine: VllmEngine) -> None:
    prompts, draws = Prompts.of(policy.encode(TEXTS[:2])), 512
    rollout = engine.generate(prompts, seeds(2, draws), SamplingParams(1, 1.5))
    expected = distribution(folder, rollout, 1.5)[:, 0, 0].exp()
    for p in range(2):
        shares = torch.bincount(rollout.tokens[p, :, 0], minlength=expected.shape[-1]) / draws
        assert float((shares - expected[p]).abs().max()) < 0.078  # 3.5 standard errors at the widest
        assert float(expected[p].max()) < 0.9


def test_a_sample_depends_on_its_seed_alone(policy: Policy, engine: VllmEngine) -> None:
    prompts, noise, params = Prompts.of(policy.encode(TEXTS)), seeds(3, 4), SamplingParams(24, 1.5)
    first, again = engine.generate(prompts, noise, params), engine.generate(prompts, noise, params)
    assert torch.equal(first.tokens, again.tokens) and torch.equal(first.logp, again.logp)
    alone = engine.generate(prompts.rows(torch.tensor([1])), noise[1:2, ::-1].copy(), params)
    for sample in range(4):
        length = int(first.lengths[1, sample])
        assert int(alone.lengths[0, 3 - sample]) == length
        assert torch.equal(alone.tokens[0, 3 - sample, :length], first.tokens[1, sample, :length])


def test_equal_prompts_with_other_seeds_are_other_samples(policy: Policy, engine: VllmEngine) -> None:
    prompts = Prompts.of(policy.encode([TEXTS[0]] * 2))
    large = np.array([[2**62 + 1, 2**62 + 2], [2**63 - 1, 2**62 + 1]])
    rollout = engine.generate(prompts, large, SamplingParams(24, 1.5))
    rows = [rollout.tokens[p, g].tolist() for p, g in ((0, 0), (0, 1), (1, 0), (1, 1))]
    assert rows[0] == rows[3] and len({tuple(row) for row in rows}) == 3


def test_a_response_ends_with_its_first_end_token_or_is_truncated(policy: Policy, engine: VllmEngine) -> None:
    rollout = engine.generate(Prompts.of(policy.encode(TEXTS)), seeds(3, 16), SamplingParams(24, 1.5))
    ends = rollout.tokens == policy.end_tokens[0]
    assert torch.equal(rollout.truncated, ~(ends & rollout.mask).any(-1))
    assert 0 < int(rollout.truncated.sum()) < 48
    last = rollout.tokens.gather(-1, rollout.lengths[..., None] - 1)[..., 0]
    assert (last[~rollout.truncated] == policy.end_tokens[0]).all()
    assert int((ends & rollout.mask).sum(-1).max()) == 1
    assert not rollout.tokens[~rollout.mask].any() and not rollout.logp[~rollout.mask].any()
    assert (rollout.lengths[rollout.truncated] == 24).all()


def test_greedy_is_that_of_the_engine_hf(policy: Policy, engine: VllmEngine) -> None:
    prompts, other = Prompts.of(policy.encode(TEXTS)), HfEngine()
    other.sync(policy)
    ours, theirs = (e.generate(prompts, seeds(3, 1), SamplingParams(24, 0.0)) for e in (engine, other))
    assert ours.tokens.tolist() == theirs.tokens.tolist()
    assert ours.truncated.tolist() == theirs.truncated.tolist()
    assert torch.allclose(ours.logp, theirs.logp, atol=1e-5)


def test_replay_under_top_p_alone_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"set sampling\.top_k=100 beside it"):
        VllmEngine(configure(folder, sampling__logprob_support="replay", sampling__top_p=0.9))


def test_a_prompt_that_does_not_fit_is_refused(engine: VllmEngine) -> None:
    with pytest.raises(ValueError, match="a prompt of 250 tokens and 24 to come are more than the 256"):
        engine.generate(Prompts.of([[3] * 250]), seeds(1, 1), SamplingParams(24, 1.0))
