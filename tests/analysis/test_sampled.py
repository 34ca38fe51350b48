"""Effects of samples: against another least squares, on sweeps whose effects are known, and what cells leave open."""

import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api

from analysis import averaged, figures, html, load, markdown, plot_factors, report, sampled, terminal, verdict
from harness import store
from harness.sweep import design, spec
from tests.analysis.conftest import change_manifest, write_sweep

AXES = {
    "advantage": ["group_z", "batch_z", "group_mean_batch_std"],
    "weight": ["sequence_mean", "token_mean"],
    "warm": ["0", "1"],
    "decay": ["0.0", "0.1"],
}
KEYS = {"advantage": "tricks.advantage", "weight": "tricks.weight"}
KEYS |= {"warm": "train.warmup_steps", "decay": "train.weight_decay"}
GAINS = {("advantage", "batch_z"): 1 / 32, ("advantage", "group_mean_batch_std"): -1 / 64}
GAINS |= {("weight", "token_mean"): 1 / 128, ("warm", "1"): 0.0, ("decay", "0.1"): 1 / 16}
Score = Callable[[dict[str, str], int], float]


def added(labels: dict[str, str], seed: int) -> float:
    """Effects that add up, exact in binary, around a level per seed."""
    return 0.5 + seed / 16 + math.fsum(GAINS.get(at, 0.0) for at in labels.items())


def sample(root: Path, size: int, score: Score = added, seeds: int = 3, models: int = 1, **manifest: object) -> Path:
    """A finished sweep of `size` of the 24 combinations, as the sweep wing draws and describes them, within models."""
    where = ["small_base", "large_base"][:models]
    axes = "\n".join(f"  {name}: {{key: {KEYS[name]}, values: [{', '.join(AXES[name])}]}}" for name in AXES)
    first = {name: names[0] for name, names in AXES.items()}
    file = root / "spec.yaml"
    file.write_text(
        f"question: q?\naxes:\n  model: [{', '.join(where)}]\n{axes}\n"
        f"design: {{kind: sample, size: {size}, within: [model]}}\nbaseline: {json.dumps(first)}\n"
    )
    made = spec.read(file)
    points = [tuple(level.label for level in at) for at in design.assignments(made.design, made.axes, made.baseline)]

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": score(labels, seed), "eval/length": 20.0, "policy/entropy": 0.3}

    plain = {"figures": ["main_effects"], "design": design.described(made), "keys": {"model": "model"} | KEYS}
    every = {"model": where} | AXES
    return write_sweep(
        root, every, made.baseline, curve, seeds, 20, 10, lambda at: tuple(at.values()) in points, **(plain | manifest)
    )


def judged(root: Path) -> dict[tuple[str, str], verdict.Contrast]:
    found = verdict.judge(load.load(root, "made"))
    return {(c.axis, c.arm): c for c in found if (c.metric, c.read) == ("eval/accuracy", "last")}


# -- one fit -------------------------------------------------------------------------------------------------------


def test_an_effect_is_the_coefficient_of_another_least_squares() -> None:
    generator = np.random.default_rng(1)
    cells = [
        sampled.Cell({"a": a, "b": b}, [load.Entry(f"{a}{b}-{seed}", seed, "done", {}) for seed in range(4)])
        for a, b in (("0", "0"), ("1", "0"), ("2", "1"), ("0", "1"), ("1", "1"), ("2", "0"), ("1", "2"))
    ]
    numbers = {entry.run: float(generator.normal()) for cell in cells for entry in cell.runs}
    fit = sampled.fit({}, cells, {"a": ["0", "1", "2"], "b": ["0", "1", "2"]}, numbers)
    columns = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    assert fit.columns == columns
    rows = [(cell, entry) for cell in cells for entry in cell.runs]
    ones = [[*(cell.labels[a] == v for a, v in columns), *(e.seed == s for s in range(4))] for cell, e in rows]
    other = statsmodels.api.OLS([numbers[e.run] for _, e in rows], np.array(ones, float)).fit()  # seeds as blocks
    assert [np.mean(sampled.pair(fit, column).differences) for column in columns] == pytest.approx(other.params[:4])
    last = statsmodels.api.OLS(
        [numbers[cell.runs[3].run] for cell in cells],
        statsmodels.api.add_constant(np.array([[cell.labels[a] == v for a, v in columns] for cell in cells], float)),
    ).fit()
    assert [sampled.pair(fit, column).differences[3] for column in columns] == pytest.approx(last.params[1:])
    between = sampled.pair(fit, ("a", "2"), ("a", "1"))
    assert between.differences[3] == pytest.approx(last.params[2] - last.params[1])
    assert between.arm_mean - between.baseline_mean == pytest.approx(np.mean(between.differences))


def test_by_hand_three_cells_of_two_axes() -> None:
    # y(off, off) = 1, y(on, off) = 4, y(on, on) = 6: a adds 3 and b adds 2; off b, the three cells' mean is 11/3 - 2/3
    ones = np.array([[1.0, 0, 0], [1, 1, 0], [1, 1, 1]])
    assert sampled.solved(ones, np.array([1.0, 4, 6])) == pytest.approx([1, 3, 2])
    cells = [sampled.Cell({"a": a, "b": b}, [load.Entry(a + b, 0, "done", {})]) for a, b in ("00", "10", "11")]
    fit = sampled.fit({}, cells, {"a": ["0", "1"], "b": ["0", "1"]}, {"00": 1.0, "10": 4.0, "11": 6.0})
    b = sampled.pair(fit, ("b", "1"))
    assert (b.baseline_mean, b.arm_mean, b.missing) == pytest.approx((3.0, 5.0, 0))


def test_what_the_cells_do_not_tell_apart_is_open_and_the_rest_is_not() -> None:
    ones = np.array([[1.0, 0, 0, 0], [1, 1, 1, 0], [1, 0, 0, 1], [1, 1, 1, 1]])  # a and b always together
    found = sampled.solved(ones, np.array([1.0, 2, 4, 5]))
    assert np.isnan(found).tolist() == [False, True, True, False]
    assert (found[0], found[3]) == pytest.approx((1.0, 3.0))


# -- sweeps whose effects are known --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [9, 14, 24])
def test_true_effects_that_add_up_are_found_exactly(tmp_path: Path, size: int) -> None:
    found = judged(sample(tmp_path, size))
    assert {at: c.effect.mean for at, c in found.items() if c.effect} == pytest.approx(GAINS)
    words = {gain: "trick" if gain > 0 else "trap" if gain < 0 else "neutral" for gain in GAINS.values()}
    assert {at: c.word for at, c in found.items()} == {at: words[gain] for at, gain in GAINS.items()}
    assert all(c.effect and c.effect.n == 3 for c in found.values())


def test_of_all_combinations_it_is_the_plain_difference_of_means(tmp_path: Path) -> None:
    def score(labels: dict[str, str], seed: int) -> float:
        own = np.random.default_rng([seed, *map(ord, "".join(labels.values()))]).normal(0, 0.01)
        return 0.5 + (labels["advantage"] == "batch_z") * (labels["warm"] == "1") / 8 + float(own)

    found = judged(sample(tmp_path, 24, score))
    names = list(AXES)
    for axis, arm in GAINS:
        means = {level: [] for level in AXES[axis]}  # type: dict[str, list[float]]
        for at in product(*AXES.values()):
            labels = {"model": "small_base"} | dict(zip(names, at, strict=True))
            means[labels[axis]] += [score(labels, seed) for seed in range(3)]
        effect = found[axis, arm].effect
        assert effect and effect.mean == pytest.approx(np.mean(means[arm]) - np.mean(means[AXES[axis][0]]))


def test_intervals_cover_the_true_effect(tmp_path: Path) -> None:
    generator, cells, covered = np.random.default_rng(4), sample(tmp_path, 10, seeds=4), 0
    sweep = load.load(cells, "made")
    of = sampled.design(sweep) or {}
    truth = {entry.run: added(entry.labels, entry.seed) for entry in sweep.runs}
    for _ in range(150):
        numbers = {run: value + float(generator.normal(0, 0.02)) for run, value in truth.items()}
        (fit,) = sampled.fits(sweep, of, numbers)
        for at, gain in GAINS.items():
            effect = verdict.stats.paired(sampled.pair(fit, at).differences)
            covered += effect.low < gain < effect.high
    assert 0.92 < covered / 750 < 0.98


def test_each_place_is_fitted_by_itself(tmp_path: Path) -> None:
    def score(labels: dict[str, str], seed: int) -> float:
        sign = 1 if labels["model"] == "small_base" else -1
        return 0.5 + seed / 16 + sign * (labels["decay"] == "0.1") / 16 + 0.001 * seed * (labels["decay"] == "0.1")

    found = verdict.judge(load.load(sample(tmp_path, 9, score, models=2), "made"))
    words = {c.stratum["model"]: c.word for c in found if (c.axis, c.read) == ("decay", "last")}
    assert words == {"small_base": "trick", "large_base": "trap"}


def test_of_a_seed_that_lacks_a_cell_the_others_are_fitted(tmp_path: Path) -> None:
    root = sample(tmp_path, 14)
    lost = next(entry for entry in load.load(root, "made").runs if entry.seed == 2)
    store.Run(root / "runs" / lost.run).write_status("diverged")
    found = judged(root)
    assert {at: c.effect.mean for at, c in found.items() if c.effect} == pytest.approx(GAINS)
    assert all(c.effect and c.effect.n == 3 for c in found.values())


def test_runs_that_the_spec_includes_beside_a_sample_are_none_of_it(tmp_path: Path) -> None:
    root = sample(tmp_path, 9)
    manifest = json.loads((root / "sweeps/made/manifest.json").read_text())
    twin = [run | {"run": f"f{run['run'][1:]}", "labels": run["labels"] | {"extra": "1"}} for run in manifest["runs"]]
    for run in twin:
        store.Run(root / "runs" / run["run"]).path.mkdir()
    before = judged(root)
    change_manifest(root, runs=[*manifest["runs"], *twin])
    assert judged(root) == before


# -- what is said --------------------------------------------------------------------------------------------------


def test_every_report_has_the_effects_in_one_table(tmp_path: Path) -> None:
    root = sample(tmp_path, 14)
    printed = terminal.verdict(root, "made")
    assert max(map(len, printed.splitlines())) <= 100
    flat = " ".join(printed.split())
    assert "A sample: 14 of all combinations. Each number is an arm's effect over whatever the other arms are" in flat
    assert "main effects on eval/accuracy in points" in flat and "decay 0.1" in flat and "Not estimable" not in flat
    assert "Effects are fitted within a seed (3 planned)" in flat and "paired by seed" not in flat
    assert "| advantage batch_z |" in markdown.write(root, "made").read_text()
    assert "+3.1" in html.write(root, "made").read_text()


def test_arms_that_the_cells_leave_open_are_named(tmp_path: Path) -> None:
    root = sample(tmp_path, 3)
    found, said = judged(root), report.remarks(report.judged(load.load(root, "made")))
    open_ = [f"{axis} {arm}" for (axis, arm), c in found.items() if c.effect is None]
    assert open_ and f"Not estimable from these cells: {', '.join(open_)}." in said
    assert all(c.word == "description only" for c in found.values() if c.effect is None)


def test_claims_are_tested_by_the_effects_of_a_sample(tmp_path: Path) -> None:
    root = sample(tmp_path, 14, claims=["T1", "T2", "T7", "T8"])
    found = {claim.id: claim for claim in report.judged(load.load(root, "made")).claims}
    (first,), (second,) = found["T1"].findings, found["T7"].findings
    assert first.effect and first.effect.mean == pytest.approx(-1 / 32)  # group_z less batch_z
    assert first.what == "advantage group_z - batch_z, over the sampled levels of the others"
    assert (first.outcome, found["T1"].word) == ("contradicted", "contradicted")
    assert second.effect and second.effect.mean == pytest.approx(1 / 128) and second.stratum == {}
    assert found["T7"].word == "supported"
    assert found["T2"].word == "not testable here" and "batch_mean and batch_z" in found["T2"].why
    assert found["T8"].word == "not testable here"


def test_figures_have_the_effects_of_the_verdict(tmp_path: Path) -> None:
    root = sample(tmp_path, 9)
    data = plot_factors.table(load.load(root, "made")).set_index(["axis", "arm"])
    assert {at: data.loc[at, "mean"] / 100 for at in GAINS} == pytest.approx(GAINS)
    assert set(data["n"]) == {3}
    drawn = figures.of_sweep(load.load(root, "made"), "main_effects")
    assert drawn and "other arms at the levels that were sampled" in drawn.caption
    sides = averaged.sides(load.load(root, "made"), "decay")
    assert [len(side.ours) + len(side.theirs) for side in sides] == [9 * 3]


def test_other_designs_are_none_of_it(four_words: Path) -> None:
    sweep = load.load(four_words, "made")
    assert not averaged.of(sweep) and averaged.axes(sweep) == {} and averaged.sides(sweep, "arm") == []
