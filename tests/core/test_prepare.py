"""`prepare` and the batch it makes: slots in order, what they are offered, types, row order."""

import dataclasses

import pytest
import torch

from harness.core.policy import Policy
from harness.core.shapes import Rollout
from harness.core.step import bind_slots, loss, micro_batches, needed, prepare
from tests.core.test_step import REWARDS, _samples, choose


def test_prepare_runs_the_slots_in_order(rollout: Rollout) -> None:
    truncated = rollout.truncated
    assert 0 < int(truncated.sum()) < 12
    batch = prepare(_samples(rollout), bind_slots(choose(keep="discount_truncated", advantage="batch_mean")))
    counted = ~truncated.flatten()
    mean = REWARDS.flatten()[counted].mean()
    expected = torch.where(counted, REWARDS.flatten() - mean, 0.0).float()
    assert torch.allclose(batch.advantage[:, 0], expected, atol=1e-6)
    assert int(batch.kept.sum()) == int(rollout.lengths[~truncated].sum())
    assert float(batch.weight.sum()) == pytest.approx(1.0, abs=1e-5)


def test_rewards_are_zeroed_after_shaping_and_counted_samples_make_the_moments(rollout: Rollout) -> None:
    truncated = rollout.truncated.flatten()
    batch = prepare(_samples(rollout), bind_slots(choose(keep="zero_truncated", reward="affine", advantage="none")))
    expected = torch.where(truncated, 0.0, 2 * REWARDS.flatten() - 1)
    assert torch.equal(batch.rewards, expected)
    assert torch.equal(batch.advantage[:, 0], expected.float())
    assert torch.equal(batch.right, REWARDS.flatten() > 0)  # raw, not shaped


def test_the_kl_of_the_reward_is_the_rollouts_against_the_reference(rollout: Rollout) -> None:
    slots = bind_slots(choose(advantage="none")) | {"advantage": _Seen()}
    samples = _samples(rollout, ref_logp=rollout.logp.flatten(0, 1) - 0.25)
    prepare(samples, slots)  # type: ignore[arg-type]
    assert torch.allclose(_Seen.offered["kl"][rollout.mask], torch.tensor(0.25))
    assert not _Seen.offered["kl"][~rollout.mask].any()
    assert _Seen.offered["limit"] == 24 and "values" not in _Seen.offered
    prepare(_samples(rollout, values=torch.ones(12, rollout.tokens.shape[2])), slots)  # type: ignore[arg-type]
    assert _Seen.offered["values"].shape == rollout.tokens.shape


class _Seen:
    """An advantage of 0 that remembers what it was offered."""

    offered: dict = {}  # noqa: RUF012
    inputs = ()

    def __call__(self, offered: dict) -> torch.Tensor:
        _Seen.offered = offered
        return torch.zeros_like(offered["rewards"])


def test_only_what_the_slots_name_is_needed() -> None:
    assert "entropy" not in needed(bind_slots(choose()))
    assert {"kl", "mask"} <= needed(bind_slots(choose(advantage="reinforce_pp")))
    assert "values" in needed(bind_slots(choose(advantage="gae")))


def test_a_batch_holds_single_precision_rows_and_the_critics_returns(rollout: Rollout) -> None:
    width = rollout.tokens.shape[2]
    values = torch.linspace(0, 1, 12 * width).view(12, width)
    batch = prepare(_samples(rollout, values=values), bind_slots(choose(advantage="gae")))
    assert batch.weight.dtype == batch.advantage.dtype == torch.float32
    assert batch.returns is not None and batch.returns.dtype == torch.float32
    # R = A + V on every response token, in row order
    mask = batch.rows.mask
    assert torch.allclose(batch.returns[mask], (batch.advantage + values)[mask], atol=1e-6)
    assert not batch.returns[~mask].any()
    assert prepare(_samples(rollout), bind_slots(choose())).returns is None


def test_rows_of_prompts_are_whole_groups_in_order(rollout: Rollout) -> None:
    batch = prepare(_samples(rollout), bind_slots(choose()))
    assert batch.of_prompts(torch.tensor([2, 0])).tolist() == [8, 9, 10, 11, 0, 1, 2, 3]


def test_micro_batches_hold_rows_of_like_length_in_a_fixed_order(rollout: Rollout) -> None:
    batch = prepare(_samples(rollout), bind_slots(choose()))
    lengths = torch.tensor([3, 1, 2, 1, 3, 2, 1, 1, 2, 3, 1, 2])
    batch = dataclasses.replace(batch, rows=dataclasses.replace(batch.rows, lengths=lengths))
    found = [part.tolist() for part in micro_batches(batch, torch.arange(12), 5)]
    assert found == [[1, 3, 6, 7, 10], [2, 5, 8, 11, 0], [4, 9]]
    assert [part.tolist() for part in micro_batches(batch, torch.tensor([4, 1]), None)] == [[1, 4]]
    assert micro_batches(batch, torch.arange(0), None) == micro_batches(batch, torch.arange(0), 3) == []


def test_what_metrics_read_carries_no_gradient_and_is_zero_where_masked(policy: Policy, rollout: Rollout) -> None:
    slots = bind_slots(choose(keep="drop_truncated"))
    batch = prepare(_samples(rollout), slots)
    part = loss(policy, dataclasses.replace(batch, old_logp=batch.old_logp - 1), torch.arange(12), slots, 1.0, 1.0)
    assert part.loss.requires_grad and not part.logratio.requires_grad
    assert torch.allclose(part.logratio[part.kept], torch.tensor(1.0), atol=1e-4)
    assert not part.logratio[~part.kept].any()
