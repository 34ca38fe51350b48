"""Slot `keep` in literal cases: which tokens carry loss, which samples count, whose reward becomes zero."""

import pytest
import torch

from harness.tricks import keep
from harness.tricks.keep import Kept
from tests.tricks.batches import mask_of

YES, NO = True, False


def _parts(kept: Kept) -> tuple[list[int], list[bool], list[bool]]:
    """Tokens per sample, counted and zeroed, of one prompt."""
    return kept.tokens.sum(-1)[0].tolist(), kept.counted[0].tolist(), kept.zeroed[0].tolist()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("everything", ([3, 2, 3], [YES, YES, YES], [NO, NO, NO])),
        ("drop_truncated", ([0, 2, 3], [YES, YES, YES], [NO, NO, NO])),
        ("discount_truncated", ([0, 2, 3], [NO, YES, YES], [NO, NO, NO])),
        ("zero_truncated", ([3, 2, 3], [YES, YES, YES], [YES, NO, NO])),
    ],
)
def test_readings_of_overlong_filtering(name: str, expected: tuple[list[int], list[bool], list[bool]]) -> None:
    # the third ended by itself exactly at the limit: it is not truncated
    truncated = torch.tensor([[True, False, False]])
    mask = mask_of(3, 2, 3)
    kept = getattr(keep, name)(mask, truncated)
    assert _parts(kept) == expected
    assert not kept.tokens[~mask].any()


def test_error_max_drops_wrong_and_too_long() -> None:
    # limit 10, share .8: at 8 tokens a wrong answer goes, at 7 it stays; a right one stays at any length
    mask, lengths = mask_of(7, 8, 10, 8, 10), torch.tensor([[7, 8, 10, 8, 10]])
    rewards = torch.tensor([[0.0, 0.0, 0.0, 1.0, 1.0]])
    assert _parts(keep.error_max(mask, rewards, lengths, 10)) == ([7, 0, 0, 8, 10], [YES] * 5, [NO] * 5)
    assert _parts(keep.error_max(mask, rewards, lengths, 10, share=1.0))[0] == [7, 8, 0, 8, 10]
    assert _parts(keep.error_max(mask, rewards, lengths, 100))[0] == [7, 8, 10, 8, 10]
    # a share of 9 that is no whole number: 4.5
    assert _parts(keep.error_max(mask_of(4, 5), torch.zeros(1, 2), torch.tensor([[4, 5]]), 9, share=0.5))[0] == [4, 0]


def test_right_min_drops_right_and_too_short() -> None:
    # limit 10, share .2: at 1 token a right answer goes, at 2 it stays; a wrong one stays at any length
    mask, lengths = mask_of(1, 2, 9, 1, 2), torch.tensor([[1, 2, 9, 1, 2]])
    rewards = torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0]])
    assert _parts(keep.right_min(mask, rewards, lengths, 10)) == ([0, 2, 9, 1, 2], [YES] * 5, [NO] * 5)
    assert _parts(keep.right_min(mask, rewards, lengths, 10, share=0.9))[0] == [0, 0, 9, 1, 2]
    assert _parts(keep.right_min(mask, rewards, lengths, 100))[0] == [0, 0, 0, 1, 2]


def test_zero_variance_groups_lose_their_tokens_and_still_count() -> None:
    rewards = torch.tensor([[1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 0, 1], [1, 0, 0]], dtype=torch.float64)
    kept = keep.drop_zero_variance(mask_of(3, 2, 1).expand(5, 3, 3), rewards)
    assert kept.tokens.sum(-1).tolist() == [[0, 0, 0], [0, 0, 0], [3, 2, 1], [3, 2, 1], [3, 2, 1]]
    assert kept.counted.all()
    assert not kept.zeroed.any()


@pytest.mark.parametrize("value", [0.1, 0.2, 0.35, 1 / 3, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zero_variance_is_no_float_residue(value: float, dtype: torch.dtype) -> None:
    kept = keep.drop_zero_variance(mask_of(*[2] * 8), torch.full((1, 8), value, dtype=dtype))
    assert not kept.tokens.any()


def test_a_group_of_one_has_no_variance() -> None:
    assert not keep.drop_zero_variance(mask_of(2), torch.ones(1, 1)).tokens.any()
