"""A search read from its run folders: values and states of trials, the best of them, and which axis mattered."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest

from analysis import load, search, search_axes, verdict
from analysis.search import Study, Trial
from harness import store
from tests.analysis import searched
from tests.analysis.conftest import change_manifest
from tests.analysis.searched import Searched, Tried

HIGH, LOW = {"lr": 1e-2, "updates": "4"}, {"lr": 1e-4, "updates": "1"}


def tried(number: int, value: float | None, **params: Any) -> Trial:
    return Trial(number, params, "", (), False, "done" if value is not None else "failed", value, {})


def test_a_value_is_the_mean_of_the_last_evaluations_over_all_seeds(tmp_path: Path) -> None:
    trials = [
        Tried(HIGH, (0.30, 0.34)),
        Tried(LOW, (0.5, 0.9), ("done", "new")),
        Tried(LOW, (0.2, 0.9), ("done", "failed")),
    ]
    root = searched.write(tmp_path, {"plain": Searched(trials)}, seeds=(5, 6))
    (study,) = search.studies(root, "made")
    assert study.labels == {"advantage": "plain"} and study.chosen is None
    assert [trial.state for trial in study.trials] == ["done", "running", "failed"]
    assert study.trials[0].value == pytest.approx(0.32) and study.trials[0].params == HIGH
    assert [trial.value for trial in study.trials[1:]] == [None, None]
    assert study.trials[0].per_seed == pytest.approx({5: 0.30, 6: 0.34})
    assert study.trials[1].per_seed == pytest.approx({5: 0.5})


@pytest.mark.parametrize(
    ("runs", "state"),
    [
        ("done done", "done"),
        ("done new", "running"),
        ("stale done", "running"),
        ("stopped", "running"),
        ("running diverged", "diverged"),
        ("diverged pruned", "pruned"),
        ("pruned failed", "failed"),
        ("done cancelled", "failed"),
    ],
)
def test_the_worst_of_its_runs_is_a_trials_state(runs: str, state: str) -> None:
    assert search.state_of(runs.split()) == state


def test_a_curve_that_is_too_short_has_no_value(tmp_path: Path) -> None:
    root = searched.write(tmp_path, {"plain": Searched([Tried(HIGH, (0.3,))])})
    change_manifest(root, endpoint={"metric": "eval/accuracy", "last": 5, "goal": "max", "margin": 0.01})
    (trial,) = search.studies(root, "made")[0].trials  # four evaluations
    assert (trial.state, trial.value, trial.per_seed) == ("done", None, {})


def test_a_run_that_two_trials_and_the_manifest_name_twice_counts_once(tmp_path: Path) -> None:
    root = searched.write(tmp_path, {"plain": Searched([Tried(HIGH, (0.3,))])})
    manifest = load.read_manifest(root, "made")
    manifest["runs"] *= 2
    (study,) = manifest["search"]["studies"]
    study["trials"].append(study["trials"][0] | {"number": 1, "imported": True})
    (found,) = search.studies(root, "made", manifest)
    assert [trial.value for trial in found.trials] == pytest.approx([0.3, 0.3])
    assert [trial.imported for trial in found.trials] == [False, True]


def test_only_runs_that_are_done_are_read(tmp_path: Path) -> None:
    root = searched.write(tmp_path, {"plain": Searched([Tried(HIGH, (0.3,)), Tried(LOW, (0.4,), ("new",))])})
    running = store.Run(root / "runs" / f"{1:016x}-s5")
    running.attempt_file("metrics", 0).write_text("this is no record\nnor is this\n")
    (study,) = search.studies(root, "made")
    assert [trial.state for trial in study.trials] == ["done", "running"]


def test_reading_trials_and_fresh_runs_in_turn_keeps_both_caches(tmp_path: Path) -> None:
    root = searched.write(tmp_path, {"plain": Searched([Tried(HIGH, (0.3,))], 0, (0.2, 0.3, 0.4))})

    def both() -> list[int]:
        load.load(root, "made", {"eval/accuracy"})
        search.studies(root, "made")
        files = sorted((root / "sweeps/made").glob("cache*/*.parquet"))
        assert len(files) == 2
        return [file.stat().st_mtime_ns for file in files]

    assert both() == both()


def test_a_sweep_without_a_search_has_no_studies(four_words: Path) -> None:
    assert search.studies(four_words, "made") == []


def test_the_best_of_equals_is_the_first() -> None:
    study = Study({}, [tried(0, None), tried(1, 0.2), tried(2, 0.5), tried(3, 0.5), tried(4, 0.2)], None)
    highest, lowest = search.best(study, "max"), search.best(study, "min")
    assert highest and lowest and (highest.number, lowest.number) == (2, 1)
    assert search.best(Study({}, [tried(0, None)], None), "max") is None


# -- the verdict ---------------------------------------------------------------------------------------------------


def test_the_verdict_counts_fresh_runs_only(tmp_path: Path) -> None:
    # in the search the arm looks 20 points worse, on the fresh seeds it is 5 points better, ± 0.2 by seed
    arms = {
        "plain": Searched([Tried(HIGH, (0.60,)), Tried(LOW, (0.55,))], 0, (0.40, 0.41, 0.42)),
        "good": Searched([Tried(HIGH, (0.40,)), Tried(LOW, (0.35,))], 0, (0.45, 0.462, 0.468)),
    }
    sweep = load.load(searched.write(tmp_path, arms), "made")
    assert sweep.axes == {"advantage": ["plain", "good"]} and len(sweep.runs) == 6
    assert sweep.progress() == "6 of 6 fresh runs done"
    (contrast,) = [c for c in verdict.judge(sweep) if (c.read, c.metric) == ("last", "eval/accuracy")]
    assert contrast.effect and (contrast.word, contrast.effect.n) == ("trick", 3)
    assert contrast.effect.mean == pytest.approx(0.05)


def test_fresh_runs_of_arms_without_a_setting_are_still_to_come(tmp_path: Path) -> None:
    arms = {"plain": Searched([Tried(HIGH)], 0, (0.40, 0.41, 0.42)), "good": Searched([Tried(HIGH)])}
    assert load.load(searched.write(tmp_path, arms), "made").progress() == "3 of 6 fresh runs done"


# -- what mattered -------------------------------------------------------------------------------------------------

RANGE = {"key": "", "low": 0.0, "high": 4.0, "log": False, "step": None}
DECADES = {"key": "", "low": 1e-5, "high": 1e-1, "log": True, "step": None}
LEVELS = {"key": "", "levels": ["1", "4"]}
GRID = [(i / 7, j / 7) for i, j in itertools.product(range(8), repeat=2)]


def test_the_axis_that_matters_alone_has_all_the_importance() -> None:
    over = {"a": RANGE, "b": LEVELS}
    points = [(4 * x, "14"[round(y)]) for x, y in GRID]
    study = Study({}, [tried(n, 0.1 * a, a=a, b=b) for n, (a, b) in enumerate(points)], None)
    for goal in ("max", "min"):
        first, second = search_axes.importances(study, over, goal)
        assert first.axis == "a" and first.fanova > 0.98 and first.ped_anova > 0.9 and first.trials == 64
        assert first.fanova + second.fanova == pytest.approx(1) == first.ped_anova + second.ped_anova
    assert search_axes.importances(study, over, "max") == search_axes.importances(study, over, "max")


def test_an_axis_searched_in_its_logarithm_is_weighed_in_it() -> None:
    # log10 a and b each move the value by 4: half of the variance each; evenly in a itself a's were an eighth
    points = [(10 ** (4 * x - 5), 4 * y) for x, y in GRID]
    study = Study({}, [tried(n, math.log10(a) + b, a=a, b=b) for n, (a, b) in enumerate(points)], None)
    first, second = search_axes.importances(study, {"a": DECADES, "b": RANGE}, "max")
    assert first.fanova == pytest.approx(0.5, abs=0.03) == second.fanova


def test_an_axis_under_a_condition_is_judged_on_the_trials_that_have_it() -> None:
    # where b is there it alone matters; the other half of the trials says nothing of b, and all of a
    trials = [tried(n, 4 * y, a=4 * x, b=4 * y) if n % 2 else tried(n, 4 * x, a=4 * x) for n, (x, y) in enumerate(GRID)]
    first, second = search_axes.importances(Study({}, trials, None), {"a": RANGE, "b": RANGE}, "max")
    assert (first.trials, second.trials) == (64, 32)
    assert first.fanova == 1.0 and second.fanova > 0.95


def test_nothing_is_said_of_few_trials_of_equal_ones_or_of_one_axis() -> None:
    over = {"a": RANGE, "b": RANGE}
    trials = [tried(n, 4 * x, a=4 * x, b=4 * y) for n, (x, y) in enumerate(GRID)]
    few = search_axes.importances(Study({}, [*trials[:7], tried(7, None, a=1.0, b=1.0)], None), over, "max")
    assert [i.trials for i in few] == [7, 7] and all(math.isnan(i.fanova) and math.isnan(i.ped_anova) for i in few)
    equal = [tried(n, 0.5, **trial.params) for n, trial in enumerate(trials)]
    assert all(math.isnan(i.fanova) for i in search_axes.importances(Study({}, equal, None), over, "max"))
    assert search_axes.importances(Study({}, trials, None), {"a": RANGE}, "max") == []
