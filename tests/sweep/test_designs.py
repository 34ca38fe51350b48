"""Designs in a spec: leave-one-out with a named stack, fractions within models, even samples, and their faults."""

import re
from collections import Counter
from collections.abc import Callable
from io import StringIO
from itertools import combinations
from pathlib import Path

import pytest
from rich.console import Console

from harness.sweep import design, plan, present, sample, spec
from harness.sweep.expand import expand
from harness.sweep.grid import Expansion
from tests.sweep.conftest import REPOSITORY

Grid = Callable[..., Expansion]
Problems = Callable[..., str]

FOUR = """
axes:
  model: [small_base, large_base]
  rate: {key: train.lr, values: [1e-4, 2e-4]}
  steps: {key: train.steps, values: [3, 4]}
  warm: {key: train.warmup_steps, values: [0, 1]}
  decay: {key: train.weight_decay, values: [0.0, 0.1]}
"""
NAMES = ("rate", "steps", "warm", "decay")


def labels(expansion: Expansion) -> list[tuple[str, ...]]:
    return [tuple(cell.labels.values()) for cell in expansion.cells]


# -- fractions -----------------------------------------------------------------------------------------------------


def test_a_fraction_is_run_within_every_combination_of_the_axes_named(grid: Grid) -> None:
    cells = labels(grid(FOUR + "design: {kind: fractional, generators: [decay = rate*steps*warm], within: [model]}"))
    # by hand: decay is high where one or all three of the others are
    half = [
        ("1e-4", "3", "0", "0.0"),
        ("1e-4", "3", "1", "0.1"),
        ("1e-4", "4", "0", "0.1"),
        ("1e-4", "4", "1", "0.0"),
        ("2e-4", "3", "0", "0.1"),
        ("2e-4", "3", "1", "0.0"),
        ("2e-4", "4", "0", "0.0"),
        ("2e-4", "4", "1", "0.1"),
    ]
    assert cells == [(model, *rest) for model in ("small_base", "large_base") for rest in half]


def test_low_is_the_baseline_where_one_is_named(grid: Grid) -> None:
    text = FOUR.replace("  model: [small_base, large_base]\n", "") + "design: {kind: fractional, resolution: IV}\n"
    made = grid(text + "baseline: {rate: 2e-4, decay: 0.1}").spec
    assert made.baseline == {"rate": "2e-4", "decay": "0.1", "steps": "3", "warm": "0"}  # the main axis stays first
    assert design.described(made)["factors"]["rate"] == ["2e-4", "1e-4"]
    first = next(design.assignments(made.design, made.axes, made.baseline))
    assert [level.label for level in first] == ["2e-4", "3", "0", "0.1"]


def test_of_an_axis_with_more_levels_two_are_named_in_the_file_or_on_the_command_line(grid: Grid) -> None:
    text = FOUR.replace("[3, 4]", "[3, 4, 5]")
    named = grid(text + "design: {kind: fractional, resolution: IV, within: [model], levels: {steps: [3, 5]}}")
    assert {cell.labels["steps"] for cell in named.cells} == {"3", "5"} and len(named.cells) == 16
    narrowed = grid(text + "design: {kind: fractional, resolution: IV, within: [model]}", "steps=[3,5]")
    assert labels(narrowed) == labels(named)
    whole = grid(text, "design={kind: fractional, runs: 8, levels: {steps: [3, 5]}, within: [model]}")
    assert labels(whole) == labels(named)


def test_an_axis_of_one_level_is_held(grid: Grid) -> None:
    expansion = grid(FOUR.replace("[small_base, large_base]", "[small_base]") + "design: {kind: fractional, runs: 8}")
    assert len(expansion.cells) == 8 and {cell.labels["model"] for cell in expansion.cells} == {"small_base"}


def test_the_manifest_tells_the_analysis_rows_and_what_is_confounded(grid: Grid, tmp_path: Path) -> None:
    text = FOUR + "design: {kind: fractional, generators: [decay = -rate*steps], within: [model]}\nseeds: 2"
    made = plan.of(grid(text).spec, tmp_path)
    told = plan.manifest(made)["design"]
    assert (told["resolution"], told["runs"], told["of"], told["within"]) == ("III", 8, 16, ["model"])
    assert told["rows"][0] == [-1, -1, -1, -1] and told["rows"][-1] == [1, 1, 1, -1]
    assert told["classes"][:2] == [[[1, ["rate"]], [-1, ["steps", "decay"]]], [[1, ["steps"]], [-1, ["rate", "decay"]]]]
    assert plan.manifest(plan.of(grid(FOUR).spec, tmp_path))["design"] == {"kind": "full", "within": []}


def test_the_plan_says_what_a_fraction_costs_and_what_it_cannot_tell_apart(grid: Grid, tmp_path: Path) -> None:
    text = FOUR + "design: {kind: fractional, runs: 8, within: [model]}\nseeds: 3"
    console = Console(file=StringIO(), width=200)
    present.show(plan.of(grid(text).spec, tmp_path), console, 1)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "16 cells x 3 seeds = 48 runs\n" in printed
    assert (
        "fraction: 8 of the 16 combinations of 4 axes within every model, 48 runs instead of 96; resolution IV\n"
        "generators, with each axis -1 at its baseline: decay = rate*steps*warm\n"
        "main effects: no two-factor interaction is confounded with them\n"
        "two-factor interactions that are confounded with each other: rate:steps (+ warm:decay); "
        "rate:warm (+ steps:decay); rate:decay (+ steps:warm)\n"
    ) in printed


def test_the_plan_of_a_third_resolution_names_the_interactions_in_every_main_effect(grid: Grid) -> None:
    text = FOUR + "design: {kind: fractional, generators: [decay = -rate*steps], within: [model]}"
    lines = design.said(grid(text).spec, 16)
    assert lines[2] == (
        "main effects that two-factor interactions are confounded with: rate (- steps:decay); steps (- rate:decay); "
        "decay (- rate:steps)"
    )
    assert lines[3] == "two-factor interactions that stand alone: rate:warm, steps:warm, warm:decay"


def test_faults_of_a_fraction_name_the_value_and_the_cure(problems: Problems) -> None:
    start = f"question: q{FOUR}"
    for text, words in {
        "design: fractional": "one of `generators: [D = A*B*C]`, `runs: 8` or `resolution: IV`",
        "design: {kind: fractional, runs: 8, resolution: IV}": "a fractional design takes one of",
        "design: {kind: fractional, runs: 7, within: [model]}": "a power of two of runs, such as 4 or 8",
        "design: {kind: fractional, resolution: II}": "takes one of III, IV, V, VI, VII, VIII, IX, not 'II'",
        "design: {kind: fractional, generators: [decay = rat*steps], within: [model]}": "'rat'; did you mean 'rate'?",
        "design: {kind: fractional, generators: [decay = model*steps], within: [model]}": "two levels 'model'",
        "design: {kind: fractional, generators: [decay = rate], within: [model]}": (
            "these generators confound the main effects of rate and decay (resolution II)"
        ),
        "design: {kind: fractional, generators: [decay = rate*steps, warm = rate*steps], within: [model]}": (
            "confound the main effects of warm and decay (resolution II)"
        ),
        "design: {kind: fractional, generators: [decay = rate*steps, decay = rate*warm], within: [model]}": (
            "'decay' has two generators"
        ),
        "design: {kind: fractional, generators: [warm = rate*steps, decay = warm*rate], within: [model]}": (
            "'warm' has a generator itself ('warm = rate*steps'); write it in the axes that have none: rate, steps"
        ),
        "design: {kind: fractional, generators: [decay = rate*rate], within: [model]}": "names an axis twice",
        "design: {kind: fractional, generators: [rate + steps]}": "a generator is written D = A*B*C",
        "design: {kind: fractional, runs: 8, within: [model, rate, steps]}": "not warm, decay; take design: full",
        "design: {kind: fractional, runs: 8, levels: {step: [3, 4]}}": "names no axis 'step'; did you mean 'steps'?",
        "design: {kind: fractional, runs: 8, levels: {steps: [3, 9]}}": "no level '9' (levels: 3, 4)",
        "design: {kind: fractional, runs: 8, levels: {steps: 3}}": "takes two of its levels, such as [3, 4], not 3",
        "design: {kind: fractional, run: 8}": "not `run`; did you mean 'runs'?",
        "design: {kind: fractional, runs: 8, from: [full]}": "not `from`, only beside kind: oat",
        "design: {kind: fractional, runs: 8, within: [modl]}": "names no axis 'modl'; did you mean 'model'?",
        "design: {kind: fractionl, runs: 8}": "did you mean 'fractional'?",
        "design: {kind: fractional, runs: 8}\nexclude: [{rate: 1e-4, steps: 3}]": (
            "a fraction without some of its cells can no longer tell effects apart"
        ),
    }.items():
        assert words in problems(start + text), text


def test_more_than_two_levels_are_refused_with_both_cures(problems: Problems) -> None:
    text = FOUR.replace("[3, 4]", "[3, 4, 5]") + "design: {kind: fractional, runs: 8, within: [model]}"
    assert problems("question: q" + text).startswith(
        "spec.yaml:5:3: axis 'steps' has 3 levels, and a fraction takes two; say which with design.levels: "
        "{steps: [3, 4]}, or put the axis into `within`\n"
    )
    left = text.replace("within: [model]", "within: [model], levels: {steps: [3, 4]}") + "\nbaseline: {steps: 5}"
    assert "design.levels leaves out the baseline of 'steps', 5" in problems("question: q" + left)


def test_an_axis_with_a_condition_cannot_be_in_a_fraction(problems: Problems) -> None:
    text = FOUR.replace("values: [0.0, 0.1]", "values: [0.0, 0.1], when: steps == 3")
    assert "axis 'decay' has a `when`, and a fraction needs every axis in every cell" in problems(
        f"question: q{text}design: {{kind: fractional, runs: 8, within: [model]}}"
    )


# -- samples -------------------------------------------------------------------------------------------------------


def test_a_sample_is_some_of_all_cells_and_the_same_every_time(grid: Grid) -> None:
    few = labels(grid(FOUR + "design: {kind: sample, size: 6, seed: 1}"))
    assert len(set(few)) == 6 and set(few) <= set(labels(grid(FOUR)))
    assert few == labels(grid(FOUR + "design: {kind: sample, size: 6, seed: 1}"))
    assert few != labels(grid(FOUR + "design: {kind: sample, size: 6, seed: 2}"))
    assert few == labels(grid(FOUR + "design: {kind: sample, size: 11, seed: 1}"))[:6]


def test_within_an_axis_every_level_takes_the_same_sample(grid: Grid) -> None:
    cells = labels(grid(FOUR + "design: {kind: sample, size: 5, within: [model]}"))
    small, large = ([rest for model, *rest in cells if model == name] for name in ("small_base", "large_base"))
    assert len(small) == 5 and small == large


def test_the_plan_says_how_evenly_levels_occur(grid: Grid) -> None:
    made = grid(FOUR + "design: {kind: sample, size: 5, within: [model]}").spec
    assert design.said(made, 10) == [
        "sample: 5 of 16 combinations within every model, seed 0; a level occurs 2 to 3 times; a larger size holds "
        "these"
    ]


@pytest.mark.parametrize("shape", [(2, 2, 2, 2), (2, 3), (3, 3, 2), (6, 2, 4), (5,)])
def test_levels_occur_about_equally_often_at_every_size(shape: tuple[int, ...]) -> None:
    axes = [[f"{axis}.{level}" for level in range(count)] for axis, count in enumerate(shape)]
    for seed in range(5):
        every = sample.points(axes, len(list(_product(shape))), seed)
        assert sorted(every) == sorted(_product(shape))  # each point once
        for size in range(1, len(every) + 1):
            for axis, count in enumerate(shape):
                seen = Counter(point[axis] for point in every[:size])
                spread = max(seen.values()) - min(seen[level] for level in range(count))
                assert spread <= (1 if size <= max(shape) else 2), (seed, size, axis)


def test_pairs_of_levels_are_even_as_well() -> None:
    axes = [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]
    for seed in range(8):
        first = sample.points(axes, 8, seed)  # half of all points can hold every pair of levels equally often: twice
        for a, b in combinations(range(4), 2):
            assert set(Counter((point[a], point[b]) for point in first).values()) == {2}, seed


def test_faults_of_a_sample(problems: Problems) -> None:
    for text, words in {
        "design: sample": "design.size takes a whole number, 1 or more, not None",
        "design: {kind: sample, size: 0}": "1 or more, not 0",
        "design: {kind: sample, size: 4, seed: -1}": "design.seed takes a whole number, 0 or more, not -1",
        "design: {kind: sample, size: 33}": "there are 32 combinations; take 32 or fewer, or design: full",
        "design: {kind: sample, size: 17, within: [model]}": "there are 16 combinations",
        "design: {kind: sample, sizes: 4}": "takes size, seed, within, not `sizes`; did you mean 'size'?",
    }.items():
        assert words in problems(f"question: q{FOUR}{text}"), text


# -- one at a time, from both ends ---------------------------------------------------------------------------------


def test_leave_one_out_takes_each_trick_out_of_the_whole_stack(grid: Grid) -> None:
    cells = labels(grid(FOUR + "design: {kind: oat, from: [full], within: [model]}"))
    small = [rest for model, *rest in cells if model == "small_base"]
    assert small == [
        ["2e-4", "4", "1", "0.1"],
        ["1e-4", "4", "1", "0.1"],
        ["2e-4", "3", "1", "0.1"],
        ["2e-4", "4", "0", "0.1"],
        ["2e-4", "4", "1", "0.0"],
    ]
    assert len(cells) == 10


def test_the_stack_may_name_a_level_that_is_not_the_last(grid: Grid) -> None:
    text = FOUR.replace("[3, 4]", "[3, 4, 5]")
    cells = labels(grid(text + "design: {kind: oat, from: [full], stack: {steps: 4}, within: [model]}"))
    assert cells[0] == ("small_base", "2e-4", "4", "1", "0.1")
    assert {cell[2] for cell in cells} == {"3", "4"}


def test_faults_of_a_stack(problems: Problems) -> None:
    for text, words in {
        "design: {kind: oat, stack: {steps: 4}}": "beside `from` with full in it",
        "design: {kind: oat, from: [full], stack: {stps: 4}}": "no axis 'stps'; did you mean 'steps'?",
        "design: {kind: oat, from: [full], stack: {steps: 9}}": "no level '9' (levels: 3, 4)",
    }.items():
        assert words in problems(f"question: q{FOUR}{text}"), text


def _product(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    points: list[tuple[int, ...]] = [()]
    for count in shape:
        points = [(*point, level) for point in points for level in range(count)]
    return points


# -- the page ------------------------------------------------------------------------------------------------------


def test_the_costs_on_the_page_are_those_of_the_plan(no_weights: None) -> None:
    page = (REPOSITORY / "docs/designs.md").read_text()
    rows = re.findall(r"^\| `(.+?)` \| (\d+) \| (\d+) \|", page, re.M)
    assert len(rows) == 7
    for words, cells, runs in rows:
        expansion = expand(spec.read(REPOSITORY / "grid_specs/fractional.yaml", (f"design={words}",)))
        assert (len(expansion.cells), expansion.num_runs) == (int(cells), int(runs)), words


def test_the_pages_examples_are_specs(grid: Grid) -> None:
    fraction, search = re.findall(r"```yaml\n(.+?)```", (REPOSITORY / "docs/designs.md").read_text(), re.S)
    expansion = grid(fraction)
    assert len(expansion.cells) == 2 * 8
    assert {cell.labels["advantage"] for cell in expansion.cells} == {"group_z", "group_mean_batch_std"}
    expansion = grid(search)
    assert expansion.cells == () and len(expansion.probes) == 2 * 4  # lr at its other end, two more updates
