"""A spec that cannot show its effect is refused, with the cure."""

from collections.abc import Callable

from harness.sweep.grid import Expansion

Grid = Callable[..., Expansion]
Problems = Callable[..., str]

CLIP = "question: q\naxes: {eps: {key: tricks.surrogate.high, values: [0.2, 0.28]}}\n"
REWARD = "question: q\naxes: {tricks.reward: [raw, affine]}\nbase: {tricks.advantage: %s}\n"


def test_a_clip_axis_needs_more_than_one_update(problems: Problems, grid: Grid) -> None:
    text = problems(CLIP + "base: {train.updates_per_rollout: 1, train.epochs: 1}")
    assert "spec.yaml:2:8: axis 'eps' sets tricks.surrogate.high" in text
    assert "set train.updates_per_rollout: 4 in `base`" in text
    assert len(grid(CLIP.removeprefix("question: q\n") + "base: {train.updates_per_rollout: 2}").cells) == 2


def test_a_clip_axis_crossed_with_one_update_may_exclude_it(problems: Problems, grid: Grid) -> None:
    crossed = "axes: {k: {key: train.updates_per_rollout, values: [1, 4]}, tricks.surrogate.low: [0.1, 0.2]}\n"
    crossed += "base: {train.epochs: 1}\n"
    assert "in 2 of 4 cells" in problems("question: q\n" + crossed)
    assert len(grid(crossed + "exclude: [{k: 1, tricks.surrogate.low: 0.1}, {k: 1}]").cells) == 2


def test_a_reward_scale_cancels_in_a_z_score(problems: Problems, grid: Grid) -> None:
    for advantage in ("group_z", "batch_z", "group_mean_batch_std"):
        text = problems(REWARD % advantage)
        assert f"cancels under tricks.advantage = {advantage}" in text
        assert "control: true" in text
    body = REWARD.removeprefix("question: q\n")
    assert len(grid(body % "group_mean").cells) == 2
    assert len(grid(body % "group_z" + "control: true").cells) == 2


def test_arms_that_are_the_same_cell_everywhere(problems: Problems) -> None:
    text = """question: q
axes:
  data: [easy, hard]
  method:
    a: {recipe: vanilla}
    b: {tricks.weight: token_mean}
    c: {recipe: grpo}
"""
    assert "spec.yaml:6:5: levels 'a' and 'b' of axis 'method' are the same cell everywhere" in problems(text)


def test_arms_that_are_equal_only_in_places_are_merged(grid: Grid) -> None:
    expansion = grid("""
axes:
  recipe: [lite_ppo, grpo]
  weight: {as_is: {}, tokens: {tricks.weight: token_mean}}
""")
    assert len(expansion.cells) == 3
    assert expansion.merged == 1


def test_an_empty_grid_and_a_baseline_that_is_excluded(problems: Problems) -> None:
    assert "the grid is empty: all 2 cells are excluded" in problems(CLIP + "exclude: [{eps: [0.2, 0.28]}]")
    assert "no cell has eps = 0.2" in problems(CLIP + "exclude: [{eps: 0.2}]\nbaseline: {eps: 0.2}")
