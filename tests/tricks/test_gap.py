"""Corrections of the gap between engine and trainer, in literal cases."""

import math

import pytest
import torch

from harness.tricks import keep
from tests.tricks.batches import mask_of

# One prompt, two responses of 3 and 2 tokens: q = 4, 1, 1/2 (product 2) and q = 1/4, 2 (product 1/2).
MASK = mask_of(3, 2)
GAP = torch.tensor([[[4.0, 1.0, 0.5], [0.25, 2.0, math.e**9]]]).log()


def test_a_tokens_weight_is_its_ratio_up_to_the_cap() -> None:
    kept = keep.token_tis(MASK, GAP, cap=2.0)
    assert torch.equal(kept.tokens, MASK)
    assert kept.factor is not None
    assert kept.factor[0].tolist() == [pytest.approx([2.0, 1.0, 0.5]), pytest.approx([0.25, 2.0, 0.0])]


def test_a_responses_weight_is_the_product_of_its_ratios_up_to_the_cap() -> None:
    kept = keep.sequence_tis(MASK, GAP, cap=1.5)
    assert kept.factor is not None
    assert kept.factor[0].tolist() == [pytest.approx([1.5, 1.5, 1.5]), pytest.approx([0.5, 0.5, 0.0])]


def test_tokens_outside_the_band_carry_no_loss_and_the_others_their_ratio() -> None:
    kept = keep.token_icepop(MASK, GAP, low=0.4, high=3.0)
    assert kept.tokens[0].tolist() == [[False, True, True], [False, True, False]]
    assert kept.factor is not None
    assert kept.factor[0].tolist() == [pytest.approx([0.0, 1.0, 0.5]), pytest.approx([0.0, 2.0, 0.0])]
    assert kept.counted.all() and not kept.zeroed.any()


def test_responses_outside_the_band_carry_no_loss_and_stay_in_the_statistics() -> None:
    kept = keep.sequence_icepop(MASK, GAP, low=0.6, high=3.0)
    assert kept.tokens[0].tolist() == [[True, True, True], [False, False, False]]
    assert kept.factor is not None
    assert kept.factor[0, 0].tolist() == pytest.approx([2.0, 2.0, 2.0])
    assert kept.counted.all()


@pytest.mark.parametrize("name", ["token_tis", "sequence_tis", "token_icepop", "sequence_icepop"])
def test_without_a_gap_nothing_is_corrected(name: str) -> None:
    kept = getattr(keep, name)(MASK, torch.zeros(MASK.shape))
    assert torch.equal(kept.tokens, MASK)
    assert torch.equal(kept.factor, MASK.float())
