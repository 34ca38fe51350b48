"""Reading a spec: every fault at once, in its place, with the nearest name."""

from collections.abc import Callable
from pathlib import Path

from harness.sweep import spec

Problems = Callable[..., str]

WRONG = """question: q
base: {recipe: vanila, train.stps: 3}
axes:
  model: [small_base, smal_base]
  tricks.surrogate.hihg: [0.20, 0.28]
  tricks.weight: [token_mean, token_mean]
  rate: {key: train.lr, values: [1e-4, fast]}
exclude:
  - {modl: small_base}
  - "model == open('x')"
seeds: five
resorces: {gpus: 1}
"""


def test_all_faults_of_a_file_come_at_once(problems: Problems) -> None:
    places = [line.split(" ")[0] for line in problems(WRONG).splitlines() if line.startswith("spec.yaml")]
    assert places == [
        f"spec.yaml:{place}:"
        for place in ("2:16", "2:24", "4:23", "5:3", "6:31", "7:40", "9:6", "10:15", "11:1", "12:1")
    ]


def test_a_fault_shows_its_line_a_caret_and_the_nearest_name(problems: Problems) -> None:
    assert (
        "spec.yaml:2:24: no such config key 'train.stps'; did you mean 'train.steps'?\n"
        "    base: {recipe: vanila, train.stps: 3}\n"
        "                           ^\n" in problems(WRONG)
    )


def test_unknown_names_and_values_say_what_there_is(problems: Problems) -> None:
    text = problems(WRONG)
    assert "no recipe 'vanila'; did you mean 'vanilla'? (there are: " in text
    assert "no model 'smal_base' at scale 'mini'; did you mean 'small_base'?" in text
    assert "axis 'tricks.weight' repeats the level token_mean" in text
    assert "train.lr: input should be a valid number, not 'fast'" in text
    assert "unknown name 'modl'; did you mean 'model'?" in text
    assert "Call is not allowed in an expression" in text
    assert "unknown key 'resorces'; did you mean 'resources'?" in text


def test_bad_seeds_designs_baselines_endpoints(problems: Problems) -> None:
    axes = "question: q\naxes: {train.lr: [1e-4, 2e-4]}\n"
    for line, words in {
        "seeds: 0": "1 or more",
        "seeds: true": "1 or more",
        "seeds: [0, 1]": "{n: 3, start: 100}",
        "seeds: {n: 2, begin: 3}": "{n: 3, start: 100}",
        "design: half": "design takes full, oat, {kind: oat, from: [baseline, full]}, {kind: fractional",
        "design: fractional": "takes one of `generators",
        "design: {kind: oat, from: [start]}": "[baseline], [full]",
        "design: {kind: oat, within: [train.l]}": "no axis 'train.l'; did you mean 'train.lr'?",
        "design: {kind: full, within: [train.lr]}": "only beside kind: oat",
        "control: [lr]": "no axis 'lr' (axes: train.lr)",
        "baseline: {lr: 1e-4}": "no axis 'lr' (axes: train.lr)",
        "baseline: {train.lr: 3e-4}": "no level '0.0003'",
        "endpoint: {goal: up}": "max or min",
        "endpoint: {last: 0}": "1 or more",
        "endpoint: {metrc: x}": "did you mean 'metric'?",
        "claims: T4": "list of names",
        "claims: [T4, T44]": "no claim 'T44'; did you mean 'T4'?",
        "figures: [accuracy]": "<metric>_by_<axis> (accuracy_by_train.lr)",
        "figures: [entropy_by_model]": "(entropy_by_train.lr) or are one of effects, claims",
        "control: 1": "true, false or a list of axes",
        "base: [recipe]": "a mapping",
        "set: {recipe: grpo}": "a group",
        "set: {train.lr: 1e-5}": "overwrites axis 'train.lr' in every cell",
        "set: [{when: stps > 3, train.steps: 3}]": "unknown name 'stps'",
        "exclude: {train.lr: 1e-4}": "takes a list",
        "include: [{train.lrr: 1}]": "did you mean 'train.lr'?",
        "base: {train: {steps: 3}}": "write train.steps",
    }.items():
        assert words in problems(axes + line), line


def test_a_spec_needs_a_question_and_something_that_varies(problems: Problems) -> None:
    assert "question is missing" in problems("axes: {train.lr: [1e-4]}")
    assert "nothing varies" in problems("question: q")
    assert "has no levels, so the grid is empty" in problems("question: q\naxes: {model: []}")
    assert "a spec is a mapping" in problems("- a\n")
    assert "a spec is a mapping" in problems("")


def test_axes_that_clash_or_look_ahead(problems: Problems) -> None:
    text = """question: q
axes:
  train.lr: [1e-4]
  rate: {key: train.lr, values: [2e-4]}
  early: {key: train.steps, values: [3], when: late == 1}
  late: {key: train.warmup_steps, values: [1]}
  seed: [1, 2]
"""
    assert "axes 'train.lr' and 'rate' both set 'train.lr'" in problems(text)
    assert "spec.yaml:5:48: axis 'late' comes later" in problems(text)
    assert "'seed' cannot name an axis: seeds are replicates" in problems(text)


def test_what_is_read(write: Callable[..., Path]) -> None:
    read = spec.read(
        write("""question: |
  does it
  work?
axes:
  eps: {key: tricks.surrogate.high, values: [0.20, 0.28]}
  method:
    off: {}
    lite: {recipe: lite_ppo, train.steps: 9}
seeds: {n: 2, start: 100}
baseline: {eps: 0.2, method: off}
endpoint: {metric: train/accuracy, last: 5, goal: min, margin: 0}
""")
    )
    assert read.question == "does it work?"
    assert read.seeds == (100, 101)
    assert [level.label for level in read.axes[0].levels] == ["0.20", "0.28"]
    assert read.axes[0].key == "tricks.surrogate.high"
    assert read.axes[1].key is None
    assert [(s.key, s.value) for s in read.axes[1].levels[1].settings] == [("recipe", "lite_ppo"), ("train.steps", 9)]
    assert read.baseline == {"eps": "0.20", "method": "off"}
    assert read.endpoint == spec.Endpoint("train/accuracy", 5, "min", 0.0)
