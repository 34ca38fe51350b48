"""A run of two ranks under torchrun: one process's curve, one stop for all, one record, errors that name a rank."""

import time
from collections.abc import Callable

import pytest

from harness import store
from harness.core import ranks
from harness.core.train import train
from tests.core.conftest import MakeRun

# wrong answers, which this policy nearly always gives, pay: every update has a gradient
PAYING = {"tricks__reward": {"name": "affine", "scale": -2.0, "shift": 1.0}}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def close(one: store.Run, other: store.Run) -> None:
    pairs = list(zip(one.read("metrics"), other.read("metrics"), strict=True))
    assert len(pairs) == 7
    for a, b in pairs:
        assert a["step"] == b["step"] and set(a["m"]) == set(b["m"])
        for key, value in a["m"].items():
            expected = value if value is None else pytest.approx(value, rel=1e-3, abs=1e-5)
            assert b["m"][key] == expected, (a["step"], key)


def test_two_ranks_leave_the_curve_of_one_and_stop_together(make_run: MakeRun) -> None:
    one, two = make_run("one", **PAYING), make_run("two", runtime__gpus=2, **PAYING)
    assert one.id == two.id
    train(one)
    ranks.train(two, stop=lambda: len(two.read("metrics")) >= 3)
    status = two.status()
    assert status["state"] == "stopped"
    assert two.saved_step() == status["step"] >= 3
    ranks.train(two)  # from the checkpoint, on two ranks again
    assert two.state() == "done"
    assert sorted(path.name for path in (two.path / "metrics").iterdir()) == ["a000.jsonl", "a001.jsonl"]
    close(one, two)
    assert one.read("evals")[-1].keys() == two.read("evals")[-1].keys()


def test_an_error_on_a_rank_is_the_run_s(make_run: MakeRun) -> None:
    run = make_run("broken", runtime__gpus=2, data={"task": "jsonl", "path": "/no/such/file.jsonl"})
    with pytest.raises(RuntimeError, match=r"\(on rank [01]\) FileNotFoundError: .*no/such/file"):
        ranks.train(run)


def test_a_lost_claim_ends_every_rank(make_run: MakeRun) -> None:
    run = make_run("lost", runtime__gpus=2, train__steps=100_000, **PAYING)
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
