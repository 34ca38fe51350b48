"""Designs counted by hand, and the order in which settings apply."""

from collections.abc import Callable

from harness.sweep.grid import Expansion

Grid = Callable[..., Expansion]
Problems = Callable[..., str]

THREE = """
axes:
  train.lr: [1e-4, 2e-4]
  train.steps: [3, 4, 5]
  train.warmup_steps: [0, 1]
"""


def labels(expansion: Expansion) -> list[tuple[str, ...]]:
    return [tuple(cell.labels.values()) for cell in expansion.cells]


def test_full_is_the_product_in_file_order(grid: Grid) -> None:
    cells = labels(grid(THREE))
    assert len(cells) == 2 * 3 * 2
    assert cells[:3] == [("1e-4", "3", "0"), ("1e-4", "3", "1"), ("1e-4", "4", "0")]
    assert cells[-1] == ("2e-4", "5", "1")


def test_one_at_a_time_from_the_baseline(grid: Grid) -> None:
    assert labels(grid(THREE + "design: oat")) == [
        ("1e-4", "3", "0"),
        ("2e-4", "3", "0"),
        ("1e-4", "4", "0"),
        ("1e-4", "5", "0"),
        ("1e-4", "3", "1"),
    ]


def test_one_at_a_time_from_a_named_baseline(grid: Grid) -> None:
    cells = labels(grid(THREE + "design: oat\nbaseline: {train.steps: 4}"))
    assert cells[0] == ("1e-4", "4", "0")
    assert len(cells) == 1 + 1 + 2 + 1


def test_leave_one_out_of_the_full_stack(grid: Grid) -> None:
    cells = labels(grid(THREE + "design: {kind: oat, from: [baseline, full]}"))
    assert cells[5:] == [("2e-4", "5", "1"), ("1e-4", "5", "1"), ("2e-4", "3", "1"), ("2e-4", "5", "0")]
    two = "axes: {train.lr: [1e-4, 2e-4], train.steps: [3, 4]}\ndesign: {kind: oat, from: [baseline, full]}"
    both = grid(two)  # leaving one out of two is adding the other: 3 + 3 - 2
    assert len(both.cells) == 4
    assert both.merged == 2


def test_one_at_a_time_within_every_combination_of_some_axes(grid: Grid) -> None:
    cells = labels(grid(THREE + "design: {kind: oat, within: [train.lr]}"))
    around = [("3", "0"), ("4", "0"), ("5", "0"), ("3", "1")]
    assert cells == [(lr, *rest) for lr in ("1e-4", "2e-4") for rest in around]


def test_points_that_are_one_cell_are_its_aliases(grid: Grid) -> None:
    expansion = grid("""
axes:
  recipe: [vanilla, grpo]
  weight: {key: tricks.weight, values: [token_mean, sequence_mean], when: recipe == "vanilla"}
design: oat
""")
    plain, grpo = expansion.cells
    assert (plain.labels, grpo.labels) == ({"recipe": "vanilla", "weight": "token_mean"}, {"recipe": "grpo"})
    assert expansion.aliases == ((grpo.id, {"recipe": "vanilla", "weight": "sequence_mean"}),)


def test_what_is_excluded_may_be_included_by_itself(grid: Grid) -> None:
    cells = labels(grid(THREE + "exclude: [train.steps != 3]\ninclude: [{train.lr: 1e-4, train.steps: 5}]"))
    assert ("1e-4", "5") in [cell[:2] for cell in cells] and len(cells) == 4 + 1


def test_runs_are_cells_times_seeds_with_whole_replicates_first(grid: Grid) -> None:
    expansion = grid(THREE + "seeds: {n: 2, start: 7}")
    runs = list(expansion.runs())
    assert len(runs) == expansion.num_runs == 24
    assert {run.seed for run in runs[:12]} == {7}
    assert runs[0].id == f"{expansion.cells[0].id}-s7"
    assert runs[0].config.run_id == runs[0].id


def test_exclude_partial_lists_mean_any_of(grid: Grid) -> None:
    expansion = grid(THREE + "exclude: [{train.lr: 2e-4, train.steps: [4, 5]}]")
    assert len(expansion.cells) == 12 - 4
    assert expansion.excluded == 4


def test_exclude_by_expression_and_by_config_key(grid: Grid) -> None:
    assert grid(THREE + "exclude: ['train.steps > 3 and train.warmup_steps == 1']").excluded == 4
    assert grid(THREE + "exclude: [{train.epochs: 2, train.steps: 3}]").excluded == 4  # a default counts
    assert grid(THREE + "exclude: ['tricks.advantage != \"group_z\"']").excluded == 0
    unclipped = THREE + "base: {train.max_grad_norm: null}\nexclude: [{train.max_grad_norm: 1.0}]"
    assert grid(unclipped).excluded == 0  # null is a value, not the default
    assert grid(THREE + "exclude: [{tricks.surrogate.high: 0.2, train.lr: 1e-4}]").excluded == 6


def test_include_adds_whole_cells(grid: Grid) -> None:
    expansion = grid(THREE + "include: [{train.lr: 9e-4, train.steps: 3, train.warmup_steps: 0}, {train.steps: 7}]")
    assert len(expansion.cells) == 14
    assert expansion.cells[12].identity.train.lr == 9e-4
    assert expansion.cells[13].labels == {"train.steps": "7"}
    assert expansion.axis_labels()["train.lr"] == ["1e-4", "2e-4", "9e-4"]


def test_an_included_cell_is_labelled_by_its_own_keys_too(grid: Grid) -> None:
    expansion = grid("axes: {train.lr: [1e-4]}\ninclude: [{train.lr: 1e-4, train.steps: 9}]")
    assert [cell.labels for cell in expansion.cells] == [
        {"train.lr": "1e-4"},
        {"train.lr": "1e-4", "train.steps": "9"},
    ]


def test_an_axis_is_absent_where_its_condition_fails(grid: Grid) -> None:
    expansion = grid("""
base: {sampling.max_new_tokens: 50}
axes:
  tricks.keep: [everything, drop_truncated]
  limit: {key: sampling.max_new_tokens, values: [32, 64, 96], when: tricks.keep == "drop_truncated"}
""")
    assert len(expansion.cells) == 1 + 3
    assert expansion.merged == 2
    assert expansion.cells[0].labels == {"tricks.keep": "everything"}
    assert expansion.cells[0].identity.sampling.max_new_tokens == 50


def test_a_condition_sees_base_and_the_axes_before_it(grid: Grid) -> None:
    text = """
base: {{train.steps: {steps}}}
axes:
  train.lr: [1e-4, 2e-4]
  warm: {{key: train.warmup_steps, values: [1, 2], when: train.steps > 5 and train.lr == 2e-4}}
"""
    assert len(grid(text.format(steps=5)).cells) == 2
    assert len(grid(text.format(steps=6)).cells) == 3


def test_named_levels_set_several_keys_and_choices(grid: Grid) -> None:
    expansion = grid("""
axes:
  method:
    plain: {recipe: grpo}
    lite: {recipe: lite_ppo, train.lr: 1e-3, tricks.surrogate: {name: clip, high: 0.28}}
""")
    plain, lite = (cell.identity for cell in expansion.cells)
    assert (plain.tricks.weight.name, lite.tricks.weight.name) == ("sequence_mean", "token_mean")
    assert lite.tricks.surrogate.knobs == {"low": 0.2, "high": 0.28}
    assert lite.train.lr == 1e-3


def test_order_choices_base_axes_set_command_line(grid: Grid) -> None:
    text = """
base: {recipe: vanilla, train.lr: 1e-5, tricks.advantage: batch_z, train.steps: 10}
axes: {train.steps: [20, 30]}
set:
  - {train.lr: 2e-5}
  - {when: train.steps == 30 and scale == "mini", train.lr: 3e-5, train.warmup_steps: 1}
"""
    first, second = (cell.identity for cell in grid(text).cells)
    assert first.tricks.advantage.name == "batch_z"
    assert (first.train.steps, first.train.lr, first.train.warmup_steps) == (20, 2e-5, 0)
    assert (second.train.steps, second.train.lr, second.train.warmup_steps) == (30, 3e-5, 1)
    last = grid(text, "train.lr=4e-5").cells[1].identity.train
    assert (last.lr, last.warmup_steps) == (4e-5, 1)


def test_a_set_that_undoes_an_axis_in_places_merges_cells(grid: Grid) -> None:
    expansion = grid("""
axes: {train.lr: [1e-4, 2e-4], train.steps: [3, 4]}
set: [{when: train.steps == 4, train.lr: 1e-4}]
""")
    assert len(expansion.cells) == 3
    assert expansion.merged == 1


def test_live_references_follow_axes_and_overrides(grid: Grid, tmp_path: object) -> None:
    text = """
base:
  data: gsm8k
  data.path: one.jsonl
  evaluate.benchmarks: {b: {task: jsonl, path: "${data.path}", size: 3}}
axes: {train.steps: [1, 2]}
"""
    assert grid(text).cells[0].identity.evaluate.benchmarks["b"].path == "one.jsonl"
    assert grid(text, "data.path=two.jsonl").cells[0].identity.evaluate.benchmarks["b"].path == "two.jsonl"
    assert grid(text).missing_data == ("one.jsonl",)


def test_scale_chooses_the_files_behind_a_role(grid: Grid) -> None:
    text = "axes: {model: [small_base, large_aligned], data: [hard]}"
    assert [cell.identity.model.path for cell in grid(text).cells] == [
        "harness/lab/weights/small_base",
        "harness/lab/weights/large_aligned",
    ]
    paper = grid(text, "scale=paper")
    assert [cell.identity.model.path for cell in paper.cells] == ["Qwen/Qwen3-4B-Base", "Qwen/Qwen3-8B"]
    assert paper.cells[0].identity.sampling.prompts_per_step == 128
    assert "data/paper/hard.jsonl" in paper.missing_data


def test_faults_of_combinations_point_at_the_setting_to_blame(problems: Problems) -> None:
    text = """question: q
axes:
  tricks.surrogate: [clip]
  train.updates_per_rollout: [4, 64]
"""
    assert "spec.yaml:4:34: train.updates_per_rollout: 32 minibatches" in problems(text)
    axes = "axes: {tricks.advantage: [group_mean, group_z], e: {key: tricks.advantage.eps, values: [1e-4]}}"
    knob = f"question: q\n{axes}"
    assert f"spec.yaml:2:{axes.index('1e-4') + 1}: tricks.advantage.eps: 'group_mean' has no knob 'eps'" in problems(
        knob
    )
    data = problems("question: q\naxes: {data.path: [a.jsonl]}")
    assert "data.path: does not apply to arithmetic data" in data


def test_a_wrong_file_under_experiments_is_named(problems: Problems) -> None:
    assert "model.path" not in problems("question: q\naxes: {model: [nowhere]}")
