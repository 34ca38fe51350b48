"""The functional Qwen3 against transformers' own forward and generate."""

from typing import Any

import numpy as np
import pytest
import torch

from harness.config import Model
from harness.core import engines, qwen3
from harness.core.engines.hf import HfEngine
from harness.core.forward import padded_states
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout, Rows
from tests.conftest import make_model

TEXTS = ["Q 1 + 2 = ? A", "Q 3 A", "Q 1 + 2 - 3 + 4 = ? A", "Q"]


@pytest.fixture(scope="module", params=["tied", "untied_grouped"])
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    changes = {"tie_word_embeddings": False, "num_attention_heads": 4, "num_key_value_heads": 2}
    folder = tmp_path_factory.mktemp(request.param)
    return Policy.load(Model(role="", path=str(make_model(folder, **(changes if request.param != "tied" else {})))))


@pytest.fixture(scope="module")
def rollout(policy: Policy) -> Rollout:
    engine = HfEngine()
    engine.sync(policy)
    seeds = np.arange(4 * 5).reshape(4, 5) + 7
    return engine.generate(Prompts.of(policy.encode(TEXTS)), seeds, engines.SamplingParams(20, 1.0))


def _padded_logits(model: Any, rows: Rows) -> torch.Tensor:
    return model.lm_head(padded_states(model, rows))


def _rows(rollout: Rollout) -> Rows:
    index = torch.arange(4).repeat_interleave(5)
    return Rows(rollout.prompts, index, rollout.tokens.flatten(0, 1), rollout.lengths.flatten())


def test_the_sample_is_worth_testing(rollout: Rollout) -> None:
    assert len(rollout.lengths.unique()) > 1 and 0 < int(rollout.truncated.sum()) < 20


def test_logits_equal_transformers(policy: Policy, rollout: Rollout) -> None:
    assert policy.fast
    ours = qwen3.packed_logits(policy.model, _rows(rollout))
    theirs = _padded_logits(policy.model, _rows(rollout))
    assert torch.allclose(ours, theirs, atol=2e-5)


def test_gradients_equal_transformers(policy: Policy, rollout: Rollout) -> None:
    def gradients(forward) -> list[torch.Tensor]:
        policy.model.zero_grad()
        forward(policy.model, _rows(rollout)).log_softmax(-1)[:, 3].sum().backward()
        return [parameter.grad.clone() for parameter in policy.parameters()]  # type: ignore[union-attr]

    for ours, theirs in zip(gradients(qwen3.packed_logits), gradients(_padded_logits), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5 * float(theirs.abs().max()) + 1e-7)


def test_attention_too_large_to_hold_takes_the_other_forward(
    policy: Policy, rollout: Rollout, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _rows(rollout)
    packed, _ = policy.logprobs(rows, 1.0)
    width, response, heads = rollout.prompts.ids.shape[1], rows.tokens.shape[1], policy.model.config.num_attention_heads
    largest = (4 + 20) * max(width, response) * (width + response) * heads * 4  # 4 prompts and 20 rows, fp32
    monkeypatch.setattr(qwen3, "LARGEST_ATTENTION", largest)
    assert qwen3.fits(policy.model, rows)
    monkeypatch.setattr(qwen3, "LARGEST_ATTENTION", largest - 1)
    assert not qwen3.fits(policy.model, rows)
    monkeypatch.setattr(qwen3, "packed_logits", None)
    assert torch.allclose(policy.logprobs(rows, 1.0)[0], packed, atol=2e-5)


def test_behaviour_log_probabilities_and_entropy_equal_the_training_ones(policy: Policy, rollout: Rollout) -> None:
    logp, entropy = policy.logprobs(_rows(rollout), 1.0, with_entropy=True)
    assert entropy is not None
    assert rollout.logp.dtype == torch.float32
    assert torch.allclose(logp, rollout.logp.flatten(0, 1), atol=1e-5)
    assert torch.allclose(entropy, rollout.entropy.flatten(0, 1), atol=1e-5)


def test_both_decoders_sample_the_same_tokens(policy: Policy, rollout: Rollout) -> None:
    engine = HfEngine()
    engine.sync(policy)
    policy.fast = False
    try:
        seeds = np.arange(4 * 5).reshape(4, 5) + 7
        slow = engine.generate(Prompts.of(policy.encode(TEXTS)), seeds, engines.SamplingParams(20, 1.0))
    finally:
        policy.fast = True
    assert torch.equal(slow.tokens, rollout.tokens)
    assert torch.equal(slow.truncated, rollout.truncated)


def test_greedy_equals_transformers_generate(policy: Policy) -> None:
    engine = HfEngine()
    engine.sync(policy)
    ours = engine.generate(Prompts.of(policy.encode(TEXTS)), np.zeros((4, 1)), engines.SamplingParams(20, 0.0))
    batch = policy.tokenizer(TEXTS, padding=True, padding_side="left", return_tensors="pt")
    width = batch["input_ids"].shape[1]
    theirs = policy.model.generate(**batch, max_new_tokens=20, do_sample=False)[:, width:]
    for row in range(4):
        length = int(ours.lengths[row, 0])
        assert ours.tokens[row, 0, :length].tolist() == theirs[row, :length].tolist()


def test_log_probabilities_do_not_depend_on_padding_or_company(policy: Policy, rollout: Rollout) -> None:
    rows = _rows(rollout)
    together, _ = policy.logprobs(rows, 1.0)
    for row in (0, 7, 19):
        alone = rows.take(torch.tensor([row]))
        logp, _ = policy.logprobs(alone, 1.0)
        assert torch.allclose(logp[0], together[row, : logp.shape[1]], atol=1e-5)


def test_temperature_divides_the_training_logits(policy: Policy, rollout: Rollout) -> None:
    warm, _ = policy.logprobs(_rows(rollout), 0.7)
    logits = _padded_logits(policy.model, _rows(rollout)) / 0.7
    chosen = logits.log_softmax(-1).gather(-1, rollout.tokens[rollout.mask][:, None])[:, 0]
    assert torch.allclose(warm[_rows(rollout).mask], chosen, atol=2e-5)
