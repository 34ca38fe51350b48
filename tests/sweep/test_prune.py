"""`prune` in a spec, and its three rules against numbers worked by hand and against scipy."""

import statistics
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from scipy import stats

from harness.sweep import plan as plans
from harness.sweep import prune, prune_rules, schema
from harness.sweep.grid import Expansion
from harness.sweep.prune import Prune
from harness.sweep.spec import read

PLAIN = "question: q?\naxes: {train.lr: [1e-4, 2e-4, 3e-4, 4e-4, 5e-4]}\nbaseline: {train.lr: 1e-4}\n"
RULE = "prune: {rule: median, after: 10}"


def test_the_spec_takes_it_and_says_what_does_not_fit(problems: Callable[..., str]) -> None:
    for given, said in {
        "median": "prune takes {rule: median | halving | wilcoxon, after: 10}, not 'median'",
        "{rule: medain, after: 1}": "prune.rule takes median, halving, wilcoxon, not 'medain'; did you mean 'median'?",
        "{after: 1}": "prune.rule takes median, halving, wilcoxon, not None",
        "{rule: median}": "prune.after is missing",
        "{rule: median, after: 0}": "prune.after takes a whole number of steps, 1 or more, not 0",
        "{rule: median, after: 1, factor: 2}": "(median takes: rule, after, least)",
        "{rule: halving, after: 1, facter: 3}": "prune: unknown key 'facter'; did you mean 'factor'?",
        "{rule: halving, after: 1, factor: 1}": "prune.factor takes a whole number of parts, 2 or more, not 1",
        "{rule: wilcoxon, after: 1, p: 1}": "prune.p takes a number between 0 and 1, not 1",
    }.items():
        assert said in problems(f"{PLAIN}prune: {given}\n"), given
    assert "every arm is a control" in problems(f"{PLAIN}{RULE}\ncontrol: true\n")
    two = "axes: {train.lr: [1e-4, 2e-4], train.epochs: [1, 2]}\nbaseline: {train.lr: 1e-4}\n"
    fraction = "design: {kind: fractional, generators: []}\n"
    assert "prune stops single runs" in problems(
        f"question: q?\n{two}{RULE}\n{fraction}".replace("[]", '["train.epochs = train.lr"]')
    )


def test_the_command_line_sets_it_and_takes_it_off(write: Callable[..., Path], no_weights: None) -> None:
    path = write(f"{PLAIN}")
    assert read(path).prune is None
    assert read(path, ("prune={rule: halving, after: 4, factor: 3}",)).prune == Prune("halving", 4, factor=3)
    path.write_text(f"{PLAIN}{RULE}\n")
    assert read(path).prune == Prune("median", 10)
    assert read(path, ("prune=null",)).prune is None


def test_the_manifest_names_the_rule_with_its_own_knobs(
    write: Callable[..., Path], tmp_path: Path, no_weights: None
) -> None:
    def told(rule: str) -> object:
        return plans.manifest(plans.of(read(write(f"{PLAIN}{rule}\n")), tmp_path)).get("prune")

    assert told("") is None
    assert told(RULE) == {"rule": "median", "after": 10, "least": 3}
    assert told("prune: {rule: wilcoxon, after: 5}") == {"rule": "wilcoxon", "after": 5, "p": 0.05}


def test_the_plan_says_what_it_does_and_when_it_does_nothing(grid: Callable[..., Expansion]) -> None:
    spec = PLAIN.removeprefix("question: q?\n")
    first = "prune: median after 10 steps; pruned runs count in no statistic"
    assert prune.said(grid(spec)) == []
    assert prune.said(grid(f"{spec}{RULE}\n")) == [first]
    steps = grid(spec).cells[0].identity.train.steps
    late = prune.said(grid(f"{spec}prune: {{rule: halving, after: {steps}}}\n"))
    assert f"nothing will be pruned: no run has more than {steps} steps" in late[1]
    few = prune.said(grid(f"{spec}prune: {{rule: median, after: 10, least: 5}}\n"))
    assert "compared with 4 others at most, and prune.least is 5" in few[1]


def test_an_editor_knows_its_words() -> None:
    offered = schema.schema()["properties"]["prune"]["anyOf"]
    assert {rule["properties"]["rule"]["const"]: set(rule["properties"]) - {"rule", "after"} for rule in offered} == {
        "median": {"least"}, "halving": {"least", "factor"}, "wilcoxon": {"p"},
    }  # fmt: skip


FINISHED = [{10: 0.50, 20: 0.60}, {10: 0.40, 20: 0.52}, {10: 0.30, 20: 0.41}]  # medians .40 and .52


@pytest.mark.parametrize("goal", ["max", "min"])
@pytest.mark.parametrize(
    "mine, stops",
    [
        ({10: 0.39}, True),  # under the median of step 10
        ({10: 0.40}, False),  # at it
        ({10: 0.39, 20: 0.53}, False),  # over that of step 20
        ({10: 0.53, 20: 0.10}, False),  # the best so far counts
        ({10: 0.45, 20: 0.51}, True),
        ({10: 0.39, 15: 0.1}, False),  # nobody else was evaluated there
        ({}, False),
    ],
)
def test_median_by_hand(mine: dict[int, float], stops: bool, goal: prune_rules.Goal) -> None:
    turn = 1 if goal == "max" else -1
    turned = [{step: turn * value for step, value in curve.items()} for curve in (mine, *FINISHED)]
    reason = prune_rules.median(turned[0], turned[1:], Prune("median", 10), goal)
    assert bool(reason) == stops
    assert not prune_rules.median(turned[0], turned[1:3], Prune("median", 10), goal)  # of two it is none yet
    if mine == {10: 0.45, 20: 0.51} and goal == "max":
        assert reason == "best 0.51 up to step 20, median of 3 finished runs there 0.52"


def test_halving_by_hand() -> None:
    """Rungs at steps 10, 20, 40; of four at a rung the best two go on, of five too."""
    knobs = Prune("halving", 10)
    others = [{10: 0.5, 20: 0.6, 40: 0.7}, {10: 0.4, 20: 0.5}, {10: 0.3}]

    def asked(mine: dict[int, float], *more: dict[int, float]) -> str:
        return prune_rules.halving(mine, [*others, *more], knobs, "max")

    assert asked({10: 0.35}) == "0.35 at step 10, not among the best 2 of 4 runs there"
    assert asked({10: 0.45}) == ""
    assert asked({10: 0.45}, {10: 0.46}) != ""  # third of five
    assert asked({10: 0.35, 15: 0.0}) == ""  # between two rungs
    assert asked({10: 0.9, 20: 0.55}) == ""  # two others have come to step 20, and it takes three
    assert asked({10: 0.9, 20: 0.55}, {20: 0.7}) == "0.55 at step 20, not among the best 2 of 4 runs there"
    assert asked({12: 0.35}) != "" and asked({8: 0.0}) == ""  # a rung is the first evaluation from its step on
    down = [{step: -value for step, value in curve.items()} for curve in others]
    assert prune_rules.halving({10: -0.35}, down, knobs, "min") and not prune_rules.halving(
        {10: -0.45}, down, knobs, "min"
    )


def test_wilcoxon_is_scipys_on_pairs_of_seed_and_step() -> None:
    """It stops just where scipy's p is under the threshold, and pairs by seed and step, in whatever order they came."""
    places = [(seed, step) for seed in (0, 1, 2) for step in (10, 20, 30)]
    behind = [0.03, -0.01, 0.05, 0.02, 0.04, -0.02, 0.06, 0.01, 0.07]
    best = {place: 0.5 + 0.1 * place[0] + 0.01 * place[1] for place in places}
    mine = {place: best[place] - gap for place, gap in zip(places, behind, strict=True)}
    p = float(stats.wilcoxon([-gap for gap in behind], alternative="less", zero_method="zsplit").pvalue)
    assert 0.01 < p < 0.05
    worse, better = {place: best[place] - 0.2 for place in places}, {(9, 10): 1.0}
    others = {"third": worse, "best": {place: best[place] for place in reversed(places)}, "elsewhere": better}

    def asked(mine: dict[tuple[int, int], float], threshold: float) -> str:
        return prune_rules.wilcoxon(mine, others, Prune("wilcoxon", 10, p=threshold), "max")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gap = statistics.fmean(behind)
        reason = f"{gap:.4g} behind best on average over 9 pairs of seed and step, p < {1.001 * p:g}"
        assert asked(mine, 1.001 * p) == reason
        assert asked(mine, 0.999 * p) == ""
        assert asked({place: value + 0.1 for place, value in mine.items()}, 0.05) == ""
        assert asked({(0, 10): -1.0}, 0.9) == ""  # one pair says nothing
    falls = {place: -value for place, value in mine.items()}
    against = {"best": {place: -value for place, value in best.items()}}
    assert prune_rules.wilcoxon(falls, against, Prune("wilcoxon", 10, p=0.05), "min")
    mirrored = prune_rules.wilcoxon(against["best"], {"mine": falls}, Prune("wilcoxon", 10, p=0.05), "min")
    assert mirrored == ""
