"""Slot `advantage`, one number per token, in literal numbers: REINFORCE++, its baseline, GAE."""

import math
import statistics

import pytest
import torch

from harness.tricks import advantage
from harness.tricks.advantage import Estimate
from tests.tricks.batches import mask_of

NAN = math.nan
BOTH = torch.ones(1, 2, dtype=torch.bool)


def _row(*values: list[float]) -> torch.Tensor:
    """One prompt: [1, G] of numbers or [1, G, T] of lists."""
    return torch.tensor([values], dtype=torch.float64)


def _whitened(values: list[float], eps: float = 0.0) -> list[float]:
    """(x - mean) / sqrt(variance + eps), ddof 1, by the standard library."""
    mean, spread = statistics.fmean(values), math.sqrt(statistics.variance(values) + eps)
    return [(value - mean) / spread for value in values]


def test_reinforce_pp_puts_the_kl_into_the_reward() -> None:
    # β = .1, γ = .5. Sample 1 (r = 1): token rewards -.1, -.2, 1 - .3; returns .7, -.2 + .35 = .15, -.1 + .075 = -.025.
    # Sample 2 (r = 0, two tokens): 0, +.1; returns .1, .05. All five: mean .195, squares .3355, variance .083875
    kl = _row([1.0, 2.0, 3.0], [0.0, -1.0, NAN])
    rewards = _row(1.0, 0.0)
    a = advantage.reinforce_pp(rewards, BOTH, mask_of(3, 2), kl, beta=0.1, gamma=0.5)
    std = math.sqrt(0.083875)
    assert a[0, 0].tolist() == pytest.approx([-0.22 / std, -0.045 / std, 0.505 / std], abs=1e-6)
    assert a[0, 1].tolist() == pytest.approx([-0.145 / std, -0.095 / std, 0.0], abs=1e-6)


def test_reinforce_pp_by_default_discounts_nothing_and_takes_a_hundredth_of_the_kl() -> None:
    # token rewards -.1, 1 - .2 and 0 + .3: returns .7, .8, .3, mean .6, variance (.01 + .04 + .09)/2 = .07
    a = advantage.reinforce_pp(_row(1.0, 0.0), BOTH, mask_of(2, 1), _row([10.0, 20.0], [-30.0, NAN]))
    expected = [0.1 / math.sqrt(0.07), 0.2 / math.sqrt(0.07), -0.3 / math.sqrt(0.07), 0.0]
    assert a.flatten().tolist() == pytest.approx(expected, abs=1e-6)


def test_reinforce_pp_whitens_over_counted_tokens_only() -> None:
    # without the second sample the returns are 1, 1 and 0: mean 2/3, variance 1/3
    counted = torch.tensor([[True, False, True]])
    a = advantage.reinforce_pp(_row(1.0, 7.0, 0.0), counted, mask_of(2, 2, 1), torch.zeros(1, 3, 2).double(), eps=0.0)
    third = 1 / math.sqrt(3)
    assert a[0].tolist() == [
        pytest.approx([third, third]),
        [0.0, 0.0],
        pytest.approx([-2 * third, 0.0]),
    ]


@pytest.mark.parametrize("name", ["reinforce_pp", "reinforce_pp_baseline"])
def test_whitenings_eps_is_added_to_the_variance(name: str) -> None:
    # rewards s and 0 on one token each: ± s/2 with variance s²/2. For s² = 2e-8 the default eps is the variance, and
    # (s/2) / sqrt(2e-8) = .5
    size = math.sqrt(2e-8)
    kl = (torch.zeros(1, 2, 1).double(),) if name == "reinforce_pp" else ()
    function = getattr(advantage, name)
    assert function(_row(size, 0.0), BOTH, mask_of(1, 1), *kl).flatten().tolist() == pytest.approx([0.5, -0.5])
    # for s = 2: ± 1 with variance 2, and 2 + 7 has the root 3
    assert function(_row(2.0, 0.0), BOTH, mask_of(1, 1), *kl, eps=7.0).flatten().tolist() == pytest.approx(
        [1 / 3, -1 / 3]
    )


@pytest.mark.parametrize("value", [0.1, 0.2, 0.35, 1 / 3, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rewards_give_exactly_zero(value: float, dtype: torch.dtype) -> None:
    rewards, counted = torch.full((3, 8), value, dtype=dtype), torch.ones(3, 8, dtype=torch.bool)
    mask = mask_of(1, 2, 3, 4, 5, 1, 2, 3).expand(3, 8, 5)
    zero = torch.zeros(mask.shape, dtype=dtype)
    assert not advantage.reinforce_pp(rewards, counted, mask, zero).any()
    assert not advantage.reinforce_pp_baseline(rewards, counted, mask).any()
    whitened = advantage.gae(rewards, counted, mask, zero, lam=1.0, whiten=True)
    assert not whitened.advantage.any()


def test_one_token_alone_is_whitened_to_zero() -> None:
    one = torch.ones(1, 1, dtype=torch.bool)
    assert advantage.reinforce_pp(_row(1.0), one, mask_of(1, width=2), torch.zeros(1, 1, 2)).tolist() == [[[0.0, 0.0]]]
    assert advantage.reinforce_pp_baseline(_row(1.0), one, mask_of(1, width=2)).tolist() == [[[0.0, 0.0]]]


def test_reinforce_pp_baseline_weighs_by_length() -> None:
    # ±.5 on one and on three tokens: mean -.25, variance (.5625 + 3·.0625)/3 = .25
    a = advantage.reinforce_pp_baseline(_row(1.0, 0.0), BOTH, mask_of(1, 3), eps=0.0)
    assert a[0].tolist() == [pytest.approx([1.5, 0.0, 0.0]), pytest.approx([-0.5, -0.5, -0.5])]


def test_reinforce_pp_baseline_agrees_with_another_implementation() -> None:
    # one right of eight, seven of eight, none of eight, three tokens each
    rewards = torch.tensor([[1.0] + [0.0] * 7, [1.0] * 7 + [0.0], [0.0] * 8], dtype=torch.float64)
    mask = torch.ones(3, 8, 3, dtype=torch.bool)
    a = advantage.reinforce_pp_baseline(rewards, torch.ones(3, 8, dtype=torch.bool), mask)
    picked = [*a[0, 0].tolist(), *a[0, 1].tolist(), *a[1, 0].tolist(), *a[1, 7].tolist(), *a[2, 0].tolist()]
    expected = [3.2178] * 3 + [-0.4597] * 3 + [0.4597] * 3 + [-3.2178] * 3 + [0.0] * 3
    assert picked == pytest.approx(expected, abs=5e-5)


def test_reinforce_pp_baseline_centres_and_whitens_counted_samples_only() -> None:
    # counted: 1 and 0 on one token each, ±.5 with variance .5
    rewards, counted = _row(1.0, NAN, 0.0), torch.tensor([[True, False, True]])
    a = advantage.reinforce_pp_baseline(rewards, counted, mask_of(1, 1, 1), eps=0.0)
    assert a.flatten().tolist() == pytest.approx([math.sqrt(0.5), 0.0, -math.sqrt(0.5)])


# Two samples. The first: V = .5, .4, .3 and r = 1 on its third and last token. The second: V = .2, .6 and r = 0 on its
# second; what lies behind its end is nobody's value.
VALUES = _row([0.5, 0.4, 0.3], [0.2, 0.6, NAN])


def _gae(**knobs: float) -> Estimate:
    return advantage.gae(_row(1.0, 0.0), BOTH, mask_of(3, 2), VALUES, **knobs)


def _pairs(estimate: Estimate) -> list[list[float]]:
    return [*estimate.advantage[0].tolist(), *estimate.returns[0].tolist()]


def test_gae_by_hand() -> None:
    # γ = .9, λ = .5: δ = .36 - .5 = -.14, .27 - .4 = -.13, 1 - .3 = .7; γλ = .45: A = .7, -.13 + .315 = .185,
    # -.14 + .08325 = -.05675. The second: δ = .54 - .2 = .34, -.6; A = -.6, .34 - .27 = .07
    assert _pairs(_gae(gamma=0.9, lam=0.5)) == [
        pytest.approx([-0.05675, 0.185, 0.7]),
        pytest.approx([0.07, -0.6, 0.0]),
        pytest.approx([0.44325, 0.585, 1.0]),  # A + V
        pytest.approx([0.27, 0.0, 0.0]),
    ]


def test_gae_by_default_discounts_nothing_and_has_lambda_095() -> None:
    # δ = -.1, -.1, .7; A = .7, -.1 + .665 = .565, -.1 + .53675 = .43675. The second: δ = .4, -.6; .4 - .57 = -.17
    assert _pairs(_gae())[:2] == [pytest.approx([0.43675, 0.565, 0.7]), pytest.approx([-0.17, -0.6, 0.0])]


def test_gae_with_lambda_zero_is_the_one_step_error() -> None:
    assert _pairs(_gae(gamma=0.9, lam=0.0))[:2] == [
        pytest.approx([-0.14, -0.13, 0.7]),
        pytest.approx([0.34, -0.6, 0.0]),
    ]


@pytest.mark.parametrize(("gamma", "expected"), [(1.0, [3.0, 3.0, 3.0]), (0.5, [0.75, 1.5, 3.0])])
def test_gae_without_a_critic_is_the_return(gamma: float, expected: list[float]) -> None:
    one = torch.ones(1, 1, dtype=torch.bool)
    estimate = advantage.gae(_row(3.0), one, mask_of(3), torch.zeros(1, 1, 3).double(), gamma=gamma, lam=1.0)
    assert estimate.advantage.flatten().tolist() == expected
    assert estimate.returns.flatten().tolist() == expected


def test_gaes_critic_learns_from_every_response_token() -> None:
    # a sample that is not counted has no advantage; its returns, as its values, are what they would be
    estimate = advantage.gae(_row(1.0, 0.0), torch.tensor([[True, False]]), mask_of(3, 2), VALUES)
    assert not estimate.advantage[0, 1].any()
    assert torch.equal(estimate.returns, _gae().returns)


def test_float32_inputs_are_computed_in_float64() -> None:
    rewards, single, mask = _row(0.1, 0.7).float(), VALUES.float(), mask_of(3, 2)
    assert advantage.reinforce_pp(rewards, BOTH, mask, single).dtype == torch.float64
    one = advantage.gae(rewards, BOTH, mask, single, gamma=0.9)
    other = advantage.gae(rewards.double(), BOTH, mask, single.double(), gamma=0.9)
    assert torch.equal(one.advantage, other.advantage)
    assert torch.equal(one.returns, other.returns)


def test_gae_whitens_on_request_and_keeps_the_returns() -> None:
    plain, white, soft = _gae(), _gae(whiten=True), _gae(whiten=True, eps=7.0)
    five = [0.43675, 0.565, 0.7, -0.17, -0.6]  # by hand above
    assert white.advantage[torch.ones(1, 2, 3, dtype=torch.bool) & mask_of(3, 2)].tolist() == pytest.approx(
        _whitened(five), abs=1e-6
    )
    assert soft.advantage[mask_of(3, 2)].tolist() == pytest.approx(_whitened(five, eps=7.0))
    assert float(white.advantage[0, 1, 2]) == 0.0
    assert torch.equal(white.returns, plain.returns)


def test_gae_whitens_over_counted_samples_with_eps_1e_8() -> None:
    # returns s, 0 and (not counted) 9: as for REINFORCE++, s² = 2e-8 makes ±.5
    counted = torch.tensor([[True, True, False]])
    zero = torch.zeros(1, 3, 1).double()
    white = advantage.gae(_row(math.sqrt(2e-8), 0.0, 9.0), counted, mask_of(1, 1, 1), zero, whiten=True)
    assert white.advantage.flatten().tolist() == pytest.approx([0.5, -0.5, 0.0])
