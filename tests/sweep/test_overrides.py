"""The command line's key=value words."""

from collections.abc import Callable

from harness.sweep.grid import Expansion

Grid = Callable[..., Expansion]
Problems = Callable[..., str]

SPEC = """
axes:
  model: [small_base, small_aligned, large_base]
  eps: {key: tricks.surrogate.high, values: [0.20, 0.28]}
seeds: 3
baseline: {eps: 0.20}
"""


def test_seeds_and_design(grid: Grid) -> None:
    assert grid(SPEC, "seeds=5").spec.seeds == (0, 1, 2, 3, 4)
    assert grid(SPEC, "seeds={n: 1, start: 4}").spec.seeds == (4,)
    assert len(grid(SPEC, "design=oat").cells) == 1 + 2 + 1


def test_an_axis_is_narrowed_in_the_files_order(grid: Grid) -> None:
    expansion = grid(SPEC, "model=[large_base,small_base]")
    assert expansion.axis_labels()["model"] == ["small_base", "large_base"]
    assert len(grid(SPEC, "model=small_base").cells) == 2
    assert len(grid(SPEC, "eps=[0.2]").cells) == 3


def test_keys_and_choices_that_no_axis_varies(grid: Grid) -> None:
    cell = grid(SPEC, "train.steps=20", "data=hard", "train.lr=1e-3").cells[0]
    assert (cell.identity.train.steps, cell.identity.train.lr, cell.identity.data.role) == (20, 1e-3, "hard")


def test_runtime_changes_no_id(grid: Grid) -> None:
    ids = [cell.id for cell in grid(SPEC).cells]
    assert [cell.id for cell in grid(SPEC, "runtime.micro_batch_rows=3", "runtime.threads=2").cells] == ids
    assert [cell.id for cell in grid(SPEC, "train.steps=61").cells] != ids


def test_mistakes_say_what_would_be_right(problems: Problems) -> None:
    spec = "question: q" + SPEC
    for word, expected in {
        "train.stps=3": "unknown key 'train.stps'; did you mean 'train.steps'?",
        "modle=small_base": "unknown key 'modle'; did you mean 'model'?",
        "model=smal_base": "axis 'model' has no level 'smal_base'; did you mean 'small_base'?",
        "tricks.surrogate.high=0.3": "is set by axis 'eps'; narrow the axis instead: eps=[LEVEL,...]",
        "eps=[0.28]": "leaves out its baseline 0.20",
        "model=[]": "no levels, so the grid is empty",
        "train.steps=many": "input should be a valid integer, not 'many'",
        "train.steps=1_000": "not '1_000'",
        "train.steps": "write key=value",
        "seeds=0": "1 or more",
        "scale=papr": "did you mean 'paper'?",
        "data=hrd": "no data 'hrd' at scale 'mini'; did you mean 'hard'?",
        "train.steps=[1": "cannot read the value '[1'",
        "train=3": "'train' is a section",
        "+train.steps=3": "did you mean 'train.steps'?",
    }.items():
        assert f"command line: {expected}" in problems(spec, word) or expected in problems(spec, word), word
    twice = problems(spec, "train.steps=3", "train.steps=4")
    assert "'train.steps' is given twice" in twice
