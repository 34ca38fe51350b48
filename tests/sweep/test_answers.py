"""What each answer of a plan compares, takes and can show: against the analysis that judges it, and by hand."""

import io
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from analysis import claims, fractional, load, scores
from harness import store
from harness.sweep import answers, contrasts, estimate, plan, power, present, spec
from harness.sweep.contrasts import Comparison, Grid
from harness.sweep.plan import Plan

REPOSITORY = Path(__file__).resolve().parents[2]
SPECS = ("paper_mini", "clip_higher", "fractional")  # one at a time with conditions and inclusions, full, a fraction
Write = Callable[..., Path]

TWO_PLACES = """
question: q?
base: {model: small_base}
axes:
  data: [easy, hard]
  rate: {key: train.lr, values: [1e-4, 2e-4, 3e-4, 4e-4]}
  steps: {key: train.steps, values: [5, 10], when: rate == 1e-4}
seeds: 4
baseline: {rate: 1e-4, steps: 5}
"""


def made(write: Write, root: Path, text: str = TWO_PLACES, *words: str, name: str = "") -> Plan:
    return plan.of(spec.read(write(text), words), root, name)


def cells(weights: tuple[tuple[str, float], ...], sign: int) -> frozenset[str]:
    return frozenset(cell for cell, weight in weights if weight * sign > 0)


# -- what is compared ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPECS)
def test_a_plan_counts_the_comparisons_that_the_analysis_judges(name: str, no_weights: None, tmp_path: Path) -> None:
    manifest = plan.manifest(plan.of(spec.read(REPOSITORY / "grid_specs" / f"{name}.yaml"), tmp_path))
    grid = Grid(manifest)
    sweep = load.load(tmp_path, name, set(), manifest)
    sides = fractional.sides if fractional.design(sweep) else scores.sides

    def of(entries: list[load.Entry]) -> frozenset[str]:
        return frozenset(entry.run.rsplit("-s", 1)[0] for entry in entries)

    for axis, found in contrasts.arms(grid).items():
        judged = Counter((of(side.ours), of(side.theirs)) for side in sides(sweep, axis))
        assert Counter((cells(c.weights, 1), cells(c.weights, -1)) for c in found) == judged
    known = claims.known()
    for claim in claims.check(sweep):
        assert len(contrasts.tested(grid, known[claim.id]).all) == len(claim.findings), claim.id


def test_a_comparison_spreads_as_its_weights_say() -> None:
    assert Comparison((("a", 1.0), ("b", -1.0))).spread == pytest.approx(math.sqrt(2))
    grid = Grid(
        {
            "axes": {"x": ["0.2", "0.24", "0.28", "0.32"]},
            "baseline": {"x": "0.2"},
            "control": [],
            "keys": {"x": "x"},
            "endpoint": {"metric": "eval/accuracy"},
            "runs": [{"run": f"c{x}-s0", "cell": f"c{x}", "labels": {"x": x}} for x in ("0.2", "0.24", "0.28", "0.32")],
        }
    )
    test = {"key": "x", "metric": "eval/accuracy", "expect": "increasing"}
    (rise,) = contrasts.tested(grid, {"tests": [test]}).on_endpoint
    # by hand, in steps of one level: x - mean = -1.5 -.5 .5 1.5, Σ² = 5, range 3: weights 3/5 of them, √(9/25 · 5)
    assert dict(rise.weights) == pytest.approx({"c0.2": -0.9, "c0.24": -0.3, "c0.28": 0.3, "c0.32": 0.9})
    assert rise.spread == pytest.approx(3 / math.sqrt(5))


def test_an_effect_of_a_fraction_is_read_off_all_rows(write: Write, no_weights: None, tmp_path: Path) -> None:
    text = "question: q?\naxes:\n" + "".join(
        f"  {name}: {{key: train.{key}, values: {values}}}\n"
        for name, key, values in (
            ("rate", "lr", "[1e-4, 2e-4]"),
            ("warm", "warmup_steps", "[0, 1]"),
            ("decay", "weight_decay", "[0.0, 0.1]"),
            ("beta", "beta1", "[0.8, 0.9]"),
        )
    )
    fraction = made(write, tmp_path, text + "design: {kind: fractional, runs: 8}\nseeds: 3\n")
    found = contrasts.arms(Grid(plan.manifest(fraction)))
    assert set(found) == {"rate", "warm", "decay", "beta"}
    (effect,) = found["rate"]
    assert sorted(weight for _, weight in effect.weights) == [-0.25] * 4 + [0.25] * 4
    assert effect.spread == pytest.approx(math.sqrt(2) / 2)  # a quarter of the variance of two runs' difference
    rows = answers.of(fraction, estimate.rates(fraction))
    assert rows is not None and {(row.compared, row.runs) for row in rows.rows} == {(1, 24)}


# -- what it can show ----------------------------------------------------------------------------------------------


def finish(root: Path, made: Plan, differences: dict[tuple[str, str], list[float]]) -> None:
    """The runs at the first two rates end: .5 at the baseline, more by the differences, seed by seed, at 2e-4."""
    for run in made.expansion.runs():
        at = run.labels["data"], run.labels["rate"]
        if (at[0], "2e-4") not in differences or at[1] not in ("1e-4", "2e-4") or run.labels.get("steps") == "10":
            continue
        value = 0.5 + (differences[at][run.seed] if at in differences else 0.0)
        evals = [[0, 0.1], [5, value - 0.2], [10, value + 0.2]]  # the last two count
        store.create_run(root, run.config).write_status("done", step=10, steps=10, seconds=60.0, evals=evals)


KNOWN = {("easy", "2e-4"): [0.0, 0.02, 0.0, 0.02], ("hard", "2e-4"): [0.01, 0.01, 0.05, 0.05]}
# Σ(d - mean)² in points²: 4 and 16, on three degrees of freedom each
SD = math.sqrt(20 / 6) / 100


def test_the_scatter_is_that_of_finished_pairs(write: Write, no_weights: None, tmp_path: Path) -> None:
    finish(tmp_path, made(write, tmp_path), KNOWN)
    now = made(write, tmp_path)
    found = answers.of(now, estimate.rates(now))
    assert found is not None
    assert found.scatter.pair == pytest.approx(SD)
    assert found.scatter.source == "from 8 finished pairs of this sweep"


def test_pairs_of_other_sweeps_of_the_same_endpoint_count_where_one_has_few(
    write: Write, no_weights: None, tmp_path: Path
) -> None:
    first = made(write, tmp_path, TWO_PLACES, name="first")
    plan.commit(first)
    finish(tmp_path, first, KNOWN)
    longer = TWO_PLACES.replace("small_base", "large_base")
    now = made(write, tmp_path, longer)
    found = answers.of(now, estimate.rates(now))
    assert found is not None and found.scatter.pair == pytest.approx(SD)
    assert found.scatter.source == "from 8 finished pairs of sweeps here"
    other = made(write, tmp_path, longer + "endpoint: {last: 3, sd: 0.04}\n")
    found = answers.of(other, estimate.rates(other))
    assert found is not None and (found.scatter.pair, found.scatter.source) == (pytest.approx(0.04), "endpoint.sd")


@pytest.mark.parametrize(("end", "sd"), [("", 0.09), ("endpoint: {metric: policy/entropy}\n", math.nan)])
def test_before_anything_has_finished_only_what_was_measured_is_taken(
    end: str, sd: float, write: Write, no_weights: None, tmp_path: Path
) -> None:
    now = made(write, tmp_path, TWO_PLACES + end)
    found = answers.of(now, estimate.rates(now))
    assert found is not None and found.scatter.pair == pytest.approx(sd, nan_ok=True)
    # six comparisons of `rate`, in four seeds; where nothing is known in standard deviations
    assert found.rows[0].finds == (pytest.approx(power.smallest(1.0 if math.isnan(sd) else sd, 4, 6)),)


def test_the_smallest_effect_is_found_in_four_of_five(write: Write) -> None:
    """By simulation: normal differences of that mean, tested as the verdict tests the smallest of a family."""
    import numpy as np
    from scipy import stats

    from analysis import sequential

    generator = np.random.default_rng(0)
    for n, family, most in ((10, 1, None), (5, 4, None), (3, 1, None), (10, 2, 10), (6, 1, 10)):
        effect = power.smallest(0.03, n, family, most)
        draws = generator.normal(effect, 0.03, (40_000, n))
        t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / math.sqrt(n))
        level = 0.05 / family
        bound = sequential.critical(n, most, level / 2) if most else stats.t.isf(level / 2, n - 1)
        assert (t > bound).mean() == pytest.approx(0.8, abs=0.008), (n, family, most)
    assert math.isnan(power.smallest(0.03, 2, 1))
    assert power.smallest(0.03, 3, 10**6) == math.inf


# -- what it takes -------------------------------------------------------------------------------------------------


def test_runs_and_hours_of_each_answer_by_hand(write: Write, no_weights: None, tmp_path: Path) -> None:
    text = TWO_PLACES + "resources: {minutes: 6}\nclaims: [C10]\n"
    finish(tmp_path, made(write, tmp_path, text), KNOWN)
    now = made(write, tmp_path, text)
    rows = {row.name: row for row in (answers.of(now, estimate.rates(now)) or pytest.fail("no answers")).rows}
    # rate: 4 cells in 2 places, 4 seeds: 32 runs of 6 minutes, of which the baseline's and 2e-4's are done
    rate = rows["rate"]
    assert (rate.compared, rate.runs, rate.done) == (6, 32, 16)
    assert (rate.hours, rate.left) == (pytest.approx(3.2), pytest.approx(1.6))
    # steps: 5 against 10 at the first rate, in 2 places; the baseline's runs count here as well
    steps = rows["steps"]
    assert (steps.compared, steps.runs, steps.done, steps.left) == (2, 16, 8, pytest.approx(0.8))
    # C10: only "hard data make responses longer" has its axis here, and it is not read off the endpoint
    assert (rows["C10"].compared, rows["C10"].runs, rows["C10"].done) == (1, 8, 8)
    assert math.isnan(rows["C10"].finds[0]) and rows["C10"].left == 0


def test_with_stop_an_answer_has_a_range(write: Write, no_weights: None, tmp_path: Path) -> None:
    text = TWO_PLACES + "stop: {when: decided, max_seeds: 10}\nresources: {minutes: 6}\n"
    now = made(write, tmp_path, text)
    found = answers.of(now, estimate.rates(now))
    assert found is not None and found.seeds == (4, 10)
    rate = found.rows[0]
    assert (rate.runs, rate.more_runs, rate.more_hours) == (32, 48, pytest.approx(4.8))
    assert rate.finds[0] > rate.finds[1]
    two = made(write, tmp_path, text.replace("seeds: 4", "seeds: 2"))  # decide nothing: the range begins at three
    found = answers.of(two, estimate.rates(two))
    assert found is not None and found.seeds == (3, 10)
    assert rate.finds[0] < found.rows[0].finds[0] and found.rows[0].runs == 16


def test_a_run_that_was_begun_has_its_rest_left(write: Write, no_weights: None, tmp_path: Path) -> None:
    text = TWO_PLACES + "resources: {minutes: 10}\n"
    start = made(write, tmp_path, text)
    first, second, *_ = start.expansion.runs()
    run = store.create_run(tmp_path, first.config)
    run.write_status("stopped", step=4, steps=5)
    (run.path / "checkpoint" / "step_3").mkdir(parents=True)  # it goes on from here
    with store.create_run(tmp_path, second.config).owned() as mine:
        assert mine is not None
        mine.write_status("running", step=2, steps=10)
        now = made(write, tmp_path, text)
        assert now.states[second.id] == "running"
        steps = second.cell.identity.train.steps
        guess = estimate.of(now, 3)
        whole = len(now.todo()) - 3 / first.cell.identity.train.steps - 2 / steps
        assert guess.cpu_hours == pytest.approx(whole / 6)


def test_runs_are_not_cut_in_parts_to_fill_the_workers(write: Write, no_weights: None, tmp_path: Path) -> None:
    text = "question: q?\naxes: {train.lr: [1e-4]}\nseeds: 5\nresources: {minutes: 60}\n"
    assert estimate.of(made(write, tmp_path, text), 2).wall_hours == pytest.approx(3)  # 2 + 2 + 1, not 2.5


def test_slurm_trains_each_group_of_runs_at_max_concurrent(write: Write, no_weights: None, tmp_path: Path) -> None:
    text = "question: q?\naxes:\n  size: {small: {train.steps: 1, runtime.gpus: 1, runtime.minutes_per_run: 60}, "
    text += "large: {train.steps: 2, runtime.gpus: 8, runtime.minutes_per_run: 120}}\nseeds: 12\n"
    words = ("launcher=slurm", "launcher.max_concurrent=3", "launcher.workers_per_gpu=2", "launcher.workers=5")
    now = made(write, tmp_path, text, *words)
    assert plan.workers(now) == 3 * 2 + 3  # two small runs share a GPU; `workers` is for runs without one
    guess = estimate.of(now, plan.workers(now))
    assert guess.wall_hours == pytest.approx(12 / 3 * 2)  # the large ones; the small ones take 12 / 6 hours beside
    assert guess.gpu_hours == pytest.approx(12 + 12 * 2 * 8)


def test_on_gpus_of_this_machine_there_are_as_many_workers_as_they_hold(
    write: Write, no_weights: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4")
    now = made(write, tmp_path, "question: q?\naxes: {train.lr: [1e-4]}\nseeds: 9\nresources: {gpus: 2}\n")
    assert (plan.workers(now), plan.workers(now, 1)) == (2, 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert plan.workers(now) == 1


# -- how it is shown -----------------------------------------------------------------------------------------------


def shown(now: Plan, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    present.show(now, console, 2)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return [line.rstrip() for line in lines[next(i for i, line in enumerate(lines) if line.startswith("to answer")) :]]


def test_the_table_has_a_line_an_answer_on_narrow_and_wide_terminals(no_weights: None, tmp_path: Path) -> None:
    now = plan.of(spec.read(REPOSITORY / "grid_specs/paper_mini.yaml"), tmp_path)
    for width in (80, 120):
        lines = shown(now, width)
        assert [line.split()[0] for line in lines[1:19]] == [
            *("recipe", "advantage", "eps_high", "weight", "limit", "keep", "reward"),
            *("T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "C9", "C10", "C11"),
        ]
        assert all(len(line) <= width for line in lines[:-1])
        assert lines[0].endswith("left  finds, points")
        assert lines[1].split() == ["recipe", "12", "48", "0", "0.40", "0.40", "over", "100"]
        said = " ".join(" ".join(lines).split())
        assert "a run counts in every answer that needs it" in said
        assert "(sd) of a paired difference: 9.0 points, as in docs/results; nothing has finished here" in said


def test_what_cannot_be_tested_or_decided_is_said(write: Write, no_weights: None, tmp_path: Path) -> None:
    text = TWO_PLACES.replace("seeds: 4", "seeds: 2") + "claims: [T5]\n"
    lines = shown(made(write, tmp_path, text), 100)
    assert next(line for line in lines if line.startswith("T5")).endswith("not testable here")
    assert "under 3 seeds nothing is decided" in " ".join(lines)
    assert not any(line.endswith("points") for line in lines[1:])


@pytest.mark.parametrize("value", ["0", "-1", "wide", "true"])
def test_a_standard_deviation_is_a_number_above_zero(value: str, problems: Callable[..., str]) -> None:
    said = problems(f"question: q?\naxes: {{train.lr: [1e-4]}}\nendpoint: {{sd: {value}}}\n")
    assert "endpoint.sd takes a number above 0, in the metric's unit, not" in said


def test_nothing_is_said_where_nothing_is_compared(write: Write, no_weights: None, tmp_path: Path) -> None:
    now = made(write, tmp_path, "question: q?\naxes: {train.lr: [1e-4, 2e-4]}\n")
    found: Any = answers.of(now, estimate.rates(now))
    assert found is None


def test_a_search_costs_its_trials_and_the_fresh_seeds_of_what_they_choose(
    write: Write, no_weights: None, tmp_path: Path
) -> None:
    text = "question: q?\naxes:\n  steps: {key: train.steps, values: [3, 5]}\n"
    text += "  rate: {key: train.lr, low: 1e-4, high: 1e-3}\nbaseline: {steps: 3}\nseeds: 2\nresources: {minutes: 6}\n"
    now = made(write, tmp_path, text + "design: {kind: search, trials: 3, at_once: 2, within: [steps]}\n")
    assert now.todo() == [] and plan.workers(now, 8) == 4  # two arms, two trials at once
    guess = estimate.of(now, 4)
    assert guess.cpu_hours == pytest.approx(2 * (3 + 2) / 10)
    assert dict(guess.sources) == {"stated": 10}
