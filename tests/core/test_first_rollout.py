"""The samples of a starting point are made once, and what a run records is the same as if it had made its own."""

from typing import Any

import numpy as np
import pytest
import torch

from harness import store
from harness.core import first_rollout
from harness.core.engines.hf import HfEngine
from harness.core.train import train
from tests.core.conftest import MakeRun
from tests.core.test_first_eval import record


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Prompts of every rollout of training that was sampled, in order; evaluations ask one prompt a sample."""
    seen: list[int] = []
    real = HfEngine.generate

    def noted(self: HfEngine, prompts: Any, seeds: Any, params: Any) -> Any:
        seen.append(seeds.shape[1])
        return real(self, prompts, seeds, params)

    monkeypatch.setattr(HfEngine, "generate", noted)
    return seen


def test_two_arms_share_it_and_each_has_the_record_of_one_that_ran_alone(make_run: MakeRun, made: list[int]) -> None:
    arm = {"tricks__advantage": "batch_z", "train__steps": 2, "evaluate__every": 2}
    runs = [make_run("shared", train__steps=2, evaluate__every=2), make_run("shared", **arm), make_run("alone", **arm)]
    sampled = []
    for run in runs:
        made.clear()
        train(run)
        sampled.append(made.count(run.config().identity.sampling.group_size))
    assert sampled[1] == sampled[0] - 1 == sampled[2] - 1
    assert record(runs[1]) == record(runs[2])
    assert "generate" not in runs[0].read("timing")[0].get("spared", {})
    assert runs[1].read("timing")[0]["spared"]["generate"] > 0


def test_a_torn_file_is_made_again_and_other_prompts_are_other_samples(make_run: MakeRun) -> None:
    run = make_run(train__steps=1)
    config, noise = run.config(), np.arange(4).reshape(2, 2)
    one = first_rollout.Rollout.none(2)
    found, spared = first_rollout.rollout(run, config, [3, 1], noise, lambda: one)
    assert found is one and spared == 0.0
    again, _ = first_rollout.rollout(run, config, [3, 1], noise, lambda: pytest.fail("it was there"))
    assert torch.equal(again.tokens, one.tokens) and again.trainer_logp is None and again.support is None
    (file,) = (run.path.parents[1] / first_rollout.FOLDER).iterdir()
    file.write_bytes(file.read_bytes()[:20])
    assert first_rollout.rollout(run, config, [3, 1], noise, lambda: one)[0] is one
    assert first_rollout.rollout(run, config, [3, 1], noise, lambda: pytest.fail("mended"))[1] >= 0.0
    keys = {
        first_rollout.key(config, [3, 1], noise),
        first_rollout.key(config, [1, 3], noise),
        first_rollout.key(config, [3, 1], noise + 1),
        first_rollout.key(make_run(sampling__temperature=0.5).config(), [3, 1], noise),
        first_rollout.key(make_run(seed=5).config(), [3, 1], noise),
    }
    assert len(keys) == 5
    same = make_run(tricks__penalty="k3", train__lr=0.5, model__path="elsewhere", model__content="c").config()
    other = make_run(model__path="there", model__content="c").config()
    assert first_rollout.key(same, [3, 1], noise) == first_rollout.key(other, [3, 1], noise)


def test_kept_sets_are_not_kept(make_run: MakeRun) -> None:
    run = make_run(sampling__logprob_support="replay", sampling__top_k=3)
    one = first_rollout.Rollout.none(2)
    first_rollout.rollout(run, run.config(), [1], np.zeros((1, 2), int), lambda: one)
    assert not (run.path.parents[1] / first_rollout.FOLDER).exists()
    assert isinstance(run, store.Run)
