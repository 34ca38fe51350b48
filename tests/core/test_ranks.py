"""Runs of two ranks under torchrun: ports and folders of their own, one stop for all, errors that name a rank.

Who watches whom is looked at on ranks that load no model (light_ranks.py), whose start takes a third of the time.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness import store
from harness.core import ranks
from harness.core.train import train
from tests.core.conftest import MakeRun
from tests.core.light_ranks import FAIL
from tests.core.test_sharded import PAYING, apart

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks are those of light_ranks.py."""
    real = subprocess.Popen

    def start(command: list[str], **given: Any) -> Any:
        assert command.count("harness.core.ranks") == 1
        return real([word.replace("harness.core.ranks", "tests.core.light_ranks") for word in command], **given)

    monkeypatch.setattr(subprocess, "Popen", start)
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)


def test_runs_of_two_ranks_on_one_host_all_finish(make_run: MakeRun) -> None:
    settings = PAYING | {"train__steps": 3, "train__lr": 1e-3, "runtime__checkpoint_every": 1}
    one = make_run("one", **settings)
    train(one)
    runs = [make_run(f"two {i}", runtime__gpus=2, **settings) for i in range(2)]
    assert {run.id for run in runs} == {one.id}
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ranks.train, runs[0], lambda: len(runs[0].read("metrics")) >= 1)
        pool.submit(ranks.train, runs[1]).result()
        first.result()
    status = runs[0].status()
    assert status["state"] == "stopped" and runs[0].saved_step() == status["step"] >= 1
    assert sorted(path.name for path in (runs[1].path / "checkpoint/step_000002").iterdir()) == [
        "index.json",
        "rank-00000.safetensors",
        "rank-00001.safetensors",
    ]
    train(runs[0])  # in one process, from what two ranks have saved
    for run in runs:
        assert run.state() == "done"
        # the functional Qwen3 of the one process rounds elsewhere
        assert max(apart(one, run).values()) <= 1e-4
    assert one.read("evals")[-1].keys() == runs[1].read("evals")[-1].keys()


def test_an_error_on_a_rank_is_the_run_s(make_run: MakeRun, light: None) -> None:
    run = make_run("broken", runtime__gpus=2)
    (run.path / FAIL).write_text("1")
    with pytest.raises(RuntimeError, match=r"\(on rank 1\) FileNotFoundError: no such file on rank 1"):
        ranks.train(run)
    assert [row["m"]["ranks"] for row in run.read("metrics")] == [2.0]  # step 0 had both


def test_a_killed_rank_ends_the_run_with_a_word(
    make_run: MakeRun, light: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = make_run("killed", runtime__gpus=2)

    def stop() -> bool:
        if run.read("metrics"):
            for file in tmp_path.glob("harness-ranks-*/pid-1"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(file.read_text()), signal.SIGKILL)
        return False

    with pytest.raises(ChildProcessError, match=r"ended without a word.*killed, or out of memory"):
        ranks.train(run, stop)


def test_a_lost_claim_ends_every_rank(make_run: MakeRun, light: None) -> None:
    run = make_run("lost", runtime__gpus=2)
    mine = run.claim()
    assert mine

    def stop() -> bool:
        if len(run.read("metrics")) >= 2:
            store.write_atomic(run.path / "claim", '{"token": "of another"}')
        mine.guard()
        return False

    with pytest.raises(store.ClaimLost):
        ranks.train(mine, stop)
    settled(lambda: run.attempt_file("metrics", 0).stat().st_size)


def settled(size: Callable[[], int]) -> None:
    before = size()
    time.sleep(1.0)
    assert size() == before
