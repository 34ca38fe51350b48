"""LoRA: the first policy is the model, adapters alone are trained, and merged weights are the same policy."""

import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from harness.config import Model
from harness.core import adapters
from harness.core.policy import Policy
from harness.core.shapes import Rollout


def _load(path: Path, seed: int = 0, **changes: object) -> Policy:
    return Policy.load(Model(role="", path=str(path), **({"lora_rank": 4, "lora_alpha": 8.0} | changes)), seed=seed)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def adapted(tiny_model: Path) -> Policy:
    return _load(tiny_model)


def _move(policy: Policy) -> None:
    """As if the adapters had been trained."""
    with torch.no_grad():
        for name, parameter in policy.named_parameters().items():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name))) * 0.2)


def test_the_first_policy_is_the_model_as_loaded(adapted: Policy, policy: Policy, rollout: Rollout) -> None:
    assert policy.fast and not adapted.fast  # the functional form would not see the adapters
    ours, _ = adapted.logprobs(rollout.rows(), 1.0)
    assert torch.allclose(ours, policy.logprobs(rollout.rows(), 1.0)[0], atol=1e-5)


def test_adapters_on_every_linear_map_alone_are_trained(tiny_model: Path, rollout: Rollout) -> None:
    policy = _load(tiny_model)
    names = set(policy.named_parameters())
    maps = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    assert len(names) == 2 * 7 * 2  # A and B of seven maps in two layers
    assert all(any(f".{kind}.lora_{part}." in name for name in names) for kind in maps for part in "AB")
    policy.logprobs(rollout.rows(), 1.0)[0].sum().backward()
    for name, parameter in policy.model.named_parameters():
        assert (parameter.grad is not None) == (name in names)
        assert "lora_B" not in name or parameter.grad.abs().max() > 1e-3


def test_merged_weights_are_the_same_policy_under_the_hub_s_names(tiny_model: Path, rollout: Rollout) -> None:
    policy = _load(tiny_model)
    _move(policy)
    expected, _ = policy.logprobs(rollout.rows(), 1.0)
    plain = Policy.load(Model(role="", path=str(tiny_model)))
    assert (plain.logprobs(rollout.rows(), 1.0)[0] - expected).abs().max() > 0.1
    merged = dict(policy.full_weights())
    assert list(merged) == [name for name, _ in plain.model.named_parameters()]
    plain.model.load_state_dict(merged, strict=False)
    assert torch.allclose(plain.logprobs(rollout.rows(), 1.0)[0], expected, atol=1e-5)


def test_without_adapters_full_weights_are_the_parameters_themselves(tiny_model: Path) -> None:
    policy = Policy.load(Model(role="", path=str(tiny_model)))
    saved = dict(AutoModelForCausalLM.from_pretrained(tiny_model).named_parameters())
    found = dict(policy.full_weights())
    assert list(found) == list(saved) and all(torch.equal(found[name], saved[name]) for name in saved)
    assert all(found[name].data_ptr() == p.data_ptr() for name, p in policy.named_parameters().items())


def test_initial_values_follow_from_the_seed_and_move_no_other_random_number(tiny_model: Path) -> None:
    torch.manual_seed(5)
    first = torch.cat([p.flatten() for p in _load(tiny_model, seed=1).parameters()])
    after = torch.rand(1)
    again = torch.cat([p.flatten() for p in _load(tiny_model, seed=1).parameters()])
    other = torch.cat([p.flatten() for p in _load(tiny_model, seed=2).parameters()])
    assert torch.equal(first, again) and not torch.equal(first, other)
    torch.manual_seed(5)
    _load(tiny_model, lora_rank=0)
    assert torch.equal(after, torch.rand(1))


def test_alpha_over_rank_scales_what_an_adapter_adds(tiny_model: Path) -> None:
    """ΔW = (alpha / rank) · B A."""
    found = {}
    for alpha in (8.0, 24.0):
        policy = _load(tiny_model, lora_alpha=alpha)
        _move(policy)
        merged, layer = dict(policy.full_weights()), policy.model.model.layers[1].mlp.up_proj
        found[alpha] = merged["model.layers.1.mlp.up_proj.weight"] - layer.base_layer.weight
        product = layer.lora_B["default"].weight @ layer.lora_A["default"].weight
        assert torch.allclose(found[alpha], alpha / 4 * product, atol=1e-6)
    assert torch.allclose(3 * found[8.0], found[24.0], atol=1e-5)


def test_gradient_checkpointing_reaches_adapters_of_a_frozen_model(tiny_model: Path, rollout: Rollout) -> None:
    found = []
    for checkpointing in (False, True):
        policy = _load(tiny_model)
        _move(policy)
        if checkpointing:
            from harness.core.forward import recompute_layers

            recompute_layers(policy.model)
        policy.logprobs(rollout.rows(), 1.0)[0].sum().backward()
        found.append(torch.cat([p.grad.flatten() for p in policy.parameters()]))  # type: ignore[union-attr]
    assert found[0].abs().max() > 1e-2 and torch.allclose(found[0], found[1], atol=1e-4, rtol=1e-4)


def test_without_peft_the_error_names_the_key_and_the_extra(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match=r"model\.lora_rank: adapters need peft; pip install .*\[lora\]"):
        adapters.add(Policy.load(Model(role="", path=str(tiny_model))).model, 4, 8.0, 0)
