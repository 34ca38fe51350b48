"""Critic, reference policy and the whole learner: values by hand, real runs that resume byte for byte."""

import dataclasses
from pathlib import Path

import pytest
import torch

from harness.config import Model
from harness.core import critic as critics
from harness.core import metrics
from harness.core.critic import Critic
from harness.core.policy import Policy
from harness.core.shapes import Rollout
from harness.core.step import Batch, Samples, bind_slots, prepare
from harness.core.train import train
from harness.tricks import moments
from tests.core.conftest import MakeRun
from tests.core.test_step import REWARDS, choose
from tests.core.test_train import curve


@pytest.fixture(scope="module")
def critic(tiny_model: Path) -> Critic:
    found = Critic(Policy.load(Model(role="", path=str(tiny_model))))
    torch.manual_seed(0)
    with torch.no_grad():
        found.head.copy_(torch.randn(found.head.shape))
    return found


def _batch(rollout: Rollout, critic: Critic) -> Batch:
    samples = Samples(rollout, REWARDS, REWARDS > 0, 24, moments.empty(), torch.zeros(1, dtype=torch.float64))
    with torch.no_grad():
        values = critic.values(samples.rollout.rows())
    return prepare(dataclasses.replace(samples, values=values), bind_slots(choose(advantage="gae")))


def test_values_are_the_head_on_the_last_hidden_states(critic: Critic, rollout: Rollout) -> None:
    row, length = 5, int(rollout.lengths[1, 1])
    prompt = rollout.prompts.ids[1, : rollout.prompts.lengths[1]]
    ids = torch.cat([prompt, rollout.tokens[1, 1, :length]])[None]
    states = critic.model.base_model(input_ids=ids).last_hidden_state[0]
    expected = (states @ critic.head)[len(prompt) - 1 : -1]  # the state before each response token
    rows = rollout.rows()
    for fast in (True, False):
        critic.fast = fast
        values = critic.values(rows)
        assert torch.allclose(values[row, :length], expected, atol=1e-5)
        assert not values[row, length:].any()
    critic.fast = True


def test_a_new_critic_values_everything_at_zero(tiny_model: Path, rollout: Rollout) -> None:
    batch = _batch(rollout, Critic(Policy.load(Model(role="", path=str(tiny_model)))))
    mask = rollout.mask.flatten(0, 1)
    # gamma 1, lambda .95, V = 0: A_t = .95^(steps to the end) · r and R = A
    assert batch.returns is not None and batch.values is not None
    assert not batch.values.any()
    assert torch.equal(batch.returns, batch.advantage)
    to_end = (rollout.lengths.flatten()[:, None] - 1 - torch.arange(mask.shape[1])).clamp(min=0)
    expected = torch.where(mask, 0.95**to_end * REWARDS.flatten()[:, None], 0.0)
    assert torch.allclose(batch.returns, expected.float(), atol=1e-6)


def test_critic_loss_by_hand_and_in_any_split(critic: Critic, rollout: Rollout) -> None:
    batch, index = _batch(rollout, critic), torch.arange(12)
    assert batch.values is not None and batch.returns is not None
    mask = batch.rows.mask
    error = (batch.values - batch.returns)[mask].square()

    def value(batch: Batch, clip: float | None) -> float:
        return float(critics.loss(critic, batch, index, 1.0, clip).detach())

    assert value(batch, 0.2) == pytest.approx(0.5 * float(error.mean()), rel=1e-5)
    # moved by .5 from the rollout's values: within a clip of 1 nothing changes, beyond .2 the larger error stands
    moved = dataclasses.replace(batch, values=batch.values - 0.5)
    inside = 0.5 * float(error.mean())
    clipped = (batch.values - 0.5 + 0.2 - batch.returns)[mask].square()
    outside = 0.5 * float(torch.maximum(error, clipped).mean())
    assert value(moved, 1.0) == pytest.approx(inside, rel=1e-5)
    assert value(moved, None) == pytest.approx(inside, rel=1e-5)
    assert value(moved, 0.2) == pytest.approx(outside, rel=1e-5)
    assert abs(outside - inside) > 1e-3

    def gradient(size: int | None) -> tuple[float, list[torch.Tensor]]:
        for parameter in critic.named_parameters().values():
            parameter.grad = None
        total = critics.accumulate(critic, batch, index, 3.0, 0.2, size)
        return total, [p.grad.clone() for p in critic.named_parameters().values()]  # type: ignore[union-attr]

    whole, gradients = gradient(None)
    assert whole == pytest.approx(3 * inside, rel=1e-5)
    for size in (1, 2, 3, 5):
        total, parts = gradient(size)
        assert total == pytest.approx(whole, rel=1e-5)
        largest = max(float(g.abs().max()) for g in gradients)
        assert all(torch.allclose(a, b, atol=1e-6 * largest) for a, b in zip(gradients, parts, strict=True))


def test_explained_variance_by_hand(critic: Critic, rollout: Rollout) -> None:
    batch = _batch(rollout, critic)
    values = torch.zeros_like(batch.weight)
    returns = torch.zeros_like(batch.weight)
    lengths, mask = batch.rows.lengths, batch.rows.mask
    returns[mask] = torch.arange(int(lengths.sum())).float()
    values[mask] = 2 + 0.5 * torch.arange(int(lengths.sum())).float()
    values[~mask] = returns[~mask] = 99.0
    found = metrics.batch_metrics(dataclasses.replace(batch, values=values, returns=returns))
    # R - V = R/2 - 2: a quarter of the variance is left
    assert found["critic/explained_variance"] == pytest.approx(0.75)
    flat = metrics.batch_metrics(dataclasses.replace(batch, values=values, returns=torch.ones_like(returns)))
    assert flat["critic/explained_variance"] is None


PPO = {"critic__lr": 1e-2, "tricks__advantage": "gae"}
CASES = {
    "critic": PPO,
    "reference": {"tricks__penalty": {"name": "k2", "beta": 0.1}},
    "kl in the reward": {"tricks__advantage": "reinforce_pp"},
    "refill": {"tricks__admit": "mixed_only"},
    "history": {"tricks__admit": {"name": "no_positive_resampling", "threshold": 0.2}},
    "running": {"tricks__advantage": "running"},
    "entropy": {"tricks__penalty": {"name": "entropy_target", "target": 3.0}},
}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_every_kind_of_state_resumes_to_the_same_bytes(make_run: MakeRun, changes: dict) -> None:
    settings = {"evaluate__every": 6, "evaluate__greedy": False} | changes
    whole, halves = make_run("whole", **settings), make_run("halves", **settings)
    train(whole)
    for at in (3, 1):
        calls = iter(range(100))
        train(halves, lambda calls=calls, at=at: next(calls) >= at)  # type: ignore[misc]
    train(halves)
    assert whole.state() == halves.state() == "done"
    assert curve(halves) == curve(whole)


def test_the_critic_learns_what_the_returns_are(make_run: MakeRun) -> None:
    run = make_run("critic", train__steps=20, tricks__reward={"name": "affine"}, **PPO)
    train(run)
    rows = [record["m"] for record in run.read("metrics")[:-1]]
    # the rewards are nearly all -1: a critic that starts at 0 has to come down to them
    assert rows[0]["critic/value_mean"] == 0.0
    assert rows[-1]["critic/value_mean"] < -0.5
    assert rows[-1]["critic/loss"] < 0.5 * rows[0]["critic/loss"]
    assert all(row["critic/grad_norm"] > 0 for row in rows)


def test_the_reference_stays_and_the_policy_moves_away_from_it(make_run: MakeRun) -> None:
    settings = {"train__steps": 8, "train__lr": 1e-2, "tricks__reward": "affine", "evaluate__every": 8}
    run = make_run("reference", tricks__penalty={"name": "k2", "beta": 1e-9}, **settings)
    train(run)
    kl = [record["m"]["policy/kl_reference"] for record in run.read("metrics")[:-1]]
    assert abs(kl[0]) < 1e-6 < 1e-3 < kl[-1]
    held = make_run("held", tricks__penalty={"name": "k2", "beta": 10.0}, **settings)
    train(held)
    assert held.read("metrics")[-2]["m"]["policy/kl_reference"] < 0.5 * kl[-1]
