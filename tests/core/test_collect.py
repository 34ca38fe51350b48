"""Refilling the batch, asking before sampling, and what the counts say, with a scripted generator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from harness import tricks
from harness.config import RunConfig
from harness.core.collect import Collected, collect
from harness.core.evaluate import Graded
from harness.core.history import History
from harness.core.shapes import Prompts, Rollout
from tests.core.conftest import MakeRun

SIZE = 40  # problems in the data set of `make_run`; a step wants 4 prompts of 4 samples


class Script:
    """Grades problem i by `rate(i)`: that many of its 4 samples are right."""

    def __init__(self, rate: Callable[[int], int]) -> None:
        self.rate = rate
        self.calls: list[list[int]] = []
        self.noise: list[np.ndarray] = []

    def __call__(self, problems: list[int], noise: np.ndarray) -> tuple[Rollout, Graded]:
        self.calls.append(problems)
        self.noise.append(noise)
        width = 1 + len(self.calls)  # later rounds are longer
        lengths = torch.full((len(problems), 4), width)
        tokens = torch.tensor(problems)[:, None, None].expand(-1, 4, width)
        by_token = torch.ones(len(problems), 4, width)
        prompts = Prompts.of([[1] * width for _ in problems])
        rollout = Rollout(prompts, tokens, lengths, torch.zeros(len(problems), 4).bool(), by_token, by_token)
        right = torch.stack([(torch.arange(4) < self.rate(i)).double() for i in problems])
        return rollout, Graded(right, torch.ones_like(right).bool(), [f"{i}" for i in problems for _ in range(4)])


def _collect(config: RunConfig, script: Script, admit: str, step: int = 0, **knobs: Any) -> Collected:
    history = knobs.pop("history", History())
    return collect(config, SIZE, tricks.bind("admit", admit, knobs), history, step, script)


def test_everything_takes_one_round_of_the_runs_order(make_run: MakeRun) -> None:
    config, script = make_run().config(), Script(lambda i: 0)
    found = [_collect(config, script, "everything", step) for step in range(10)]
    assert [(f.rounds, f.drawn, int(f.admitted.sum())) for f in found] == [(1, 4, 4)] * 10
    assert sorted(i for call in script.calls for i in call) == list(range(40))  # one epoch, every prompt once
    assert found[0].texts[0] == str(found[0].problems[0])


def test_mixed_only_refills_to_exactly_the_batch_and_counts_what_it_cost(make_run: MakeRun) -> None:
    config = make_run().config()
    script, plain = Script(lambda i: 2 if i % 3 == 0 else 4), Script(lambda i: 4)
    found = _collect(config, script, "mixed_only")
    _collect(config, plain, "everything")
    assert script.calls[0] == plain.calls[0]  # the first round is the same for every arm
    assert int(found.admitted.sum()) == 4
    chosen = [i for i, good in zip(found.problems, found.admitted.tolist(), strict=True) if good]
    assert all(i % 3 == 0 for i in chosen)
    assert found.problems == [i for call in script.calls for i in call]
    assert found.rounds == len(script.calls) > 1
    assert found.drawn == len(found.problems) == found.rewards.shape[0] == found.rollout.tokens.shape[0]
    assert found.rollout.tokens[:, 0, 0].tolist() == found.problems  # groups stay with their prompts
    assert found.rollout.tokens.shape[2] == 1 + len(script.calls)  # padded to the widest round
    assert found.rollout.lengths[0, 0] == 2 and not found.rollout.tokens[0, 0, 2:].any()


def test_a_refill_asks_for_what_the_share_admitted_makes_likely(make_run: MakeRun) -> None:
    config, first = make_run().config(), Script(lambda i: 4)
    order = _collect(config, first, "everything").problems
    script = Script(lambda i: 2 if i in order[:2] or i not in order else 4)
    found = _collect(config, script, "mixed_only")
    # 2 of 4 admitted: 2 are missing, at a share of a half, so 4 are drawn; the surplus beyond 4 does not train
    assert [len(call) for call in script.calls[:2]] == [4, 4]
    assert int(found.admitted.sum()) == 4


def test_nothing_to_admit_ends_after_the_last_round(make_run: MakeRun) -> None:
    config, script = make_run(sampling__max_rounds=3).config(), Script(lambda i: 4)
    found = _collect(config, script, "mixed_only")
    assert (found.rounds, found.drawn, int(found.admitted.sum())) == (3, 12, 0)
    strict = make_run("strict", sampling__max_rounds=3, sampling__short_batch="error").config()
    with pytest.raises(RuntimeError, match=r"step 0: only 0 of 4 .* 3 rounds \(12 prompts\).*max_rounds"):
        _collect(strict, Script(lambda i: 4), "mixed_only")


def test_one_round_is_a_mask_that_refills_nothing(make_run: MakeRun) -> None:
    config, script = make_run(sampling__max_rounds=1).config(), Script(lambda i: i % 5)
    found = _collect(config, script, "pass_rate_between", low=0.3, high=0.6)
    assert len(script.calls) == 1
    assert found.admitted.tolist() == [i % 5 == 2 for i in found.problems]


def test_refills_of_different_steps_do_not_repeat_within_an_epoch_of_theirs(make_run: MakeRun) -> None:
    config, script = make_run(sampling__max_rounds=2).config(), Script(lambda i: 4)
    for step in range(10):
        _collect(config, script, "mixed_only", step)
    refills = [i for call in script.calls[1::2] for i in call]
    assert sorted(refills) == list(range(40))


def test_a_prompt_drawn_twice_in_a_step_gets_new_noise_and_a_group_of_its_own(make_run: MakeRun) -> None:
    config, script = make_run(sampling__max_rounds=12).config(), Script(lambda i: 4)
    found = _collect(config, script, "mixed_only")
    assert len(found.problems) == 48 > len(set(found.problems))
    noise = np.concatenate(script.noise)
    assert noise.shape == (48, 4) and len(np.unique(noise)) == 48 * 4
    other = Script(lambda i: 4)
    _collect(config, other, "everything")
    assert (other.noise[0] == script.noise[0]).all()


def test_a_trick_that_ignores_rewards_is_asked_before_sampling(make_run: MakeRun) -> None:
    config, script, history = make_run().config(), Script(lambda i: 4), History()
    first = _collect(config, script, "no_positive_resampling", history=history)
    assert (first.rounds, len(first.problems)) == (1, 4)
    history.visit(first.problems, first.rewards)
    again = _collect(config, script, "no_positive_resampling", history=history)
    assert not set(again.problems) & set(first.problems)
    assert len(again.problems) == 4 and bool(again.admitted.all())
    assert len(script.calls) == 2  # one generation each: what is refused costs none
    assert again.rounds > 1 and again.drawn > 4


def test_a_step_may_be_empty(make_run: MakeRun) -> None:
    config, history = make_run().config(), History(pass_rates=dict.fromkeys(range(40), 1.0))
    script = Script(lambda i: 4)
    found = _collect(config, script, "no_positive_resampling", history=history)
    assert not script.calls and found.problems == [] and found.rollout.tokens.shape[:2] == (0, 4)
    assert found.rounds == 10


def test_history_goes_through_a_checkpoint() -> None:
    history = History()
    assert history.of([3]).isnan().all()
    history.visit([3, 5], torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    history.add_rewards(torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    history.entropies += [0.5, 0.25]
    again = History.load(history.tensors())
    assert again.of([5, 3, 4]).tolist()[:2] == [1.0, 0.5]
    assert again.entropies == [0.5, 0.25]
    # 1, 0, 0: count 3, mean 1/3, squares 2/3, least 0, largest 1
    assert again.moments.tolist() == pytest.approx([3, 1 / 3, 2 / 3, 0, 1])
