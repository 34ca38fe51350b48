"""Slot `admit` in literal cases: which of these prompts train."""

import pytest
import torch

from harness.tricks import admit, reward

GROUPS = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.float64)


def _right_of(number: int, rights: range, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """One prompt per entry of `rights`, with so many right answers of `number`."""
    return (torch.arange(number) < torch.tensor(list(rights))[:, None]).to(dtype)


def test_everything_trains_even_without_spread() -> None:
    assert admit.everything(GROUPS).tolist() == [True] * 4


def test_dynamic_sampling_admits_mixed_groups() -> None:
    assert admit.mixed_only(GROUPS).tolist() == [True, False, True, False]
    assert admit.mixed_only(_right_of(8, range(9))).tolist() == [False] + [True] * 7 + [False]
    assert admit.mixed_only(torch.tensor([[1.0], [0.0]])).tolist() == [False, False]  # no spread in a group of one
    assert admit.mixed_only(torch.zeros(2, 0)).tolist() == [False, False]


@pytest.mark.parametrize("value", [0.1, 0.2, 0.35, 1 / 3, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dynamic_sampling_sees_no_spread_in_a_float_residue(value: float, dtype: torch.dtype) -> None:
    # elsewhere the float32 std of eight times 0.1 is above 0 and keeps the group
    assert not admit.mixed_only(torch.full((2, 8), value, dtype=dtype)).any()


def test_dynamic_sampling_is_about_raw_correctness() -> None:
    # all right, of different lengths: shaped rewards differ (1 and 1 - 0.5), which would make every group look mixed
    raw, lengths = torch.ones(1, 2, dtype=torch.float64), torch.tensor([[10, 18]])
    shaped = reward.soft_overlong(raw, lengths, 20)
    assert admit.mixed_only(shaped).tolist() == [True]
    assert admit.mixed_only(raw).tolist() == [False]


def test_difficulty_mask_drops_exactly_none_and_all_of_eight() -> None:
    assert admit.pass_rate_between(_right_of(8, range(9))).tolist() == [False] + [True] * 7 + [False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_difficulty_mask_is_strict_at_both_ends(dtype: torch.dtype) -> None:
    # of 100 samples: 10 right is 0.10 and refused, 11 is not; 95 right is 0.95 and refused, 94 is not
    assert admit.pass_rate_between(_right_of(100, range(9, 13), dtype)).tolist() == [False, False, True, True]
    assert admit.pass_rate_between(_right_of(100, range(93, 97), dtype)).tolist() == [True, True, False, False]
    quarters = _right_of(4, range(5), dtype)
    assert admit.pass_rate_between(quarters, low=0.25, high=0.75).tolist() == [False, False, True, False, False]
    assert admit.pass_rate_between(quarters, low=-0.1, high=1.1).all()


def test_difficulty_mask_of_one_sample() -> None:
    # rates 0 and 1: both out by default, and the divisor is 1
    assert admit.pass_rate_between(torch.tensor([[0.0], [1.0]])).tolist() == [False, False]
    assert admit.pass_rate_between(torch.tensor([[0.0], [1.0]]), high=1.5).tolist() == [False, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_solved_prompt_is_not_drawn_again(dtype: torch.dtype) -> None:
    history = torch.tensor([torch.nan, 0.0, 0.875, 0.899, 0.9, 0.901, 1.0], dtype=dtype)
    assert admit.no_positive_resampling(history).tolist() == [True, True, True, True, False, False, False]
    half = torch.tensor([torch.nan, 0.49, 0.5, 0.51], dtype=dtype)
    assert admit.no_positive_resampling(half, threshold=0.5).tolist() == [True, True, False, False]
