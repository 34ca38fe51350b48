"""How the engine fails: what the message names, and that the next sync starts a fresh one."""

import time
from pathlib import Path

import numpy as np
import pytest

from harness.config import Model
from harness.core.engines import SamplingParams, vllm_start
from harness.core.engines import vllm as module
from harness.core.engines.vllm import VllmEngine
from harness.core.policy import Policy
from harness.core.shapes import Prompts
from harness.sweep.worker import _out_of_memory
from tests.conftest import make_model
from tests.vllm.conftest import configure

pytestmark = pytest.mark.vllm


def generate(engine: VllmEngine) -> None:
    engine.generate(Prompts.of([[3, 4]]), np.zeros((1, 1), dtype=int), SamplingParams(4, 1.0))


def test_a_cache_too_small_for_one_sequence_names_the_key(tmp_path: Path) -> None:
    # 4,096 tokens × 2 layers × (key, value) × 32 × float32 are 2 MiB
    path = make_model(tmp_path / "long", max_position_embeddings=4096)
    small = VllmEngine(configure(path, runtime__engine_cpu_mb=1))
    with pytest.raises(RuntimeError, match=r"the engine vllm did not start: .*raise runtime\.engine_cpu_mb"):
        small.sync(Policy.load(Model(role="", path=str(path))))


def test_a_hung_engine_is_stopped_and_the_next_sync_starts_another(
    policy: Policy, engine: VllmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = engine.llm
    monkeypatch.setattr(module, "HANGS_AFTER", 0.5)
    monkeypatch.setattr(hung.llm_engine, "step", lambda: time.sleep(300))
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=r"within 0\.5 seconds: it hangs; lower sampling\.max_new_tokens"):
        generate(engine)
    assert time.monotonic() - begun < 120  # not 300
    monkeypatch.undo()
    assert engine.sync(policy)["engine/probe_gap"] <= 1e-4
    assert engine.llm is not hung


def test_out_of_memory_is_told_as_such(engine: VllmEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(engine.llm.llm_engine, "step", fail)
    with pytest.raises(
        RuntimeError, match=r"^out of memory in the engine vllm: .*lower sampling\.max_new_tokens"
    ) as error:
        generate(engine)
    assert vllm_start._held is None and not _out_of_memory(error.value)
