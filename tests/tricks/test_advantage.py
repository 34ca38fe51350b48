"""Slot `advantage`, one number per sample, in literal numbers; and the running moments behind `running`."""

import math
import statistics

import pytest
import torch

from harness.tricks import advantage, moments

GROUPS = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.float64)
# one right of eight, seven right of eight, none right of eight
EIGHTS = torch.tensor([[1.0] + [0.0] * 7, [1.0] * 7 + [0.0], [0.0] * 8], dtype=torch.float64)
PER_SAMPLE = ["none", "group_mean", "batch_mean", "group_z", "batch_z", "group_mean_batch_std", "leave_one_out"]


def _of(name: str, rewards: torch.Tensor, counted: torch.Tensor | None = None, **knobs: float) -> torch.Tensor:
    """The advantage of these rewards, all counted by default; a name may end in `centred`."""
    counted = torch.ones_like(rewards, dtype=torch.bool) if counted is None else counted
    name, _, centred = name.partition(" ")
    return getattr(advantage, name)(rewards, counted, **knobs, **({"centred": True} if centred else {}))


# (g1 right, g1 wrong, g2, g3 right, g3 wrong, g4), ddof 1; the batch has mean .5625 and std .512348 (centred: .341565)
FOURS_GOLDEN = {
    "group_z": (0.5000, -1.5000, 0, 0.8660, -0.8660, 0),
    "batch_z": (0.8539, -1.0979, -1.0979, 0.8539, -1.0979, 0.8539),
    "group_mean": (0.25, -0.75, 0, 0.5, -0.5, 0),
    "batch_mean": (0.4375, -0.5625, -0.5625, 0.4375, -0.5625, 0.4375),
    "group_mean_batch_std": (0.4879, -1.4638, 0, 0.9759, -0.9759, 0),
    "group_mean_batch_std centred": (0.7319, -2.1958, 0, 1.4638, -1.4638, 0),
    "leave_one_out": (0.3333, -1.0, 0, 0.6667, -0.6667, 0),
    "none": (1, 0, 0, 1, 0, 1),
}


@pytest.mark.parametrize("name", FOURS_GOLDEN)
def test_four_groups_of_four(name: str) -> None:
    a = _of(name, GROUPS)
    picked = [a[0, 0], a[0, 3], a[1, 0], a[2, 0], a[2, 1], a[3, 0]]
    assert [float(x) for x in picked] == pytest.approx(FOURS_GOLDEN[name], abs=6e-5)


# (g1 right, g1 wrong, g2 right, g2 wrong, g3); with ddof 0 the first row would be 2.64574, the second 1.85615
EIGHTS_GOLDEN = {
    "group_z": (2.47487, -0.35355, 0.35355, -2.47487, 0),
    "group_mean_batch_std": (1.81707, -0.25958, 0.25958, -1.81707, 0),
    "group_mean_batch_std centred": (3.17214, -0.45316, 0.45316, -3.17214, 0),  # .875 / .275839
    "group_mean": (0.875, -0.125, 0.125, -0.875, 0),
    "batch_z": (1.38443, -0.69222, 1.38443, -0.69222, -0.69222),
    "batch_mean": (0.66667, -0.33333, 0.66667, -0.33333, -0.33333),
    "leave_one_out": (1.0, -0.142857, 0.142857, -1.0, 0),
    "none": (1, 0, 1, 0, 0),
}


@pytest.mark.parametrize("name", EIGHTS_GOLDEN)
def test_three_groups_of_eight(name: str) -> None:
    a = _of(name, EIGHTS)
    picked = [a[0, 0], a[0, 1], a[1, 0], a[1, 7], a[2, 0]]
    assert [float(x) for x in picked] == pytest.approx(EIGHTS_GOLDEN[name], abs=1.5e-5)


def test_one_right_in_four_is_one_and_a_half_not_the_fields_other_numbers() -> None:
    a = _of("group_z", torch.tensor([[1.0, 0, 0, 0]], dtype=torch.float64))
    assert float(a[0, 0]) == pytest.approx(0.75 / (0.5 + 1e-6), abs=1e-12)  # std of (1,0,0,0) with ddof 1 is .5
    assert round(float(a[0, 0]), 4) == 1.5  # 1.4997 with eps 1e-4, 1.7321 with ddof 0


@pytest.mark.parametrize("name", ["group_z", "batch_z", "group_mean_batch_std", "group_mean_batch_std centred"])
def test_eps_is_added_to_the_std(name: str) -> None:
    # one group is the batch: (1,0,0,0) has mean .25 and std .5, so .75 / (.5 + .25); scaled to a std of 1e-6 / 2, the
    # default eps of 1e-6 makes .75e-6 / 1.5e-6
    rewards = torch.tensor([[1.0, 0, 0, 0]], dtype=torch.float64)
    assert _of(name, rewards, eps=0.25)[0].tolist() == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert _of(name, 1e-6 * rewards)[0].tolist() == pytest.approx([0.5, -1 / 6, -1 / 6, -1 / 6])


@pytest.mark.parametrize("value", [0.1, 0.2, 0.35, 1 / 3, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*PER_SAMPLE[1:], "group_mean_batch_std centred"])
def test_equal_rewards_give_exactly_zero(name: str, value: float, dtype: torch.dtype) -> None:
    # eight equal rewards of 0.2 in float32 give -0.0147 elsewhere: a residue of the mean divided by eps
    assert not _of(name, torch.full((3, 8), value, dtype=dtype)).any()


@pytest.mark.parametrize("other", [-9.0, 9.0, torch.nan])
@pytest.mark.parametrize("name", [*PER_SAMPLE[1:], "group_mean_batch_std centred"])
def test_equal_counted_rewards_give_exactly_zero_whatever_the_uncounted_ones(name: str, other: float) -> None:
    # the mean of three times 0.1 is a float residue away from 0.1
    rewards = torch.tensor([[0.1, 0.1, 0.1, other]], dtype=torch.float64)
    assert not _of(name, rewards, torch.tensor([[True, True, True, False]])).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_groups_inside_a_mixed_batch_give_exactly_zero(dtype: torch.dtype) -> None:
    rewards = torch.tensor([[0.1] * 8, [1 / 3] * 8, [0.7] * 7 + [0.2]], dtype=dtype)
    for name in ("group_mean", "group_z", "group_mean_batch_std", "leave_one_out"):
        a = _of(name, rewards)
        assert not a[:2].any(), name
        assert a[2].all(), name


@pytest.mark.parametrize("name", ["group_mean", "group_z", "group_mean_batch_std", "leave_one_out"])
def test_a_group_of_one_gives_zero(name: str) -> None:
    assert _of(name, torch.tensor([[1.0], [0.0]])).tolist() == [[0.0], [0.0]]


def test_a_group_of_one_under_the_batchs_statistics() -> None:
    # rewards 1 and 0: mean .5, std √.5
    rewards = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    assert _of("batch_mean", rewards).flatten().tolist() == [0.5, -0.5]
    assert _of("batch_z", rewards).flatten().tolist() == pytest.approx([0.707106, -0.707106], abs=2e-6)


def test_leave_one_out_of_two_and_of_three_counted() -> None:
    assert _of("leave_one_out", torch.tensor([[1.0, 0.0]])).tolist() == [[1.0, -1.0]]
    # the fourth is not there: 1 - (0 + 0)/2 and 0 - (1 + 0)/2
    rewards = torch.tensor([[1.0, 0, 0, torch.nan]], dtype=torch.float64)
    assert _of("leave_one_out", rewards, ~rewards.isnan())[0].tolist() == pytest.approx([1.0, -0.5, -0.5, 0.0])


def test_uncounted_samples_leave_the_statistics() -> None:
    # groups [T,1,0 | 0,1,1] with T left out: group 1 has mean .5, so its others are +.5 and -.5
    rewards = torch.tensor([[torch.nan, 1, 0], [0, 1, 1]], dtype=torch.float64)
    counted = ~rewards.isnan()
    assert _of("group_mean", rewards, counted)[0].tolist() == [0.0, 0.5, -0.5]
    assert _of("group_mean", rewards, counted)[1].tolist() == pytest.approx([-2 / 3, 1 / 3, 1 / 3])
    # the batch is then (1,0,0,1,1): mean .6, variance (2·.36 + 3·.16)/4 = .3; centred (.5,-.5,-2/3,1/3,1/3): variance
    # (.5 + 2/3)/4 = 7/24
    assert _of("batch_mean", rewards, counted)[0].tolist() == pytest.approx([0.0, 0.4, -0.6])
    assert _of("batch_z", rewards, counted, eps=0.0)[0, 1:].tolist() == pytest.approx([0.730297, -1.095445], abs=1e-6)
    assert float(_of("group_mean_batch_std", rewards, counted, eps=0.0)[0, 1]) == pytest.approx(0.5 / math.sqrt(0.3))
    centred = _of("group_mean_batch_std centred", rewards, counted, eps=0.0)
    assert float(centred[0, 1]) == pytest.approx(0.5 / math.sqrt(7 / 24))
    # a group of two counted has std √.5
    assert _of("group_z", rewards, counted, eps=0.0)[0].tolist() == pytest.approx([0.0, 0.707107, -0.707107], abs=1e-6)
    assert _of("none", rewards, counted).tolist() == [[0.0, 1.0, 0.0], [0.0, 1.0, 1.0]]


def test_dropping_an_empty_group_first_changes_the_batch_std() -> None:
    counted = torch.ones_like(EIGHTS, dtype=torch.bool)
    counted[2] = False  # 16 rewards, 8 right: std .516398, so .875 becomes 1.69443
    assert float(_of("group_mean_batch_std", EIGHTS, counted, eps=0.0)[0, 0]) == pytest.approx(1.69443, abs=1e-5)


def _running(rewards: list[list[float]], past: torch.Tensor, **knobs: float) -> list[float]:
    tensor = torch.tensor(rewards, dtype=torch.float64)
    return advantage.running(tensor, torch.ones_like(tensor, dtype=torch.bool), past, **knobs).flatten().tolist()


def test_running_over_two_steps() -> None:
    # step 1: (1, 0) has mean .5 and std √.5. Step 2: (1,0,1,1,0,1) has mean 2/3, squares 4·1/9 + 2·4/9 = 4/3, variance
    # 4/15, std .516398: 1/3 and -2/3 of it
    assert _running([[1, 0]], moments.empty(), eps=0.0) == pytest.approx([0.707107, -0.707107], abs=1e-6)
    past = moments.merge(moments.empty(), torch.tensor([1.0, 0.0]))
    expected = [0.645497, 0.645497, -1.290994, 0.645497]
    assert _running([[1, 1], [0, 1]], past, eps=0.0) == pytest.approx(expected, abs=1e-6)
    # it is the batch z-score over both steps' rewards
    both = _of("batch_z", torch.tensor([[1, 0], [1, 1], [0, 1]], dtype=torch.float64), eps=0.0)
    assert _running([[1, 1], [0, 1]], past, eps=0.0) == pytest.approx(both[1:].flatten().tolist())


def test_runnings_eps_is_added_to_the_std() -> None:
    # (0,1,1,1): mean .75, std .5. Scaled by 1e-6, the default eps is twice the std
    past = moments.merge(moments.empty(), torch.tensor([0.0, 1.0]))
    assert _running([[1, 1]], past, eps=0.25) == pytest.approx([1 / 3, 1 / 3])
    tiny = moments.merge(moments.empty(), torch.tensor([0.0, 1e-6], dtype=torch.float64))
    assert _running([[1e-6, 1e-6]], tiny) == pytest.approx([1 / 6, 1 / 6])


@pytest.mark.parametrize("earlier", [2, 9])
@pytest.mark.parametrize("value", [0.1, 0.2, 0.35, 1 / 3, 0.7])
def test_running_judges_spread_over_all_steps(value: float, earlier: int) -> None:
    # after 2 or 9 rewards the merged mean of all these values is a float residue away from them
    past = moments.merge(moments.empty(), torch.full((earlier,), value, dtype=torch.float64))
    assert _running([[value] * 3], past) == [0.0] * 3
    assert _running([[value]], moments.empty()) == [0.0]
    assert _running([[value + 1] * 3], past)[0] > 0.5  # equal in this step, not so far


def test_running_leaves_out_what_is_not_counted() -> None:
    rewards = torch.tensor([[1.0, torch.nan], [0.0, 5.0]], dtype=torch.float64)
    counted = torch.tensor([[True, False], [True, False]])
    a = advantage.running(rewards, counted, moments.empty(), eps=0.0)
    assert a.flatten().tolist() == pytest.approx([0.707107, 0.0, -0.707107, 0.0], abs=1e-6)


def test_moments_by_hand() -> None:
    # (1,2,3) then (4,8): mean 18/5, squares 6.76 + 2.56 + .36 + .16 + 19.36 = 29.2
    first = moments.merge(moments.empty(), torch.tensor([1.0, 2.0, 3.0]))
    assert first.tolist() == [3.0, 2.0, 2.0, 1.0, 3.0]
    second = moments.merge(first, torch.tensor([4.0, 8.0]))
    assert second.tolist() == pytest.approx([5.0, 3.6, 29.2, 1.0, 8.0])
    assert moments.merge(second, torch.tensor([-1.0]))[3:].tolist() == [-1.0, 8.0]


def test_moments_are_float64_even_of_float32_rewards() -> None:
    # in float32 the sum 16777217 does not exist, and the mean would be 8388608
    assert moments.empty().dtype == torch.float64
    large = moments.merge(moments.empty(), torch.tensor([16777216.0, 1.0]))
    assert large.dtype == torch.float64
    assert float(large[1]) == 8388608.5


def test_moments_of_nothing() -> None:
    assert moments.empty().tolist() == [0.0, 0.0, 0.0, math.inf, -math.inf]
    past = moments.merge(moments.empty(), torch.tensor([0.5]))
    assert past.tolist() == [1.0, 0.5, 0.0, 0.5, 0.5]
    same = moments.merge(past, torch.zeros(0))
    assert torch.equal(same, past)
    assert same is not past


@pytest.mark.parametrize("cut", [0, 1, 3, 7])
def test_moments_of_parts_are_those_of_the_whole(cut: int) -> None:
    values = [0.1, 2.5, -3.0, 0.7, 0.7, 11.0, 1 / 3]
    both = torch.tensor(values, dtype=torch.float64)
    count, mean, squares, low, high = moments.merge(moments.merge(moments.empty(), both[:cut]), both[cut:]).tolist()
    assert (count, low, high) == (7, -3.0, 11.0)
    assert mean == pytest.approx(statistics.fmean(values))
    assert squares / (count - 1) == pytest.approx(statistics.variance(values))
