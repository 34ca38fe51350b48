"""Identities between tricks, which hold whatever their numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.tricks import advantage, surrogate, weight

Z_SCORES = ["group_z", "batch_z", "group_mean_batch_std"]


def _rewards(seed: int, prompts: int = 4, samples: int = 8) -> torch.Tensor:
    return torch.randint(0, 2, (prompts, samples), generator=torch.Generator().manual_seed(seed)).double()


@given(st.integers(0, 999), st.floats(0.5, 20), st.floats(-5, 5))
@pytest.mark.parametrize("name", Z_SCORES)
def test_z_scores_do_not_see_the_reward_scale(name: str, seed: int, scale: float, shift: float) -> None:
    function, rewards = getattr(advantage, name), _rewards(seed)
    counted = torch.ones_like(rewards, dtype=torch.bool)
    one, other = function(rewards, counted, eps=0.0), function(scale * rewards + shift, counted, eps=0.0)
    assert torch.allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("name", ["group_mean", "batch_mean"])
def test_means_double_with_the_reward_scale(name: str) -> None:
    function, rewards = getattr(advantage, name), _rewards(1)
    counted = torch.ones_like(rewards, dtype=torch.bool)
    assert torch.allclose(function(2 * rewards - 1, counted), 2 * function(rewards, counted))


@given(st.integers(0, 999))
def test_one_group_makes_batch_and_group_statistics_one(seed: int) -> None:
    rewards = _rewards(seed, prompts=1)
    counted = torch.ones_like(rewards, dtype=torch.bool)
    z = advantage.group_z(rewards, counted)
    assert torch.equal(z, advantage.batch_z(rewards, counted))
    assert torch.equal(z, advantage.group_mean_batch_std(rewards, counted))
    assert torch.equal(advantage.group_mean(rewards, counted), advantage.batch_mean(rewards, counted))


@pytest.mark.parametrize("name", ["group_z", "batch_z"])
def test_the_largest_z_score_is_bounded(name: str) -> None:
    # one outlier among n equal rewards has |z| = (n - 1) / sqrt(n): 2.475 for 8
    rewards = torch.zeros(1, 8, dtype=torch.float64)
    rewards[0, 0] = 1.0
    a = getattr(advantage, name)(rewards, torch.ones(1, 8, dtype=torch.bool), eps=0.0)
    assert float(a.max()) == pytest.approx(7 / 8**0.5)


@given(st.integers(0, 999), st.integers(1, 9))
def test_aggregations_agree_on_equal_lengths(seed: int, length: int) -> None:
    mask = (torch.arange(9) < length).expand(3, 4, 9)
    assert torch.allclose(weight.token_mean(mask), weight.sequence_mean(mask), atol=1e-15)


@given(st.integers(0, 999), st.floats(0.05, 0.5))
def test_the_upper_clip_does_not_matter_while_no_ratio_passes_it(seed: int, high: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logratio = -torch.rand(5, 7, generator=generator)  # every ratio below 1
    sign = torch.randn(5, 7, generator=generator)
    mask = torch.ones(5, 7, dtype=torch.bool)
    one, other = surrogate.clip(logratio, sign, mask), surrogate.clip(logratio, sign, mask, high=high)
    assert torch.equal(one, other)


@given(st.integers(0, 999))
def test_at_ratio_one_the_clipped_gradient_is_reinforces(seed: int) -> None:
    sign = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed))
    logratio = torch.zeros(5, 7, requires_grad=True)
    surrogate.clip(logratio, sign, torch.ones(5, 7, dtype=torch.bool)).sum().backward()
    assert logratio.grad is not None
    assert torch.equal(logratio.grad, sign)
