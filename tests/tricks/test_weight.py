"""Slot `weight` in literal numbers: what a loss is under each aggregation."""

import pytest
import torch

from harness.tricks import weight
from tests.tricks.batches import mask_of


def _loss(weights: torch.Tensor, per_sample: list[list[float]]) -> float:
    """Σ w · loss, every token of a sample having the same loss."""
    return float((weights * torch.tensor(per_sample, dtype=torch.float64)[..., None]).sum())


# Token losses [1,1], [2]*6 and [-1]*4; the first two share a prompt, the second prompt's other sample is empty.
PAIRS = torch.cat([mask_of(2, 6), mask_of(4, 0, width=6)])
PAIRS_LOSS = [[1.0, 2.0], [-1.0, 99.0]]
ONE_GROUP, ONE_GROUP_LOSS = mask_of(2, 6, 4), [[1.0, 2.0, -1.0]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("token_mean", 0.8333),  # (2 + 12 - 4) / 12
        ("sequence_mean", 0.6667),  # (1 + 2 - 1) / 3
        ("sequence_sum", 3.3333),  # (2 + 12 - 4) / 3
        ("prompt_mean", 0.375),  # (14/8 - 1) / 2
    ],
)
def test_aggregations_of_three_sequences(name: str, expected: float) -> None:
    assert _loss(getattr(weight, name)(PAIRS), PAIRS_LOSS) == pytest.approx(expected, abs=5e-5)


def test_constant_length_of_three_sequences() -> None:
    assert _loss(weight.constant_length(ONE_GROUP, 8), ONE_GROUP_LOSS) == pytest.approx(
        0.4167, abs=5e-5
    )  # 10 / (3 · 8)
    # three prompts of one are the same three sequences
    apart = ONE_GROUP.transpose(0, 1)
    assert _loss(weight.constant_length(apart, 8), [[1.0], [2.0], [-1.0]]) == pytest.approx(0.4167, abs=5e-5)


# Two sequences of 2 and 6 tokens, advantages +1 and -1 at ratio 1, so losses -1 and +1
@pytest.mark.parametrize("width", [6, 60])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("token_mean", 0.5),  # (-2 + 6) / 8
        ("sequence_mean", 0.0),
        ("sequence_sum", 2.0),  # (-2 + 6) / 2
        ("prompt_mean", 0.5),  # one prompt: its token mean
    ],
)
def test_two_sequences_of_two_and_six_whatever_the_padding(name: str, expected: float, width: int) -> None:
    assert _loss(getattr(weight, name)(mask_of(2, 6, width=width)), [[-1.0, 1.0]]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("width", [6, 60])
def test_constant_length_divides_by_the_limit_and_not_by_the_padded_width(width: int) -> None:
    weights = weight.constant_length(mask_of(2, 6, width=width), 8)
    assert _loss(weights, [[-1.0, 1.0]]) == pytest.approx(0.25, abs=1e-12)  # 4 / (2 · 8)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("token_mean", -1.0), ("sequence_mean", -1.0), ("sequence_sum", -2.0), ("prompt_mean", -1.0)],
)
def test_masked_sequences_leave_the_denominator(name: str, expected: float) -> None:
    mask = mask_of(2, 0, width=6)  # the second is truncated and dropped: not -2/8 = -.25, nor -1/2
    assert _loss(getattr(weight, name)(mask), [[-1.0, 1.0]]) == pytest.approx(expected, abs=1e-12)


def test_constant_length_counts_masked_sequences() -> None:
    assert _loss(weight.constant_length(mask_of(2, 0, width=6), 8), [[-1.0, 1.0]]) == pytest.approx(-0.125)  # -2 / 16


def test_the_mean_within_a_group_is_not_the_mean_over_the_batch() -> None:
    # groups of lengths (2, 2) and (6, 6), losses -1 and +1: per group (-1 + 1) / 2, per batch (-4 + 12) / 16
    mask, losses = torch.cat([mask_of(2, 2, width=6), mask_of(6, 6)]), [[-1.0, -1.0], [1.0, 1.0]]
    assert _loss(weight.prompt_mean(mask), losses) == pytest.approx(0.0, abs=1e-12)
    assert _loss(weight.token_mean(mask), losses) == pytest.approx(0.5)


def test_a_masked_prompt_leaves_the_prompts_mean() -> None:
    mask = torch.cat([mask_of(2, 2), mask_of(0, 0, width=2)])
    assert _loss(weight.prompt_mean(mask), [[3.0, 5.0], [9.0, 9.0]]) == pytest.approx(4.0)


@pytest.mark.parametrize(
    "name", ["token_mean", "sequence_mean", "prompt_mean", "sequence_sum", "microbatch_token_mean"]
)
def test_one_token_alone_weighs_one(name: str) -> None:
    assert getattr(weight, name)(mask_of(1)).tolist() == [[[1.0]]]
    assert weight.constant_length(mask_of(1), 1).tolist() == [[[1.0]]]


@pytest.mark.parametrize(
    "name", ["token_mean", "sequence_mean", "prompt_mean", "sequence_sum", "microbatch_token_mean"]
)
def test_no_token_at_all_weighs_nothing(name: str) -> None:
    assert not getattr(weight, name)(mask_of(0, 0, width=3)).any()


def test_the_sum_of_sequence_sums_weights_is_the_mean_length() -> None:
    assert float(weight.sequence_sum(PAIRS).sum()) == pytest.approx(4.0)  # (2 + 6 + 4) / 3


def test_microbatches_of_four_by_default() -> None:
    # three prompts of two samples with 1, 2, 3, 4 | 5, 0 tokens: 1/(2·10) each in the first four, 1/(2·5) after
    mask = torch.cat([mask_of(1, 2, width=5), mask_of(3, 4, width=5), mask_of(5, 0)])
    first = weight.microbatch_token_mean(mask)[:, :, 0]
    assert first.flatten().tolist() == pytest.approx([0.05, 0.05, 0.05, 0.05, 0.1, 0.0])


def test_microbatches_of_two_with_an_empty_one() -> None:
    # 1, 2 | 0, 0 | 4, 1: two micro-batches keep a token, so 1/(2·3) and 1/(2·5)
    mask = torch.cat([mask_of(1, 2, width=4), mask_of(0, 0, width=4), mask_of(4, 1)])
    first = weight.microbatch_token_mean(mask, rows=2)[:, :, 0]
    assert first.flatten().tolist() == pytest.approx([1 / 6, 1 / 6, 0.0, 0.0, 0.1, 0.1])


def test_microbatches_depend_on_the_order_of_samples() -> None:
    # losses -1 and +1 with 2 and 6 tokens, twice. Like with like: (-1 + 1) / 2; mixed: (-2 + 6) / 8
    like, mixed = mask_of(2, 2, 6, 6), mask_of(2, 6, 2, 6)
    assert _loss(weight.microbatch_token_mean(like, rows=2), [[-1.0, -1.0, 1.0, 1.0]]) == pytest.approx(0.0, abs=1e-12)
    assert _loss(weight.microbatch_token_mean(mixed, rows=2), [[-1.0, 1.0, -1.0, 1.0]]) == pytest.approx(0.5)
