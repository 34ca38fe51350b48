"""The step: micro-batches change nothing, masks hold, metrics have hand-computed values."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from harness import tricks
from harness.config import Trick, Tricks
from harness.core import metrics
from harness.core.collect import Collected
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout, Rows
from harness.core.step import Batch, RowLoss, Samples, accumulate, bind_slots, prepare
from harness.tricks import moments


def choose(**slots: object) -> Tricks:
    base: dict[str, object] = {
        "admit": "everything",
        "reward": "raw",
        "keep": "everything",
        "advantage": "group_z",
        "weight": "token_mean",
        "surrogate": "clip",
        "penalty": "none",
    }
    names = base | slots
    return Tricks(**{slot: Trick(name=name) for slot, name in names.items()})  # type: ignore[arg-type]


REWARDS = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, 0], [1, 1, 1, 0]], dtype=torch.float64)


def _samples(rollout: Rollout, rewards: torch.Tensor = REWARDS, **changes: object) -> Samples:
    formatted = torch.ones_like(rewards, dtype=torch.bool)
    entropies = torch.tensor([0.5], dtype=torch.float64)
    given = {"ref_logp": torch.full((12, rollout.tokens.shape[2]), -1.0)} | changes
    place = (
        torch.arange(rollout.tokens.shape[2]) % 3
    )  # the trainer's word on the tokens: up to .8 nats off the engine's
    rollout = dataclasses.replace(
        rollout, trainer_logp=torch.where(rollout.mask, rollout.logp + 0.8 * (place - 1), 0.0)
    )
    return Samples(rollout, rewards, formatted, 24, moments.empty(), entropies, **given)  # type: ignore[arg-type]


def _gradient(policy: Policy, batch: Batch, slots: dict, micro: int | None) -> tuple[list[torch.Tensor], float]:
    policy.model.zero_grad()
    parts = accumulate(policy, batch, torch.arange(12), slots, 1.0, 1.0, micro)
    return [p.grad.clone() for p in policy.parameters()], sum(float(p.loss.detach()) for p in parts)  # type: ignore[union-attr]


@pytest.mark.parametrize("weight", tricks.registry()["weight"])
@pytest.mark.parametrize("keep", tricks.registry()["keep"])
def test_micro_batches_give_the_same_gradient(policy: Policy, rollout: Rollout, weight: str, keep: str) -> None:
    slots = bind_slots(choose(weight=weight, keep=keep, advantage="none", reward="affine"))
    batch = prepare(_samples(rollout), slots)
    whole, loss = _gradient(policy, batch, slots, None)
    size = max(float(g.abs().max()) for g in whole)
    assert size > 1e-3
    for micro in (1, 2, 3, 5):
        parts, split_loss = _gradient(policy, batch, slots, micro)
        assert max(float((a - b).abs().max()) for a, b in zip(whole, parts, strict=True)) < 3e-6 * max(1.0, size)
        assert split_loss == pytest.approx(loss, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("surrogate", tricks.registry()["surrogate"])
@pytest.mark.parametrize("penalty", tricks.registry()["penalty"])
def test_micro_batches_change_no_objective(policy: Policy, rollout: Rollout, surrogate: str, penalty: str) -> None:
    slots = bind_slots(choose(surrogate=surrogate, penalty=penalty))
    noise = 0.3 * torch.randn(rollout.logp.shape, generator=torch.Generator().manual_seed(3))
    moved = dataclasses.replace(rollout, logp=rollout.logp + noise)  # ratios away from 1, some clipped
    batch = prepare(_samples(moved, ref_logp=(moved.logp + noise).flatten(0, 1)), slots)
    whole, loss = _gradient(policy, batch, slots, None)
    size = max(float(g.abs().max()) for g in whole)
    assert size > 1e-3
    for micro in (1, 5):
        parts, split_loss = _gradient(policy, batch, slots, micro)
        assert max(float((a - b).abs().max()) for a, b in zip(whole, parts, strict=True)) < 3e-6 * max(1.0, size)
        assert split_loss == pytest.approx(loss, rel=1e-6, abs=1e-6)


class _Scripted(Policy):
    """A policy whose log-probabilities are a free tensor: the loss alone is under test."""

    def __init__(self, logp: torch.Tensor) -> None:
        self.logp = logp.requires_grad_()

    def logprobs(self, rows: Rows, temperature: float, with_entropy: bool = False):
        index = rows.tokens[:, 0]  # the scripted row number stands in the first token
        return self.logp[index, : rows.tokens.shape[1]], None


def _f3(slots: dict) -> tuple[Batch, _Scripted]:
    """Two sequences of 2 and 6 tokens with advantages +1 and -1 at ratio 1."""
    tokens = torch.zeros(2, 6, dtype=torch.long)
    tokens[1, 0] = 1
    lengths = torch.tensor([2, 6])
    kept = torch.arange(6) < lengths[:, None]
    rows = Rows(Prompts.of([[1]]), torch.tensor([0, 0]), tokens, lengths)
    batch = Batch(
        rows=rows,
        group_size=2,
        old_logp=torch.zeros(2, 6),
        advantage=torch.tensor([[1.0], [-1.0]]).expand(2, 6),
        weight=slots["weight"]({"mask": kept[None], "limit": 8})[0].float(),
        kept=kept,
        rewards=torch.tensor([1.0, 0.0]),
        counted=torch.ones(2, dtype=torch.bool),
        right=torch.tensor([True, False]),
        entropies=torch.zeros(1, dtype=torch.float64),
    )
    return batch, _Scripted(torch.zeros(2, 6))


F3 = {"token_mean": 0.5, "sequence_mean": 0.0, "prompt_mean": 0.5, "sequence_sum": 2.0, "constant_length": 0.25}


@pytest.mark.parametrize(("weight", "expected"), F3.items())
@pytest.mark.parametrize("micro", [1, 2, None])
def test_f3_has_one_loss_in_every_split(weight: str, expected: float, micro: int | None) -> None:
    slots = bind_slots(choose(weight=weight))
    batch, scripted = _f3(slots)
    parts = accumulate(scripted, batch, torch.arange(2), slots, 1.0, 1.0, micro)  # type: ignore[arg-type]
    assert sum(float(part.loss.detach()) for part in parts) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("rows", "expected"), [(1, 0.0), (2, 0.5)])
@pytest.mark.parametrize("micro", [1, 2])
def test_the_fields_micro_batch_mean_is_a_knob_and_not_an_accident(rows: int, expected: float, micro: int) -> None:
    slots = bind_slots(choose()) | {"weight": tricks.bind("weight", "microbatch_token_mean", {"rows": rows})}
    batch, scripted = _f3(slots)
    parts = accumulate(scripted, batch, torch.arange(2), slots, 1.0, 1.0, micro)  # type: ignore[arg-type]
    assert sum(float(part.loss.detach()) for part in parts) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("penalty", ["none", "k1", "k2", "k3", "sft"])
def test_nothing_leaks_from_masked_positions(penalty: str) -> None:
    slots = bind_slots(choose(penalty=penalty))
    batch, scripted = _f3(slots)
    if penalty == "sft":  # of log-probabilities 0 it is 0 with a gradient of its own
        batch = dataclasses.replace(batch, right=torch.zeros(2, dtype=torch.bool))
    reference = torch.zeros(2, 6)
    reference[0, 2:] = float("nan")
    batch = dataclasses.replace(batch, ref_logp=reference, old_logp=reference.clone())
    if penalty == "k1":  # whose gradient is β whatever the difference
        slots |= {"penalty": tricks.bind("penalty", "k1", {"beta": 0.0})}
    with torch.no_grad():
        scripted.logp[0, 2:] = float("nan")
    parts = accumulate(scripted, batch, torch.arange(2), slots, 1.0, 1.0, None)  # type: ignore[arg-type]
    assert float(parts[0].loss.detach()) == pytest.approx(0.5)
    assert scripted.logp.grad is not None
    assert not scripted.logp.grad[0, 2:].any()
    assert scripted.logp.grad[:, :2].tolist() == [[-0.125, -0.125], [0.125, 0.125]]


def test_updates_of_a_pass_average_to_the_whole_batch(policy: Policy, rollout: Rollout) -> None:
    slots = bind_slots(choose())
    batch = prepare(_samples(rollout), slots)
    whole, loss = _gradient(policy, batch, slots, None)
    losses, gradients = [], []
    for prompt in range(3):
        policy.model.zero_grad()
        parts = accumulate(policy, batch, batch.of_prompts(torch.tensor([prompt])), slots, 1.0, 3.0, None)
        losses.append(float(parts[0].loss.detach()))
        gradients.append([p.grad.clone() for p in policy.parameters()])  # type: ignore[union-attr]
    assert np.mean(losses) == pytest.approx(loss, abs=1e-6)
    for number, gradient in enumerate(whole):
        mean = torch.stack([g[number] for g in gradients]).mean(0)
        assert torch.allclose(mean, gradient, atol=1e-6)


def test_an_entropy_bonus_and_imitation_reach_the_loss(policy: Policy, rollout: Rollout) -> None:
    plain = prepare(_samples(rollout), bind_slots(choose(advantage="none", surrogate="reinforce")))
    index, mask = torch.arange(12), rollout.mask.flatten(0, 1)
    with torch.no_grad():
        logp, entropy = policy.logprobs(plain.rows, 1.0, with_entropy=True)
    assert entropy is not None
    for penalty, knobs, gain in (
        ("entropy_bonus", {"coefficient": 0.5}, 0.5 * entropy),
        ("sft", {"coefficient": 0.5}, 0.5 * logp * plain.right[:, None]),
        ("k1", {"beta": 0.5}, -0.5 * (logp + 1.0)),
    ):
        slots = bind_slots(choose(surrogate="reinforce")) | {"penalty": tricks.bind("penalty", penalty, knobs)}
        silent = bind_slots(choose(surrogate="reinforce"))
        with_it, without = (
            float(accumulate(policy, plain, index, s, 1.0, 1.0, None)[0].loss.detach()) for s in (slots, silent)
        )
        assert with_it - without == pytest.approx(-float(gain[mask].sum() / mask.sum()), rel=1e-4)


def test_rollout_metrics_by_hand() -> None:
    lengths = torch.tensor([[2, 4], [3, 3]])
    mask = torch.arange(4) < lengths[..., None]
    rollout = Rollout(
        Prompts.of([[1], [1, 2]]),
        torch.zeros(2, 2, 4, dtype=torch.long),
        lengths,
        torch.tensor([[False, True], [False, False]]),
        torch.zeros(2, 2, 4),
        torch.where(mask, lengths[..., None].float(), 99.0),  # entropy of a token = length of its response
    )
    rewards = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    formatted = torch.tensor([[True, False], [True, True]])
    collected = Collected([4, 5], rollout, rewards, formatted, [""] * 4, torch.tensor([True, False]), 3, 2)
    m = metrics.rollout_metrics(collected)
    assert (m["train/formatted_share"], m["count/rounds"], m["count/prompts_drawn"]) == (0.75, 2, 3)
    assert m["count/samples_generated"] == 4
    assert m["train/accuracy"] == m["train/reward_mean"] == 0.75
    assert m["train/reward_std"] == pytest.approx(0.5)  # ddof 1 of (1,0,1,1)
    assert m["train/reward_std_within"] == pytest.approx(math.sqrt(0.5) / 2)  # stds .7071 and 0
    assert m["train/zero_variance_share"] == 0.5
    assert m["policy/entropy"] == pytest.approx((2 * 2 + 4 * 4 + 3 * 3 + 3 * 3) / 12)  # token mean, padding left out
    assert (m["length/mean"], m["length/correct"], m["length/wrong"]) == (3.0, pytest.approx(8 / 3), 4.0)
    assert m["length/sd"] == pytest.approx(math.sqrt(2 / 3))
    assert m["length/truncated_share"] == 0.25
    assert m["length/repeat_share"] == 1.0  # the only truncated response is 0 0 0 0
    assert (m["count/prompts_generated"], m["count/tokens_generated"]) == (2, 12)


def test_ratio_metrics_by_hand() -> None:
    ratio = torch.tensor([[1.25, 1.30, 1.40, 0.70, 0.70, 1.0, 9.0]])
    sign = torch.tensor([[1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0]])
    kept = torch.tensor([[True] * 6 + [False]])
    m = metrics.RatioMetrics(tricks.bind("surrogate", "clip", {"high": 0.28}))
    m.add(RowLoss(torch.tensor(0.0), torch.arange(len(kept)), ratio.log(), sign, kept))
    got, _ = m.result()
    # of six kept tokens: A > 0 above 1.2 are 1.25 and 1.30; above 1.24 the same; above 1.28 one; above 1.32 none
    assert [got[f"clip/high_{e}"] for e in (20, 24, 28, 32)] == pytest.approx([2 / 6, 2 / 6, 1 / 6, 0])
    assert got["clip/low_20"] == pytest.approx(1 / 6)  # A < 0 and ratio .7
    assert (got["clip/high"], got["clip/low"]) == (pytest.approx(1 / 6), pytest.approx(1 / 6))
    assert got["clip/knob_changed_tokens"] == 1  # 1.25 is clipped under .20 and free under .28
    assert (got["ratio/max"], got["ratio/min"]) == (pytest.approx(1.4), pytest.approx(0.7))


def test_the_baseline_clip_changes_no_token_against_itself() -> None:
    m = metrics.RatioMetrics(tricks.bind("surrogate", "clip", {}))
    ones = torch.ones(4, 9, dtype=torch.bool)
    m.add(RowLoss(torch.tensor(0.0), torch.arange(4), torch.randn(4, 9), torch.randn(4, 9), ones))
    assert m.result()[0]["clip/knob_changed_tokens"] == 0
