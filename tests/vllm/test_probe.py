"""The three mistakes of a weight sync that make no sound, each made on purpose; and one engine for two models."""

from pathlib import Path

import pytest
import torch

from harness.config import Model
from harness.core import probe
from harness.core.engines import vllm as module
from harness.core.engines import vllm_start
from harness.core.engines.vllm import VllmEngine
from harness.core.policy import Policy
from tests.conftest import make_model
from tests.vllm.conftest import configure

pytestmark = pytest.mark.vllm
OTHER = "it samples from other weights"


@torch.no_grad()
def learn(policy: Policy) -> None:
    """About what one optimizer step at lr 3e-3 does."""
    torch.manual_seed(1)
    for parameter in policy.parameters():
        parameter.add_(3e-3 * torch.randn_like(parameter).sign())


def test_weights_are_taken_over_whole(policy: Policy, engine: VllmEngine) -> None:
    for _ in range(3):
        learn(policy)
        assert engine.sync(policy)["engine/probe_gap"] <= 1e-4


def test_stale_weights_are_found(policy: Policy, engine: VllmEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    learn(policy)
    monkeypatch.setattr(module, "_take_over", lambda worker, weights: list(weights) and None)
    with pytest.raises(RuntimeError, match=OTHER):
        engine.sync(policy)


def test_stale_prefixes_are_found(policy: Policy, engine: VllmEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    learn(policy)
    monkeypatch.setattr(engine.llm, "reset_prefix_cache", lambda: True)
    with pytest.raises(RuntimeError, match=OTHER):
        engine.sync(policy)
    monkeypatch.undo()
    assert engine.sync(policy)["engine/probe_gap"] <= 1e-4


def test_a_tied_head_that_stays_behind_is_found(
    policy: Policy, engine: VllmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(policy)
    monkeypatch.setattr(module, "_take_over", lambda worker, weights: worker.reload_weights(weights_iterator=weights))
    with pytest.raises(RuntimeError, match=r"raise runtime\.probe_tolerance"):
        engine.sync(policy)


def test_the_tolerance_is_the_users(folder: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = VllmEngine(configure(folder, runtime__probe_tolerance=50.0))
    patient.sync(policy)
    learn(policy)
    monkeypatch.setattr(module, "_take_over", lambda worker, weights: list(weights) and None)
    assert patient.sync(policy)["engine/probe_gap"] > 1e-3


def test_the_probe_reaches_beyond_a_block_of_the_prefix_cache(engine: VllmEngine) -> None:
    assert engine.llm.llm_engine.vllm_config.cache_config.block_size < probe.PROMPT


def test_models_of_one_architecture_share_an_engine(
    engine: VllmEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_start, "_start", lambda *_: pytest.fail("a second engine was started"))
    path = make_model(tmp_path / "twin")
    policy, twin = Policy.load(Model(role="", path=str(path))), VllmEngine(configure(path))
    learn(policy)
    assert twin.sync(policy)["engine/probe_gap"] <= 1e-4
    assert twin.llm is engine.llm
