"""Slot `reward` in literal numbers: what a sample's score becomes."""

import math

import pytest
import torch

from harness.tricks import reward


def _rewards(*values: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor([values], dtype=dtype)


def _lengths(*values: int) -> torch.Tensor:
    return torch.tensor([values])


def test_raw_and_affine() -> None:
    rewards, lengths = _rewards(1, 0), _lengths(1, 1)
    assert reward.raw(rewards, lengths).tolist() == [[1.0, 0.0]]
    assert reward.affine(rewards, lengths).tolist() == [[1.0, -1.0]]
    assert reward.affine(rewards, lengths, scale=10.0, shift=0.5).tolist() == [[10.5, 0.5]]


# L = 20480 and a buffer of 4096: nothing up to 16384, one 4096th = .000244 more, half way, and all at the limit
DAPO = {1: 0.0, 16384: 0.0, 16385: -0.000244, 18432: -0.5, 20480: -1.0, 20481: -1.0, 30000: -1.0}


@pytest.mark.parametrize(("length", "expected"), DAPO.items())
def test_soft_overlong_has_dapos_values(length: int, expected: float) -> None:
    plain = reward.soft_overlong(_rewards(1, 0), _lengths(length, length), 20480, scale=1.0, shift=0.0)
    assert plain[0].tolist() == pytest.approx([1 + expected, expected], abs=5e-7)
    # by default around the rewards 1 and -1
    shaped = reward.soft_overlong(_rewards(1, 0), _lengths(length, length), 20480)
    assert shaped[0].tolist() == pytest.approx([1 + expected, -1 + expected], abs=5e-7)


def test_soft_overlong_knobs() -> None:
    # half of 100 is buffer, so that 75 is half way through it; the factor scales the punishment alone
    lengths = _lengths(50, 75, 100)
    shaped = reward.soft_overlong(_rewards(0, 0, 1), lengths, 100, buffer_share=0.5, factor=0.5, scale=3.0, shift=0.25)
    assert shaped[0].tolist() == pytest.approx([0.25, 0.25 - 0.25, 3.25 - 0.5])
    # a third of the way through 30, in float64 though lengths are integers
    third = reward.soft_overlong(_rewards(0), _lengths(80), 100, buffer_share=0.3, scale=1.0, shift=0.0)
    assert float(third) == pytest.approx(-1 / 3, abs=1e-12)


def test_soft_overlong_without_a_buffer_is_a_hard_cut() -> None:
    # elsewhere 0/0 = NaN
    lengths = _lengths(0, 99, 100, 101, 300)
    cut = reward.soft_overlong(
        _rewards(0, 0, 0, 0, 0), lengths, 100, buffer_share=0.0, factor=0.1, scale=1.0, shift=0.0
    )
    assert cut.tolist() == [[0.0, 0.0, 0.0, -0.1, -0.1]]


def test_length_penalty_of_a_group() -> None:
    # λ = .5 - (|y| - 10) / 40 = .5, .25, -.25, -.5; a wrong answer has no part of a positive λ
    lengths = _lengths(10, 20, 40, 50)
    assert reward.length_penalty(_rewards(1, 1, 1, 1), lengths).tolist() == [[1.5, 1.25, 0.75, 0.5]]
    assert reward.length_penalty(_rewards(0, 0, 0, 0), lengths).tolist() == [[0.0, 0.0, -0.25, -0.5]]
    assert reward.length_penalty(_rewards(1, 0, 0, 1), lengths, coefficient=2.0).tolist() == [[2.0, 0.0, -0.5, 0.0]]
    # lengths 10, 20, 40: λ = .5 - 1/3 in the middle
    assert reward.length_penalty(_rewards(1, 1, 1), _lengths(10, 20, 40))[0].tolist() == pytest.approx(
        [1.5, 7 / 6, 0.5], abs=1e-12
    )


def test_length_penalty_is_each_groups_own() -> None:
    # one token apart is the whole range of the first group; the second, of equal lengths, keeps its rewards
    rewards, lengths = torch.tensor([[1.0, 1.0], [1.0, 0.0]]), torch.tensor([[3, 4], [900, 900]])
    assert reward.length_penalty(rewards, lengths).tolist() == [[1.5, 0.5], [1.0, 0.0]]


def test_length_dependent_accuracy_of_three_right_answers() -> None:
    # right lengths 10, 20, 30: mean 20, std 10 (ddof 1), places -1, 0, 1; σ = .268941, .5, .731059. The wrong answer's
    # 999 tokens are not in the mean
    shaped = reward.length_dependent_accuracy(_rewards(1, 0, 1, 1), _lengths(10, 999, 20, 30))
    assert shaped[0].tolist() == pytest.approx([0.9731059, 0.0, 0.95, 0.9268941], abs=1e-7)
    half = reward.length_dependent_accuracy(_rewards(1, 0, 1, 1), _lengths(10, 999, 20, 30), alpha=0.5)
    assert half[0].tolist() == pytest.approx([0.8655293, 0.0, 0.75, 0.6344707], abs=1e-7)


@pytest.mark.parametrize("longer", [11, 14])
def test_length_dependent_accuracy_of_two_right_answers(longer: int) -> None:
    # 10 and 10 + a: mean 10 + a/2, std a/√2, places ∓ 1/√2 whatever a
    shaped = reward.length_dependent_accuracy(_rewards(1, 1), _lengths(10, longer))
    place = 1 / (1 + math.exp(-1 / math.sqrt(2)))
    assert shaped[0].tolist() == pytest.approx([1 - 0.1 * (1 - place), 1 - 0.1 * place], abs=1e-12)


@pytest.mark.parametrize("rights", [(1, 0, 0), (1, 1, 1)], ids=["one right", "one length"])
def test_length_dependent_accuracy_without_spread_takes_half_of_alpha(rights: tuple[int, ...]) -> None:
    shaped = reward.length_dependent_accuracy(_rewards(*rights), _lengths(7, 7, 7))
    assert shaped[0].tolist() == pytest.approx([0.95 * right for right in rights], abs=1e-12)


def test_length_dependent_accuracy_is_each_groups_own() -> None:
    rewards, lengths = torch.tensor([[1.0, 1.0], [1.0, 1.0]]), torch.tensor([[10, 14], [110, 114]])
    shaped = reward.length_dependent_accuracy(rewards, lengths)
    assert torch.equal(shaped[0], shaped[1])


def test_format_bonus_goes_to_right_and_wrong_alike() -> None:
    formatted = torch.tensor([[True, False, True, False]])
    assert reward.format_bonus(_rewards(1, 1, 0, 0), formatted).tolist() == [[1.1, 1.0, 0.1, 0.0]]
    assert reward.format_bonus(_rewards(1, 1, 0, 0), formatted, bonus=0.5).tolist() == [[1.5, 1.0, 0.5, 0.0]]


@pytest.mark.parametrize(
    ("ids", "ngram", "expected"),
    [
        ([1, 2, 3, 1, 2, 3, 1, 2], 3, 0.5),  # 123 231 312 123 231 312: three distinct of six
        ([7, 7, 7, 7, 7], 3, 2 / 3),  # one distinct of three
        ([1, 2, 3, 4, 5], 3, 0.0),
        ([7, 7, 7], 3, 0.0),  # one n-gram cannot repeat
        ([7, 7], 3, 0.0),  # shorter than n
        ([], 3, 0.0),
        ([7, 7, 7, 7], 3, 0.5),  # one distinct of two
        ([1, 2, 1, 2, 1], 2, 0.5),  # 12 21 12 21
        ([7, 7], 1, 0.5),
        ([1, 2, 3, 4, 1, 2, 3], 4, 0.0),  # 1234 2341 3412 4123
    ],
)
def test_repetition_penalty(ids: list[int], ngram: int, expected: float) -> None:
    tokens = torch.tensor([[ids + [0] * (12 - len(ids))]])  # what lies behind the end repeats and does not count
    one, lengths = _rewards(1), _lengths(len(ids))
    whole = reward.repetition_penalty(one, tokens, lengths, ngram=ngram)
    half = reward.repetition_penalty(one, tokens, lengths, ngram=ngram, factor=0.5)
    assert [float(whole), float(half)] == pytest.approx([1 - expected, 1 - expected / 2], abs=1e-12)


def test_repetition_penalty_defaults_to_trigrams_and_the_whole_share() -> None:
    tokens = torch.tensor([[[7, 7, 7, 7, 0], [1, 2, 1, 2, 1]], [[1, 2, 3, 4, 5], [7, 7, 7, 7, 7]]])
    shaped = reward.repetition_penalty(torch.ones(2, 2).double(), tokens, torch.tensor([[4, 5], [5, 5]]))
    # 121 212 121: two distinct of three
    assert shaped.flatten().tolist() == pytest.approx([0.5, 2 / 3, 1.0, 1 / 3])
