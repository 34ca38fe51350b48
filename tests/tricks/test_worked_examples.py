"""Literal numbers per trick, from the source paper's fact sheet and other implementations' published values."""

import math

import pytest
import torch

from harness import tricks
from harness.tricks import advantage, keep, reward, surrogate, weight

GROUPS = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.float64)
ALL = torch.ones(4, 4, dtype=torch.bool)
# F1: one right of eight, seven right of eight, none right of eight.
F1 = torch.tensor([[1.0] + [0.0] * 7, [1.0] * 7 + [0.0], [0.0] * 8], dtype=torch.float64)


# method: (g1 right, g1 wrong, g2, g3 right, g3 wrong, g4), ddof 1, to the printed digits
GOLDEN = {
    "group_z": (0.5000, -1.5000, 0, 0.8660, -0.8660, 0),
    "batch_z": (0.8539, -1.0979, -1.0979, 0.8539, -1.0979, 0.8539),
    "group_mean": (0.25, -0.75, 0, 0.5, -0.5, 0),
    "batch_mean": (0.4375, -0.5625, -0.5625, 0.4375, -0.5625, 0.4375),
    "group_mean_batch_std": (0.4879, -1.4638, 0, 0.9759, -0.9759, 0),
    "none": (1, 0, 0, 1, 0, 1),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_advantage_of_four_groups_of_four(name: str) -> None:
    a = getattr(advantage, name)(GROUPS, ALL)
    picked = [a[0, 0], a[0, 3], a[1, 0], a[2, 0], a[2, 1], a[3, 0]]
    assert [float(x) for x in picked] == pytest.approx(GOLDEN[name], abs=6e-5)


# fixture F1, eps -> 0: (g1 right, g1 wrong, g2 right, g2 wrong, g3)
F1_GOLDEN = {
    "group_z": (2.47487, -0.35355, 0.35355, -2.47487, 0),
    "group_mean_batch_std": (1.81707, -0.25958, 0.25958, -1.81707, 0),
    "group_mean": (0.875, -0.125, 0.125, -0.875, 0),
    "batch_z": (1.38443, -0.69222, 1.38443, -0.69222, -0.69222),
    "batch_mean": (0.66667, -0.33333, 0.66667, -0.33333, -0.33333),
    "none": (1, 0, 1, 0, 0),
}


@pytest.mark.parametrize("name", F1_GOLDEN)
def test_advantage_of_three_groups_of_eight(name: str) -> None:
    a = getattr(advantage, name)(F1, torch.ones_like(F1, dtype=torch.bool))
    picked = [a[0, 0], a[0, 1], a[1, 0], a[1, 7], a[2, 0]]
    assert [float(x) for x in picked] == pytest.approx(F1_GOLDEN[name], abs=1.5e-5)


def test_one_right_in_four_is_one_and_a_half_not_the_fields_other_numbers() -> None:
    a = advantage.group_z(torch.tensor([[1.0, 0, 0, 0]], dtype=torch.float64), torch.ones(1, 4, dtype=torch.bool))
    assert float(a[0, 0]) == pytest.approx(0.75 / (0.5 + 1e-6), abs=1e-12)  # std ddof 1 of (1,0,0,0) is 0.5
    assert round(float(a[0, 0]), 4) == 1.5


@pytest.mark.parametrize("value", [0.1, 0.2, 0.35, 1 / 3, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["group_z", "batch_z", "group_mean_batch_std", "group_mean", "batch_mean"])
def test_equal_rewards_give_exactly_zero(name: str, value: float, dtype: torch.dtype) -> None:
    # eight equal rewards of 0.2 in float32 give -0.0147 elsewhere: a residue of the mean divided by eps
    rewards = torch.full((3, 8), value, dtype=dtype)
    assert not getattr(advantage, name)(rewards, torch.ones(3, 8, dtype=torch.bool)).any()


def test_uncounted_samples_leave_the_statistics() -> None:
    # groups [T,1,0 | 0,1,1] with T left out: group 1 has mean .5, so its others are +.5 and -.5
    rewards = torch.tensor([[1.0, 1, 0], [0, 1, 1]], dtype=torch.float64)
    counted = torch.tensor([[False, True, True], [True, True, True]])
    a = advantage.group_mean(rewards, counted)
    assert a[0].tolist() == [0.0, 0.5, -0.5]
    assert a[1].tolist() == pytest.approx([-2 / 3, 1 / 3, 1 / 3])
    # the batch std then runs over (1,0,0,1,1): mean .6, variance (2·.36 + 3·.16)/4 = .3
    b = advantage.group_mean_batch_std(rewards, counted, eps=0.0)
    assert float(b[0, 1]) == pytest.approx(0.5 / math.sqrt(0.3))


def test_dropping_an_empty_group_first_changes_the_batch_std() -> None:
    counted = torch.ones_like(F1, dtype=torch.bool)
    counted[2] = False  # 16 rewards, 8 right: std .516398, so .875 becomes 1.69443
    a = advantage.group_mean_batch_std(F1, counted, eps=0.0)
    assert float(a[0, 0]) == pytest.approx(1.69443, abs=1e-5)


def test_affine_reward_maps_one_and_zero_to_one_and_minus_one() -> None:
    lengths = torch.ones(1, 2, dtype=torch.long)
    rewards = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    assert reward.affine(rewards, lengths).tolist() == [[1.0, -1.0]]
    assert reward.affine(rewards, lengths, scale=10.0, shift=0.5).tolist() == [[10.5, 0.5]]
    assert reward.raw(rewards, lengths).tolist() == [[1.0, 0.0]]


def _mask(*lengths: int, width: int | None = None) -> torch.Tensor:
    return (torch.arange(width or max(lengths)) < torch.tensor(lengths)[:, None])[None]


def test_aggregations_of_three_sequences() -> None:
    # token losses [1,1], [2]*6, [-1]*4: token mean (2+12-4)/12, sequence mean (1+2-1)/3
    mask = _mask(2, 6, 4)
    losses = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)[None, :, None]
    assert float((weight.token_mean(mask) * losses).sum()) == pytest.approx(0.8333, abs=5e-5)
    assert float((weight.sequence_mean(mask) * losses).sum()) == pytest.approx(0.6667, abs=5e-5)


def test_f3_two_sequences_of_two_and_six() -> None:
    for width in (6, 60):
        losses = torch.tensor([-1.0, 1.0], dtype=torch.float64)[None, :, None]
        assert float((weight.token_mean(_mask(2, 6, width=width)) * losses).sum()) == pytest.approx(0.5)
        assert float((weight.sequence_mean(_mask(2, 6, width=width)) * losses).sum()) == pytest.approx(0.0)


def test_masked_sequences_leave_the_denominator() -> None:
    mask = _mask(2, 6) & torch.tensor([True, False])[None, :, None]  # the second is truncated and dropped
    losses = torch.tensor([-1.0, 1.0], dtype=torch.float64)[None, :, None]
    assert float((weight.token_mean(mask) * losses).sum()) == -1.0  # not -0.25
    assert float((weight.sequence_mean(mask) * losses).sum()) == -1.0


@pytest.mark.parametrize(
    ("ratio", "sign", "high", "expected"),
    [
        (1.25, 1, 0.20, 1.20),
        (1.25, 1, 0.28, 1.25),
        (1.30, 1, 0.20, 1.20),
        (1.30, 1, 0.28, 1.28),
        (1.30, 1, 0.32, 1.30),
        (3.5, -1, 0.20, -3.5),  # no dual clip: the ratio is not bounded for a negative advantage
        (0.5, -1, 0.20, -0.8),
        (0.5, 1, 0.20, 0.5),
    ],
)
def test_clip_of_one_token(ratio: float, sign: int, high: float, expected: float) -> None:
    one = torch.ones(1, 1)
    value = surrogate.clip(one * math.log(ratio), one * sign, one.bool(), high=high)
    assert float(value) == pytest.approx(expected, rel=1e-6)


F5_LOGRATIO = [[0.3, -0.3, 0.0], [0.2, 0.1, -0.5]]
F5_MASK = torch.tensor([[True, True, False], [True, True, True]])


@pytest.mark.parametrize(
    ("high", "loss", "first_row"),
    [
        (0.20, 0.237151, [0.0, -0.14816, 0.0]),
        (0.28, 0.221151, [0.0, -0.14816, 0.0]),
        (0.32, 0.213151, [0.0, -0.14816, 0.0]),
        (0.36, 0.207179, [-0.26997, -0.14816, 0.0]),
    ],
)
def test_f5_clip_under_token_mean_agrees_with_another_implementation(
    high: float, loss: float, first_row: list[float]
) -> None:
    logratio = torch.tensor(F5_LOGRATIO, requires_grad=True)
    sign = torch.tensor([[1.0], [-1.0]]).expand(2, 3)
    w = weight.token_mean(F5_MASK[None])[0]
    total = -(w * surrogate.clip(logratio, sign, F5_MASK, high=high)).sum()
    total.backward()
    assert float(total.detach()) == pytest.approx(loss, abs=2e-6)
    assert logratio.grad is not None
    assert logratio.grad[0].tolist() == pytest.approx(first_row, abs=1e-5)
    assert logratio.grad[1].tolist() == pytest.approx([0.24428, 0.22103, 0.0], abs=1e-5)


def test_f5_clip_under_sequence_mean_agrees_with_another_implementation() -> None:
    logratio = torch.tensor(F5_LOGRATIO, requires_grad=True)
    sign = torch.tensor([[1.0], [-1.0]]).expand(2, 3)
    w = weight.sequence_mean(F5_MASK[None])[0]
    total = -(w * surrogate.clip(logratio, sign, F5_MASK)).sum()
    total.backward()
    assert float(total.detach()) == pytest.approx(0.035891, abs=2e-6)
    assert logratio.grad is not None
    assert logratio.grad[0].tolist() == pytest.approx([0.0, -0.1852, 0.0], abs=1e-5)
    assert logratio.grad[1].tolist() == pytest.approx([0.20357, 0.1842, 0.0], abs=1e-5)


def test_overlong_readings() -> None:
    mask = torch.ones(1, 2, 3, dtype=torch.bool)
    truncated, rewards = torch.tensor([[True, False]]), torch.zeros(1, 2, dtype=torch.float64)
    for name, tokens, counted in [
        ("everything", 6, [True, True]),
        ("drop_truncated", 3, [True, True]),
        ("discount_truncated", 3, [False, True]),
    ]:
        kept = getattr(keep, name)(mask, truncated, rewards)
        assert int(kept.tokens.sum()) == tokens, name
        assert kept.counted[0].tolist() == counted, name


def test_bound_knobs_reach_the_function() -> None:
    slot = tricks.bind("surrogate", "clip", {"high": 0.28})
    one = torch.ones(1, 1)
    offered = {"logratio": one * math.log(1.5), "advantage": one, "mask": one.bool(), "logp": None}
    assert float(slot(offered)) == pytest.approx(1.28)
