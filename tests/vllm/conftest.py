"""The engine vllm on a tiny Qwen3, started once for all tests; run in an environment of its own (install.sh)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}  # before torch: more threads only wait for each other

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from harness import config
from harness.core.engines.vllm import VllmEngine
from harness.core.policy import Policy
from tests.conftest import make_model
from tests.core.conftest import make_run, sums

__all__ = ["make_run", "sums"]

Configure = Callable[..., config.RunConfig]


def pytest_configure(config: pytest.Config) -> None:
    """What torch and vLLM warn of in their own code."""
    for line in ("ignore:`torch.jit.script_method`:DeprecationWarning", "ignore:`torch.distributed.reduce_op`"):
        config.addinivalue_line("filterwarnings", line)


def configure(path: Path, **changes: Any) -> config.RunConfig:
    data = {"task": "jsonl", "path": "unused"}
    tree: dict[str, Any] = {
        "model": {"role": "tiny", "path": str(path), "content": "tiny"},
        "data": data,
        "tricks": dict.fromkeys(("admit", "keep"), "everything")
        | {"reward": "raw", "advantage": "none", "weight": "token_mean", "surrogate": "clip", "penalty": "none"},
        "sampling": {"engine": "vllm", "prompts_per_step": 4, "group_size": 4, "max_new_tokens": 24},
        "train": {"steps": 1, "updates_per_rollout": 1, "lr": 1e-3},
        "evaluate": {"every": 1, "samples": 1, "max_new_tokens": 24, "benchmarks": {"sums": data}},
        "runtime": {"engine_cpu_mb": 64},
    }
    for key, value in changes.items():
        config.set_key(tree, key.replace("__", "."), value)
    identity, runtime, *_ = config.build(tree)
    return config.RunConfig(identity=identity, runtime=runtime, seed=1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose generation_config.json would bend every sample, if anything read it."""
    path = make_model(tmp_path_factory.mktemp("model") / "tiny")
    bent = GenerationConfig(eos_token_id=2, pad_token_id=0, do_sample=True, repetition_penalty=5.0, top_k=1)
    bent.save_pretrained(path)
    return path


@pytest.fixture
def policy(folder: Path) -> Policy:
    return Policy.load(config.Model(role="", path=str(folder)))


def _states() -> list[Any]:
    """Not of `random`: the type checks of the tests draw from it."""
    return [np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), torch.get_num_threads()]


@pytest.fixture
def engine(folder: Path, policy: Policy) -> VllmEngine:
    """Synced; started by the first test that asks, which leaves every generator and the thread count as they were."""
    before = _states()
    made = VllmEngine(configure(folder))
    made.sync(policy)
    assert _states() == before
    torch.set_num_threads(2)  # vLLM makes this a warning; it has to work again
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    return made
