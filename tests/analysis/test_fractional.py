"""Effects of fractions by hand and on sweeps whose true effects are known; what is confounded shows, and is named."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from analysis import (
    factors,
    figures,
    fractional,
    html,
    latex,
    load,
    markdown,
    plot_factors,
    report,
    stats,
    terminal,
    verdict,
)
from harness import store
from harness.sweep import design, spec
from tests.analysis.conftest import change_manifest, write_sweep
from tests.analysis.pages import Page

KEYS = {"a": "train.lr: 3e-4", "b": "train.steps: 3", "c": "train.warmup_steps: 1", "d": "train.weight_decay: 0.3"}
KEYS |= {"e": "train.max_grad_norm: 0.3"}
Score = Callable[[dict[str, bool], str, int], float]  # factor -> whether it is on, the model, the seed -> the score


def fraction(
    root: Path, words: str, names: str, score: Score, seeds: int = 3, models: int = 1, **manifest: object
) -> Path:
    """A finished sweep of the factors `names`, off or on, by the design that `words` ask for, within models."""
    axes = "\n".join(f"  {name}: {{off: {{}}, on: {{{KEYS[name]}}}}}" for name in names)
    file = root / "spec.yaml"
    where = ["small_base", "large_base"][:models]
    file.write_text(
        f"question: q?\naxes:\n  model: [{', '.join(where)}]\n{axes}\n"
        f"design: {{kind: fractional, {words}, within: [model]}}\n"
    )
    made = spec.read(file)
    points = [
        tuple(level.label for level in levels) for levels in design.assignments(made.design, made.axes, made.baseline)
    ]

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        on = {name: labels[name] == "on" for name in names}
        value = score(on, labels["model"], seed)
        return {
            "eval/accuracy": value,
            "eval/length": 20.0 + 10.0 * on[names[0]],
            "policy/entropy": 0.3 + 0.1 * on[names[0]],
        }

    levels = {axis.name: [level.label for level in axis.levels] for axis in made.axes}
    plain = {"figures": ["main_effects"], "design": design.described(made)}
    return write_sweep(
        root, levels, made.baseline, curve, seeds, 20, 10, lambda at: tuple(at.values()) in points, **(plain | manifest)
    )


def main_effects(root: Path, read: str = "last") -> dict[str, verdict.Contrast]:
    found = verdict.judge(load.load(root, "made"))
    return {c.axis: c for c in found if c.metric == "eval/accuracy" and c.read == read}


def plain(page: Path) -> str:
    """A page without its tags."""
    return re.sub(r"<[^>]+>", "", page.read_text())


def noise(*key: int) -> float:
    return float(np.random.default_rng(key).normal(0, 0.004))


# -- one contrast --------------------------------------------------------------------------------------------------


def test_an_effect_is_the_difference_of_two_halves_seed_by_seed() -> None:
    block = np.array([[1.0, 3.0], [3.0, 3.0], [5.0, 7.0], [9.0, 9.0]])  # four rows, two of three seeds
    a, b, both = (fractional.by_seed(block, signs, 3) for signs in ((-1, -1, 1, 1), (-1, 1, -1, 1), (1, -1, -1, 1)))
    assert (a.differences, a.arm_mean, a.baseline_mean, a.missing) == ([5.0, 5.0], 7.5, 2.5, 1)
    assert (b.differences, both.differences) == ([3.0, 1.0], [1.0, 1.0])
    none = fractional.by_seed(np.empty((4, 0)), (-1, 1, -1, 1), 3)
    assert none.differences == [] and math.isnan(none.arm_mean) and none.missing == 3


def test_intervals_hold_where_an_effect_varies_from_seed_to_seed() -> None:
    rng, signs, low = np.random.default_rng(3), np.array([-1, 1, -1, 1]), 0
    for _ in range(1000):
        own = rng.normal(0, 1, 3) * signs[:, None] + rng.normal(0, 1, (4, 3))  # no effect in the mean
        low += stats.paired(fractional.by_seed(own, signs.tolist(), 3).differences).p < 0.05
    assert 30 <= low <= 72  # 50 expected, standard error 7


# -- sweeps whose effects are known --------------------------------------------------------------------------------


def test_true_main_effects_are_found_exactly(tmp_path: Path) -> None:
    def score(on: dict[str, bool], model: str, seed: int) -> float:
        return 0.5 + seed / 16 + on["a"] / 32 - on["b"] / 64 + on["d"] / 128  # exact in binary: nothing is rounded

    found = main_effects(fraction(tmp_path, "runs: 8", "abcd", score))
    assert [found[name].effect.mean for name in "abcd"] == [1 / 32, -1 / 64, 0.0, 1 / 128]  # type: ignore[union-attr]
    assert [found[name].word for name in "abcd"] == ["trick", "trap", "neutral", "trick"]
    assert {c.effect.n for c in found.values() if c.effect} == {3} and {c.confounded for c in found.values()} == {""}
    # without d: .5 + 1/16 and half of a and b on top
    assert (found["d"].baseline_mean, found["d"].arm_mean) == (0.5625 + 1 / 128, 0.5625 + 1 / 64)
    assert found["a"].length_change == pytest.approx(0.5) and found["b"].length_change == pytest.approx(0.0)


def planted(on: dict[str, bool], model: str, seed: int) -> float:
    """a and b help together or not at all: an interaction of 1/32, and main effects of 1/32 each."""
    return 0.5 + seed / 16 + (on["a"] and on["b"]) / 16


def test_an_interaction_moves_the_main_effect_that_it_is_confounded_with(tmp_path: Path) -> None:
    found = main_effects(fraction(tmp_path, "generators: [c = a*b]", "abc", planted))
    assert [found[name].effect.mean for name in "abc"] == [1 / 32] * 3  # type: ignore[union-attr]
    assert [found[name].confounded for name in "abc"] == ["(+ b:c)", "(+ a:c)", "(+ a:b)"]


def test_its_sign_is_that_of_the_generator(tmp_path: Path) -> None:
    found = main_effects(fraction(tmp_path, "generators: [c = -a*b]", "abc", planted))
    assert found["c"].effect and found["c"].effect.mean == -1 / 32
    assert found["c"].confounded == "(- a:b)" and found["c"].word == "trap"  # which it is not: the report says so


def test_at_resolution_four_the_interaction_is_told_from_main_effects(tmp_path: Path) -> None:
    root = fraction(tmp_path, "resolution: IV", "abcd", planted)
    found = main_effects(root)
    assert [found[name].effect.mean for name in "abcd"] == [1 / 32, 1 / 32, 0, 0]  # type: ignore[union-attr]
    judged = report.judged(load.load(root, "made"))
    pairs = {c.axis: c for c in judged.interactions if (c.read, c.metric) == ("last", "eval/accuracy")}
    assert {name: c.effect.mean for name, c in pairs.items() if c.effect} == {"a:b": 1 / 32, "a:c": 0, "a:d": 0}
    assert (pairs["a:b"].word, pairs["a:b"].confounded, pairs["a:c"].word) == ("higher", "(+ c:d)", "neutral")
    assert (pairs["a:b"].baseline_mean, pairs["a:b"].arm_mean) == (0.5625, 0.5625 + 1 / 32)


def test_a_fraction_recovers_the_main_effects_of_the_full_factorial(tmp_path: Path) -> None:
    def score(on: dict[str, bool], model: str, seed: int) -> float:
        own = noise(seed, *(int(value) for value in on.values()))
        return 0.4 + 0.05 * seed + 0.03 * on["a"] - 0.02 * on["b"] + 0.02 * (on["c"] == on["e"]) + own

    (tmp_path / "half").mkdir()
    found = main_effects(fraction(tmp_path / "half", "resolution: V", "abcde", score, seeds=4))
    for name in "abcde":
        full = []
        for number in range(32):
            on = {key: bool(number >> place & 1) for place, key in enumerate("abcde")}
            full += [(1 if on[name] else -1) * score(on, "", seed) / 16 / 4 for seed in range(4)]
        effect = found[name].effect
        assert effect is not None and effect.low < math.fsum(full) < effect.high, name


def opposed(on: dict[str, bool], model: str, seed: int) -> float:
    """a helps one model and hurts the other, with a scatter of its own for each run."""
    sign = 1 if model == "small_base" else -1
    return 0.4 + 0.05 * seed + sign * 0.03 * on["a"] + noise(seed, sign + 1, *(int(value) for value in on.values()))


def test_effects_are_judged_in_each_place_and_whether_they_depend_on_it(tmp_path: Path) -> None:
    root = fraction(tmp_path, "runs: 4", "abc", opposed, seeds=4, models=2, figures=["main_effects", "interactions"])
    sweep = load.load(root, "made")
    words = {(c.axis, c.stratum["model"]): c.word for c in verdict.judge(sweep) if c.read == "last"}
    assert (words["a", "small_base"], words["a", "large_base"]) == ("trick", "trap")
    found = factors.analyse(sweep, "a")
    assert found.factors == ("a", "model") and "4 seeds, 32 runs" in found.says
    by = {term.factors: term.p for term in found.terms}
    assert by["a", "model"] < 0.001 < 0.05 < by["a",]
    table = plot_factors.table(sweep).set_index(["axis", "by", "level"])
    assert table.loc[("a", "model", "small_base"), "mean"] == pytest.approx(3.0, abs=0.5)  # points
    assert table.loc[("a", "all", "all"), "low"] < 0 < table.loc[("a", "all", "all"), "high"]
    assert set(table["confounded"]) == {"(- b:c)", "(- a:c)", "(- a:b)"}
    assert len(figures.draw(root, "made")) == 3


def test_a_seed_without_one_of_its_runs_is_left_out_and_said_so(tmp_path: Path) -> None:
    root = fraction(tmp_path, "runs: 4", "abc", planted, seeds=4)
    lost = next(e for e in load.load(root, "made").runs if e.seed == 2)
    store.Run(root / "runs" / lost.run).write_status("diverged")
    found = main_effects(root)["a"]
    assert found.effect and found.effect.n == 3 and found.missing_pairs == 1
    said = report.remarks(report.judged(load.load(root, "made")))
    expected = f"1 seed of 4 left out: an effect takes all 4 runs of a seed, and run {lost.run} is diverged, for one."
    assert expected in said and not any("pairs that survived" in sentence for sentence in said)


def test_runs_that_the_spec_includes_beside_a_fraction_are_none_of_it(tmp_path: Path) -> None:
    root = fraction(tmp_path, "runs: 4", "abc", planted)
    manifest = json.loads((root / "sweeps/made/manifest.json").read_text())
    twin = [
        run | {"run": f"f{run['run'][1:]}", "cell": "f", "labels": run["labels"] | {"extra": "1"}}
        for run in manifest["runs"]
    ]
    for run in twin:
        store.Run(root / "runs" / run["run"]).path.mkdir()
    before = main_effects(root)
    change_manifest(root, runs=[*manifest["runs"], *twin])
    assert main_effects(root) == before


def test_under_three_seeds_there_is_no_verdict(tmp_path: Path) -> None:
    found = main_effects(fraction(tmp_path, "runs: 4", "abc", planted, seeds=2))
    assert {(c.word, c.seeds_more) for c in found.values()} == {("description only", 1)}
    assert all(math.isnan(c.p_holm) for c in found.values())


# -- what is said --------------------------------------------------------------------------------------------------


def test_every_report_names_what_an_effect_cannot_be_told_from(tmp_path: Path) -> None:
    root = fraction(tmp_path, "runs: 4", "abc", opposed, claims=["T4"])
    printed = terminal.verdict(root, "made")
    assert max(map(len, printed.splitlines())) <= 100
    flat = " ".join(printed.split())
    assert "A fraction: 4 of 8 combinations, resolution III (c = -a*b)." in flat
    assert "An arm with the others at their baseline is not compared: a fraction lacks those runs" in flat
    assert "Claims on one of its arms are tested by the arm's effect, over both levels of the others" in flat
    assert "Nothing to compare" not in flat and "main effects on eval/accuracy" in flat
    for text in (flat, markdown.write(root, "made").read_text(), plain(html.write(root, "made"))):
        assert all(f"on {beside}" in " ".join(text.split()) for beside in ("(- b:c)", "(- a:c)", "(- a:b)"))
    tables = {path.stem: path.read_text() for path in latex.write(root, "made")}
    assert "on (- b:c)" in tables["verdict_a"]
    told = json.loads((root / "sweeps/made/verdict.json").read_text())
    assert told["design"]["resolution"] == "III" and told["contrasts"][0]["confounded"] == "(- b:c)"


def test_many_confounded_effects_stand_below_their_own(tmp_path: Path) -> None:
    root = fraction(tmp_path, "runs: 8", "abcde", planted)
    lines = [line.strip() for line in terminal.verdict(root, "made").splitlines()]
    first = next(i for i, line in enumerate(lines) if line.startswith("a on"))
    assert not any("…" in line for line in lines)
    named = load.load(root, "made").manifest["design"]["classes"][0]
    assert len(named) >= 2 and all(":".join(effect) in " ".join(lines[first : first + 3]) for _, effect in named[1:])


def test_interactions_have_tables_of_their_own(tmp_path: Path) -> None:
    root = fraction(tmp_path, "resolution: IV", "abcd", planted, models=2)
    assert "a:b (+ c:d)" in terminal.verdict(root, "made")
    rows = [row for row in markdown.write(root, "made").read_text().splitlines() if "| a:b (+ c:d) |" in row]
    assert rows[0].startswith("| small_base | a:b (+ c:d) | 56.2 → 59.4 | +3.1 [")
    path = html.write(root, "made")
    assert "Two-factor interactions" in plain(path)
    assert next(row[0] for row in Page(path.read_text()).rows if row[0].startswith("a:b")) == "a:b (+ c:d)"


def test_a_line_of_a_fraction_is_the_mean_of_its_runs_seed_by_seed(tmp_path: Path) -> None:
    root = fraction(tmp_path, "runs: 4", "abc", planted, figures=["accuracy_by_a"])
    (path, *_) = figures.draw(root, "made")
    rows = [line.split(",") for line in path.with_suffix(".csv").read_text().splitlines()]
    first = dict(zip(rows[0], rows[1], strict=True))
    # off: 50 56.25 62.5 points by seed, whatever b is
    assert (first["a"], first["n"], float(first["mean"])) == ("off", "3", pytest.approx(56.25))
    assert float(first["high"]) == pytest.approx(56.25 + 4.3027 * 6.25 / math.sqrt(3), rel=1e-4)


# -- one at a time from both ends ----------------------------------------------------------------------------------


def test_from_both_ends_an_arm_is_judged_alone_and_in_the_whole_stack(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        on = [labels[name] == "on" for name in "xyzw"]
        return {"eval/accuracy": 0.4 + 0.05 * seed + 0.03 * (on[0] and not on[1]) - 0.02 * (on[0] and on[1])}

    def planned(labels: dict[str, str]) -> bool:
        return [labels[name] for name in "xyzw"].count("on") in (0, 1, 3, 4)  # each alone, each left out

    axes = {name: ["off", "on"] for name in "xyzw"}
    root = write_sweep(tmp_path, axes, dict.fromkeys("xyzw", "off"), curve, 3, 20, 10, planned)
    found = {
        tuple(c.stratum.items()): c.word
        for c in verdict.judge(load.load(root, "made"))
        if c.axis == "x" and c.read == "last" and c.metric == "eval/accuracy"
    }
    assert found == {(): "trick", (("y", "on"), ("z", "on"), ("w", "on")): "trap"}
