"""A tiny policy, and whole run folders on a handful of sums."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import config, store
from harness.core import engines
from harness.core.engines.hf import HfEngine
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout


@pytest.fixture(scope="session")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty sums as JSON lines."""
    path = tmp_path_factory.mktemp("data") / "sums.jsonl"
    rows = [{"question": f"Q {i % 10} + {i % 7} = ? A", "answer": str(i % 10 + i % 7)} for i in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def policy(tiny_model: Path) -> Policy:
    return Policy.load(config.Model(role="", path=str(tiny_model)))


@pytest.fixture(scope="session")
def rollout(policy: Policy) -> Rollout:
    engine = HfEngine()
    engine.sync(policy)
    texts = ["Q 1 + 2 = ? A", "Q 3 A", "Q 1 + 2 - 3 + 4 = ? A"]
    return engine.generate(
        Prompts.of(policy.encode(texts)), np.arange(12).reshape(3, 4), engines.SamplingParams(24, 1.0)
    )


MakeRun = Callable[..., store.Run]


@pytest.fixture
def make_run(tiny_model: Path, sums: Path, tmp_path: Path) -> MakeRun:
    """A run folder of 6 steps; dotted keys change its configuration, `root` where it stands."""

    def make(root: str = "a", seed: int = 1, **changes: Any) -> store.Run:
        data = {"task": "jsonl", "path": str(sums)}
        tree: dict[str, Any] = {
            "model": {"role": "tiny", "path": str(tiny_model), "content": "tiny"},
            "data": data,
            "tricks": {
                "admit": "everything",
                "reward": "raw",
                "keep": "everything",
                "advantage": "none",
                "weight": "token_mean",
                "surrogate": "clip",
                "penalty": "none",
            },
            "sampling": {"prompts_per_step": 4, "group_size": 4, "max_new_tokens": 16},
            "train": {"steps": 6, "updates_per_rollout": 4, "lr": 3e-3},
            "evaluate": {"every": 3, "samples": 2, "max_new_tokens": 16, "benchmarks": {"sums": data}},
            "runtime": {"checkpoint_every": 2},
        }
        for key, value in changes.items():
            config.set_key(tree, key.replace("__", "."), value)
        identity, runtime, *_ = config.build(tree)
        return store.create_run(tmp_path / root, config.RunConfig(identity=identity, runtime=runtime, seed=seed))

    return make
