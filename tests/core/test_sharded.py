"""Sharded runs against whole ones: the curve of one process on two, and on whatever number goes on with it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import store
from harness.config import Model
from harness.core import sharded
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rows
from harness.core.train import train
from tests.conftest import make_model
from tests.core.conftest import MakeRun
from tests.core.together import together

# wrong answers, which this policy nearly always gives, pay: every update has a gradient
PAYING = {"tricks__reward": {"name": "affine", "scale": -2.0, "shift": 1.0}, "evaluate__greedy": False}
PPO = {"critic__lr": 1e-3, "tricks__advantage": "gae"}
# three rows an update, one at a time: the second of two ranks has fewer passes than the first
KL = {
    "tricks__penalty": {"name": "k2", "beta": 0.1},
    "sampling__prompts_per_step": 3,
    "sampling__group_size": 3,
    "train__updates_per_rollout": 3,
    "runtime__micro_batch_rows": 1,
}


@pytest.fixture(scope="session")
def plain_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that takes transformers' own forward in one process as well: the functional Qwen3 knows no biases."""
    return make_model(tmp_path_factory.mktemp("plain") / "model", attention_bias=True)


def some_steps(run: store.Run, steps: int) -> None:
    calls = iter(range(1000))
    train(run, lambda: next(calls) >= steps)


def apart(one: store.Run, other: store.Run) -> dict[str, float]:
    """By metric, how far two curves are apart at most: |a - b| / max(1, |a|)."""
    far: dict[str, float] = {}
    for a, b in zip(one.read("metrics"), other.read("metrics"), strict=True):
        assert a["step"] == b["step"] and set(a["m"]) == set(b["m"])
        for key, value in a["m"].items():
            assert (value is None) == (b["m"][key] is None), key
            if value is not None:
                far[key] = max(far.get(key, 0.0), abs(value - b["m"][key]) / max(1.0, abs(value)))
    return far


def test_two_ranks_make_the_curve_of_one_process(make_run: MakeRun, plain_model: Path) -> None:
    settings = PAYING | {"model__path": str(plain_model), "train__lr": 1e-3}
    settings |= {"train__steps": 20, "evaluate__every": 10, "runtime__checkpoint_every": 20}
    settings |= {"train__updates_per_rollout": 2, "sampling__max_new_tokens": 8}  # seconds of many small collectives
    one, two = make_run("one", **settings), make_run("two", **settings)
    train(one)
    together(2, train, two)
    curve = [record["m"] for record in one.read("metrics")]
    assert len(curve) == 21 and two.state() == "done"
    assert abs(curve[0]["policy/entropy"] - curve[19]["policy/entropy"]) > 1e-2  # there is a way to go apart on
    far = apart(one, two)
    assert max(far.values()) <= 1e-5, far


@pytest.mark.parametrize(
    ("changes", "ranks"), [(PPO, (2, 3, 1)), (KL, (1, 2))], ids=["with a critic", "with a reference"]
)
def test_any_number_of_ranks_goes_on_with_the_curve_of_any_other(
    make_run: MakeRun, plain_model: Path, changes: dict, ranks: tuple[int, ...]
) -> None:
    settings = PAYING | {"model__path": str(plain_model), "train__lr": 1e-3, "evaluate__every": 6} | changes
    one, other = make_run("one", **settings), make_run("other", **settings)
    train(one)
    for number in ranks[:-1]:
        together(number, some_steps, other, 2) if number > 1 else some_steps(other, 2)
    together(ranks[-1], train, other) if ranks[-1] > 1 else train(other)
    assert len(list((other.path / "metrics").iterdir())) == len(ranks)
    assert other.state() == "done"
    far = apart(one, other)
    assert max(far.values()) <= 1e-5, far
    assert one.read("metrics")[0]["m"]["grad/norm"] > 1e-3


def in_bfloat16(path: str) -> tuple[Any, ...]:
    """What two ranks keep, compute and hand over of a model in bfloat16, beside what one process has."""
    plain, shared = (Policy.load(Model(role="", path=path, dtype="bfloat16")) for _ in range(2))
    shared.fast = plain.fast = False
    sharded.shard(shared.model)
    prompts = Prompts.of(shared.encode(["Q 1 + 2 = ? A", "Q 3 A"]))
    rows = Rows(prompts, torch.tensor([0, 1]), torch.tensor([[13, 14, 2], [15, 2, 0]]), torch.tensor([3, 2]))
    found, expected = (policy.logprobs(rows, 1.0)[0] for policy in (shared, plain))
    found.sum().backward()
    parameters = shared.named_parameters().values()
    kept = {p.dtype for p in parameters} | {p.grad.dtype for p in parameters if p.grad is not None}
    whole = dict(shared.full_weights())
    same = all(torch.equal(whole[name].bfloat16(), weight) for name, weight in plain.full_weights())
    share = sum(sharded.local_rows(p)[0].numel() for p in parameters) / sum(p.numel() for p in parameters)
    return kept, found.detach().tolist(), expected.detach().tolist(), same, share


def test_a_sharded_model_computes_in_its_dtype_and_keeps_half_of_it_in_float32(plain_model: Path) -> None:
    for kept, found, expected, same, share in together(2, in_bfloat16, str(plain_model)):
        assert kept == {torch.float32} and same
        assert found == expected
        assert share == pytest.approx(0.5, abs=0.01)  # an odd number of words has no halves


def unused_libraries() -> set[str]:
    return {"sklearn", "pandas", "mlflow", "matplotlib"} & set(sys.modules)


def test_a_rank_has_imported_no_library_that_training_does_not_use() -> None:
    assert together(1, unused_libraries) == [set()]


def test_a_checkpoint_with_one_rank_s_file_damaged_is_passed_over_by_all(make_run: MakeRun) -> None:
    run = make_run("damaged", train__steps=5, **PAYING)
    together(2, some_steps, run, 4)
    before = [record for record in run.read("metrics") if record["step"] >= 2]
    newest = run.path / "checkpoint/step_000004/rank-00001.safetensors"
    newest.write_bytes(newest.read_bytes()[:-8])
    together(2, train, run)
    assert run.state() == "done"
    after = [json.loads(line) for line in run.attempt_file("metrics", 1).read_text().splitlines()]
    assert after[: len(before)] == before  # from step 2 on, to the same bytes
