"""Identities between tricks, which hold whatever their numbers."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import tricks
from harness.tricks import advantage, moments, surrogate, weight
from tests.tricks.batches import call, mask_of, names, offer, tensors

INVARIANT = names("advantage", "Affine invariant")
FEW = settings(max_examples=25, deadline=None)
HUGE = 1e9


def _rewards(seed: int, prompts: int = 4, samples: int = 8) -> torch.Tensor:
    """Random and never all equal, so that every identity has something to hold for."""
    rewards = torch.randint(0, 2, (prompts, samples), generator=torch.Generator().manual_seed(seed)).double()
    rewards[0, 0], rewards[0, 1] = 0.0, 1.0
    return rewards


def _all(rewards: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(rewards, dtype=torch.bool)


def _under(name: str, scale: float, shift: float, seed: int) -> torch.Tensor:
    """The advantage of scale · r + shift, with the earlier steps' rewards on that scale too and eps 0."""
    offered = offer(seed=seed)
    earlier = torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64)
    offered["rewards"] = scale * _rewards(seed, 3, 4) + shift
    offered["past"] = moments.merge(moments.empty(), scale * earlier + shift)
    knobs = {"eps": 0.0} if "eps" in tricks.get("advantage", name).knobs else {}
    return tensors(call("advantage", name, offered, **knobs))[0]


@FEW
@given(st.integers(0, 999), st.floats(0.5, 20), st.floats(-5, 5))
@pytest.mark.parametrize("name", INVARIANT)
def test_what_says_so_does_not_see_the_reward_scale(name: str, seed: int, scale: float, shift: float) -> None:
    assert torch.allclose(_under(name, scale, shift, seed), _under(name, 1.0, 0.0, seed), atol=1e-9)


@pytest.mark.parametrize("name", [name for name in names("advantage") if name not in INVARIANT])
def test_what_does_not_say_so_sees_the_reward_scale(name: str) -> None:
    assert not torch.allclose(_under(name, 2.0, -1.0, 1), _under(name, 1.0, 0.0, 1), atol=1e-2)


def test_the_invariant_ones() -> None:
    scores = {"group_z", "batch_z", "group_mean_batch_std", "running", "reinforce_pp_baseline"}
    assert set(INVARIANT) == scores


@pytest.mark.parametrize("name", ["group_mean", "batch_mean", "leave_one_out"])
def test_means_double_with_the_reward_scale(name: str) -> None:
    function, rewards = getattr(advantage, name), _rewards(1)
    assert torch.allclose(function(2 * rewards - 1, _all(rewards)), 2 * function(rewards, _all(rewards)))


@FEW
@given(st.integers(0, 999))
def test_one_group_makes_batch_and_group_statistics_one(seed: int) -> None:
    rewards = _rewards(seed, prompts=1)
    z = advantage.group_z(rewards, _all(rewards))
    assert torch.equal(z, advantage.batch_z(rewards, _all(rewards)))
    assert torch.equal(z, advantage.group_mean_batch_std(rewards, _all(rewards)))
    assert torch.allclose(z, advantage.group_mean_batch_std(rewards, _all(rewards), centred=True))
    assert torch.equal(advantage.group_mean(rewards, _all(rewards)), advantage.batch_mean(rewards, _all(rewards)))


@FEW
@given(st.integers(0, 999), st.integers(2, 9))
def test_leave_one_out_is_the_group_mean_stretched(seed: int, samples: int) -> None:
    rewards = _rewards(seed, samples=samples)
    stretched = samples / (samples - 1) * advantage.group_mean(rewards, _all(rewards))
    assert torch.allclose(advantage.leave_one_out(rewards, _all(rewards)), stretched)


@FEW
@given(st.integers(0, 999))
def test_running_without_a_past_is_batch_z(seed: int) -> None:
    rewards = _rewards(seed)
    one = advantage.running(rewards, _all(rewards), moments.empty())
    assert torch.allclose(one, advantage.batch_z(rewards, _all(rewards)))


@FEW
@given(st.integers(0, 999))
def test_no_centred_std_is_larger_than_the_raw_one(seed: int) -> None:
    rewards = _rewards(seed)
    raw, centred = (advantage.group_mean_batch_std(rewards, _all(rewards), centred=x) for x in (False, True))
    assert (centred.abs() >= raw.abs() - 1e-12).all()


@pytest.mark.parametrize("name", ["group_z", "batch_z"])
def test_the_largest_z_score_is_bounded(name: str) -> None:
    # one outlier among n equal rewards has |z| = (n - 1) / sqrt(n): 2.475 for 8
    rewards = torch.zeros(1, 8, dtype=torch.float64)
    rewards[0, 0] = 1.0
    a = getattr(advantage, name)(rewards, _all(rewards), eps=0.0)
    assert float(a.max()) == pytest.approx(7 / 8**0.5)


@FEW
@given(st.integers(0, 999), st.integers(1, 5))
def test_reinforce_pp_without_kl_is_the_whitened_reward(seed: int, length: int) -> None:
    # every reward stands `length` times in the mean of squares: with n rewards, (n - 1) / n of a variance over n·length
    # tokens becomes (n·length - 1) / (n·length)
    rewards = _rewards(seed)
    mask = mask_of(*[length] * 8).expand(4, 8, length)
    a = advantage.reinforce_pp(rewards, _all(rewards), mask, 1.0 * mask, beta=0.0, gamma=1.0, eps=0.0)
    z = advantage.batch_z(rewards, _all(rewards), eps=0.0) * math.sqrt((32 * length - 1) / (31 * length))
    assert torch.allclose(a.double(), z[..., None].expand(mask.shape))


@FEW
@given(st.integers(0, 999))
def test_gae_without_critic_and_discount_is_the_raw_reward_on_each_token(seed: int) -> None:
    offered = offer(seed=seed)
    rewards, mask = offered["rewards"], offered["mask"]
    a = advantage.gae(rewards, _all(rewards), mask, torch.zeros(mask.shape), gamma=1.0, lam=1.0)
    expected = torch.where(mask, rewards[..., None], 0.0)
    assert torch.equal(a.advantage, expected)
    assert torch.equal(a.returns, expected)


@FEW
@given(st.integers(0, 999))
def test_gae_with_lambda_one_takes_the_value_off_the_return(seed: int) -> None:
    offered = offer(seed=seed)
    a = call("advantage", "gae", offered, gamma=1.0, lam=1.0)
    assert torch.allclose(a.returns, torch.where(offered["mask"], offered["rewards"][..., None], 0.0))


@FEW
@given(st.integers(1, 9))
def test_aggregations_agree_on_equal_lengths(length: int) -> None:
    mask = (torch.arange(9) < length).expand(3, 4, 9)
    for name in ("sequence_mean", "prompt_mean", "microbatch_token_mean"):
        assert torch.allclose(weight.token_mean(mask), getattr(weight, name)(mask), atol=1e-15), name
    assert torch.allclose(weight.token_mean(mask), weight.sequence_sum(mask) / length, atol=1e-15)
    assert torch.allclose(weight.token_mean(mask), weight.constant_length(mask, length), atol=1e-15)


@FEW
@given(st.integers(0, 999), st.integers(6, 20))
def test_sequence_sum_is_the_limit_times_constant_length_while_all_keep_a_token(seed: int, limit: int) -> None:
    mask = offer(seed=seed)["mask"]
    assert torch.allclose(weight.sequence_sum(mask), limit * weight.constant_length(mask, limit))


@FEW
@given(st.integers(0, 999), st.booleans())
def test_microbatches_of_one_and_of_all(seed: int, drop: bool) -> None:
    mask = offer(seed=seed)["mask"]
    if drop:
        mask[1, 2] = False
    assert torch.allclose(weight.microbatch_token_mean(mask, rows=1), weight.sequence_mean(mask), atol=1e-15)
    assert torch.allclose(weight.microbatch_token_mean(mask, rows=4), weight.prompt_mean(mask), atol=1e-15)
    for rows in (12, 13, 99):
        assert torch.allclose(weight.microbatch_token_mean(mask, rows=rows), weight.token_mean(mask), atol=1e-15)


def _gain(name: str, logratio: torch.Tensor, sign: torch.Tensor, **knobs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Value and gradient, nothing masked."""
    variable = logratio.clone().requires_grad_()
    value = getattr(surrogate, name)(variable, sign, torch.ones_like(sign, dtype=torch.bool), **knobs)
    value.sum().backward()
    assert variable.grad is not None
    return value.detach(), variable.grad


def _pair(seed: int, width: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logratio = torch.randn(5, width, generator=generator, dtype=torch.float64)
    return logratio, torch.randn(5, 1, generator=generator, dtype=torch.float64).expand(5, width)


def _equal(one: tuple[torch.Tensor, torch.Tensor], other: tuple[torch.Tensor, torch.Tensor]) -> bool:
    return all(torch.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in zip(one, other, strict=True))


@FEW
@given(st.integers(0, 999), st.floats(0.05, 0.5))
def test_the_upper_clip_does_not_matter_while_no_ratio_passes_it(seed: int, high: float) -> None:
    logratio, sign = _pair(seed)
    below = -logratio.abs()
    assert _equal(_gain("clip", below, sign), _gain("clip", below, sign, high=high))


@FEW
@given(st.integers(0, 999))
def test_clips_out_of_reach_leave_the_ratio_times_the_advantage(seed: int) -> None:
    logratio, sign = _pair(seed)
    plain = (logratio.exp() * sign, logratio.exp() * sign)
    assert _equal(_gain("clip", logratio, sign, low=1.0, high=HUGE), plain)
    assert _equal(_gain("dual_clip", logratio, sign, low=1.0, high=HUGE, c=HUGE), plain)
    assert _equal(_gain("dual_clip", logratio, sign, c=HUGE), _gain("clip", logratio, sign))


@FEW
@given(st.integers(0, 999), st.sampled_from([0.05, 0.2, 0.6]), st.sampled_from([0.1, 0.28, 0.9]))
def test_at_one_token_sequence_ratios_are_token_ratios(seed: int, low: float, high: float) -> None:
    logratio, sign = _pair(seed, width=1)
    assert _equal(_gain("gspo", logratio, sign, low=low, high=high), _gain("clip", logratio, sign, low=low, high=high))
    plain = (logratio.exp() * sign, logratio.exp() * sign)
    assert _equal(_gain("gmpo", logratio, sign, low=HUGE, high=HUGE), plain)


@pytest.mark.parametrize("name", names("surrogate"))
def test_at_ratio_one_every_surrogates_gradient_is_the_advantage(name: str) -> None:
    logratio, sign = _pair(3)
    _, gradient = _gain(name, torch.zeros_like(logratio), sign)
    assert torch.allclose(gradient, sign, rtol=1e-6)


@FEW
@given(st.integers(0, 999))
def test_uncapped_weights_have_the_unclipped_gradient(seed: int) -> None:
    logratio, sign = _pair(seed)
    _, plain = _gain("clip", logratio, sign, low=1.0, high=HUGE)
    assert torch.allclose(_gain("cispo", logratio, sign, low=1.0, high=HUGE)[1], plain)
    assert torch.allclose(_gain("topr", logratio, -sign.abs(), cap=HUGE)[1], -plain.abs())
    assert torch.allclose(_gain("topr", logratio, sign.abs())[1], _gain("reinforce", logratio, sign.abs())[1])
