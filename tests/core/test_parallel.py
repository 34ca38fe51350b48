"""Shares and sums: what ranks tell each other, and that two of them make the gradient and the update of one process."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from harness import store, tasks
from harness.config import Model
from harness.core import critic as critics
from harness.core import engines, evaluate, head, metrics, parallel
from harness.core.collect import collect
from harness.core.engines.hf import HfEngine
from harness.core.engines.shared import SharedEngine
from harness.core.learner import Learner
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout
from harness.core.step import Batch, accumulate, bind_slots
from harness.core.train import _prepare, _sampling_params
from tests.core.conftest import MakeRun
from tests.core.together import together


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_row_is_some_rank_s_and_all_ranks_have_as_many_parts(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.arange(8).flip(0)
    monkeypatch.setattr(parallel, "size", lambda: ranks)
    parts = []
    for rank in range(ranks):
        monkeypatch.setattr(parallel, "rank", lambda rank=rank: rank)
        # of two lengths: one row alone and then by twos, so that shares differ in how many parts they have
        parts.append(parallel.own_parts(rows, lambda share: [share[:1], *share[1:].split(2)]))
    assert len({len(of_rank) for of_rank in parts}) == 1
    assert sorted(torch.cat([part for of_rank in parts for part in of_rank]).tolist()) == list(range(8))
    assert parts[0][0].tolist() == [7] and all(len(of_rank[0]) == 1 for of_rank in parts)
    full = [[len(part) > 0 for part in of_rank] for of_rank in parts]
    assert all(flags == sorted(flags, reverse=True) for flags in full)  # empty parts are last


def told(texts: list[str]) -> Any:
    graded: list[list[str]] = []

    def grade(share: list[str], lengths: list[int]) -> list[int]:
        graded.append(share)
        return [length * 10 + parallel.rank() for length in lengths]

    outcomes = parallel.in_shares(grade, texts, [len(text) for text in texts])
    total = parallel.sum_over_ranks(torch.tensor([1.0, parallel.rank()]))
    return outcomes, graded, total.tolist(), parallel.from_chief(parallel.rank()), parallel.gathered(parallel.rank())


def test_ranks_grade_by_turns_and_hold_the_whole() -> None:
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    first, second = together(2, told, texts)
    assert first[0] == second[0] == [10, 21, 30, 41, 50]  # the length, and who looked
    assert (first[1], second[1]) == ([["a", "ccc", "eeeee"]], [["bb", "dddd"]])
    assert first[2:] == second[2:] == ([2.0, 1.0], 0, [0, 1])
    assert told(texts)[0] == [10, 20, 30, 40, 50]


def sampled(path: str) -> Rollout:
    policy = Policy.load(Model(role="", path=path))
    engine = SharedEngine(HfEngine())
    engine.sync(policy)
    prompts = Prompts.of(policy.encode(["Q 1 + 2 = ? A", "Q 3 A"]))
    params = engines.SamplingParams(12, 1.0, top_k=5, replay=True)
    return engine.generate(prompts, np.arange(6).reshape(2, 3), params)


def test_ranks_sample_by_turns_and_one_without_a_prompt_waits(tiny_model: Path) -> None:
    alone = sampled(str(tiny_model))
    for rollout in together(3, sampled, str(tiny_model)):
        for name in ("tokens", "lengths", "truncated", "support"):
            assert torch.equal(getattr(rollout, name), getattr(alone, name)), name
        assert torch.equal(rollout.prompts.ids, alone.prompts.ids)
        assert torch.allclose(rollout.logp, alone.logp, atol=1e-5)


def batch_of(run: store.Run) -> tuple[Learner, Batch]:
    """A learner and the batch of its first step."""
    config = run.config()
    slots = bind_slots(config.identity.tricks)
    learner, engine, task = Learner(config, slots), engines.load(config), tasks.load(config.identity.data)
    engine.sync(learner.policy)

    def generate(problems: list[int], noise: np.ndarray) -> tuple[Rollout, evaluate.Graded]:
        chosen = [task.problems[i] for i in problems]
        prompts = Prompts.of(learner.policy.encode([p.prompt for p in chosen]))
        rollout = engine.generate(prompts, noise, _sampling_params(config))
        return rollout, evaluate.grade(rollout, learner.policy, task, [p.answer for p in chosen])

    collected = collect(config, len(task.problems), slots["admit"], learner.history, 0, generate)
    return learner, _prepare(collected, learner)


def whole(x: Tensor) -> Tensor:
    gather = getattr(x, "full_tensor", None)
    return (gather() if gather else x).detach().clone()


def step_of(run: store.Run, small: int) -> tuple[dict[str, Tensor], ...]:
    """Gradients of one batch, policy's and critic's; weights and norms after its updates. `small` is for head.SMALL."""
    head.SMALL = small
    learner, batch = batch_of(run)
    assert learner.critic is not None
    index = torch.arange(len(batch.rows.lengths))
    accumulate(learner.policy, batch, index, learner.slots, 1.0, 1.0, 3)
    value = critics.accumulate(learner.critic, batch, index, 1.0, 0.2, 3)
    found: list[dict[str, Tensor]] = []
    for optimizer in (learner.optimizer, learner.critic_optimizer):
        found.append({name: whole(p.grad) for name, p in optimizer.parameters.items() if p.grad is not None})
        optimizer.clear()
    norms = learner.update(batch, 0, metrics.RatioMetrics(learner.slots["surrogate"]))
    for optimizer in (learner.optimizer, learner.critic_optimizer):
        found.append({name: whole(p) for name, p in optimizer.parameters.items()})
    found.append({"policy": torch.tensor(norms.policy), "critic": torch.tensor(norms.critic)})
    return *found, {"loss": torch.tensor([value, *norms.critic_loss])}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"runtime__gradient_checkpointing": True, "runtime__logprob_chunk": 7, "model__head_dtype": "float32"},
        {"model__lora_rank": 2},
    ],
    ids=["as it is", "recomputed in chunks", "with adapters"],
)
def test_two_ranks_make_the_gradient_and_the_weights_of_one(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, changes: dict
) -> None:
    run = make_run("dp", tricks__advantage="gae", critic__lr=1e-3, tricks__reward="affine", **changes)
    monkeypatch.setattr(head, "SMALL", head.SMALL)
    small = 0 if changes.get("runtime__logprob_chunk") else head.SMALL
    alone = step_of(run, small)
    for ranks in together(2, step_of, run, small):
        # Adam divides by the gradient's own size, which makes much of the last bits of one near 0
        for tolerance, one, other in zip((3e-6, 3e-6, 1e-3, 1e-3, 1e-5, 1e-5), alone, ranks, strict=True):
            assert one.keys() == other.keys()
            size = max(float(x.abs().max()) for x in one.values())
            assert size > 0
            for name, value in one.items():
                assert float((value - other[name]).abs().max()) <= tolerance * size, name
