"""Whole runs with engine=vllm: every sync proven, ratios of 1, the same learning as with engine=hf."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness import store
from harness.core.engines import vllm_start
from harness.core.ranks import train
from harness.sweep.worker import work
from tests.core.conftest import MakeRun
from tests.core.test_sharded import PAYING, apart

pytestmark = pytest.mark.vllm


def metrics(run: store.Run, key: str) -> list[float]:
    return [row["m"][key] for row in run.read("metrics") if row["m"].get(key) is not None]


def test_a_sweep_of_twenty_steps_learns_as_with_the_engine_hf(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a random policy that is paid for ending on the number 3 says it at first one time in thirty
    threes = tmp_path / "threes.jsonl"
    threes.write_text("".join(json.dumps({"question": f"Q {i} = ? A", "answer": "3"}) + "\n" for i in range(16)))
    settings: dict[str, Any] = {
        "data": {"task": "jsonl", "path": str(threes)},
        "train__steps": 20,
        "train__lr": 1e-2,
        "tricks__advantage": "group_z",
        "sampling__prompts_per_step": 8,
        "sampling__group_size": 16,
        "evaluate__every": 20,
        "evaluate__greedy": False,
    }
    hf = make_run(**settings)
    low = make_run(sampling__engine="vllm", **settings)
    high = make_run(sampling__engine="vllm", tricks__surrogate__high=0.28, **settings)
    started: list[str] = []
    start = vllm_start._start
    monkeypatch.setattr(vllm_start, "_start", lambda *given: started.append("one") or start(*given))
    work(hf.path.parents[1], [hf.id, low.id, high.id], stop=lambda: False, train=train)
    assert [run.status()["state"] for run in (hf, low, high)] == ["done"] * 3
    assert len(started) <= 1  # none where another test left a running one
    for run in (low, high):
        assert len(metrics(run, "engine/probe_gap")) == 21 and max(metrics(run, "engine/probe_gap")) <= 1e-4
        assert len(metrics(run, "ratio/first_update")) == 20 and max(metrics(run, "ratio/first_update")) <= 1e-4
        assert run.read("timing")[0]["seconds"]["engine"] > 0
        assert min(metrics(run, "policy/entropy")) > 0
    assert not metrics(hf, "engine/probe_gap")
    for run in (hf, low, high):
        accuracy = metrics(run, "train/accuracy")
        assert accuracy[0] < 0.15 and sum(accuracy[-5:]) / 5 > 0.4


def test_runs_of_one_seed_are_byte_equal_and_replay_keeps_the_first_ratio_at_one(make_run: MakeRun) -> None:
    settings: dict[str, Any] = {
        "sampling__engine": "vllm",
        "sampling__temperature": 0.99,
        "sampling__top_p": 0.9,
        "sampling__top_k": 5,
        "sampling__logprob_support": "replay",
        "train__steps": 3,
    }
    one, two = make_run("one", **settings), make_run("two", **settings)
    for run in (one, two):
        train(run)
    assert (one.path / "metrics/a000.jsonl").read_bytes() == (two.path / "metrics/a000.jsonl").read_bytes()
    assert max(metrics(one, "ratio/first_update")) <= 1e-4
    full = make_run("full", **{**settings, "sampling__logprob_support": "full"})
    train(full)
    assert min(metrics(full, "ratio/first_update")) > 0.01


def test_two_ranks_with_an_engine_each_make_the_curve_of_one(
    make_run: MakeRun, capfd: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = PAYING | {"sampling__engine": "vllm", "train__steps": 2, "train__lr": 1e-3}
    settings["evaluate__every"] = 2
    one, two = make_run("one", **settings), make_run("two", runtime__gpus=2, runtime__engine_cpu_mb=64, **settings)
    for run in (one, two):
        train(run)
        assert run.state() == "done"
        assert len(metrics(run, "engine/probe_gap")) == 3 and max(metrics(run, "engine/probe_gap")) <= 1e-4
        assert len(metrics(run, "ratio/first_update")) == 2 and max(metrics(run, "ratio/first_update")) <= 1e-4
        assert min(metrics(run, "grad/norm")) > 0
    assert max(apart(one, two).values()) <= 1e-4
    assert "Traceback" not in capfd.readouterr().err  # everything ends in order
