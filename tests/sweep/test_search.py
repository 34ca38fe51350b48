"""Searches: the spec's words, equal budgets, what is told of each end, the choice, and runs that others have made."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from harness import store
from harness.sweep import estimate, search, studies
from harness.sweep import plan as plans
from harness.sweep.grid import Expansion
from harness.sweep.rounds import following
from harness.sweep.spec import read
from harness.sweep.trials import Trial
from tests.sweep import searched_train

AXES = """axes:
  advantage: {key: tricks.advantage, values: [group_z, batch_z]}
  lr: {key: train.lr, low: 1e-5, high: 1e-2, log: true}
  updates: {key: train.updates_per_rollout, values: [1, 2, 4, 8]}
"""
DESIGN = "design: {kind: search, trials: 8, at_once: 4, within: [advantage]}\n"
REST = "seeds: 3\nbaseline: {advantage: group_z}\n"


@pytest.fixture
def spec(write: Callable[..., Path], no_weights: None) -> Callable[..., Path]:
    """A design's words -> the spec file, whose runs take two steps."""

    def spec(design: str = DESIGN, axes: str = AXES, name: str = "lr.yaml") -> Path:
        base = "question: q?\nbase: {train.epochs: 1, train.steps: 2, evaluate.every: 2}\n"
        return write(f"{base}{axes}{design}{REST}", name)

    return spec


def rounds(path: Path, root: Path, *overrides: str) -> list[int]:
    """Runs the search to its end, in this process; how many runs each round had."""
    found = []
    plan: plans.Plan | None = search.commit(plans.make(str(path), overrides, root))
    while plan is not None and plan.todo():
        found.append(len(plan.todo()))
        for run in plan.todo():
            with store.Run(root / "runs" / run.id).owned() as mine:
                assert mine
                try:
                    searched_train.train(mine, lambda: False)
                except ZeroDivisionError:
                    mine.write_status("failed", error="ZeroDivisionError")
        plan = following(plan)
    return found


def told(root: Path, name: str = "lr") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / f"sweeps/{name}/manifest.json").read_text())
    return found


def settings(root: Path, name: str = "lr") -> dict[str, list[dict[str, Any]]]:
    """arm -> the params of its trials, in order."""
    return {
        study["labels"]["advantage"]: [trial["params"] for trial in study["trials"]]
        for study in told(root, name)["search"]["studies"]
    }


def stored(root: Path, arm: str, name: str = "lr") -> list[optuna.trial.FrozenTrial]:
    """What the storage has of an arm's trials, but for questions whose answer was known."""
    backend = optuna.storages.journal.JournalFileBackend(str(root / f"sweeps/{name}/search.log"))
    storage = optuna.storages.JournalStorage(backend)
    (study,) = [s for s in optuna.get_all_study_names(storage) if f"advantage={arm} " in s]
    return [t for t in optuna.load_study(study_name=study, storage=storage).trials if "cell" in t.user_attrs]


def test_mistakes_are_named_with_their_cure(problems: Callable[..., str]) -> None:
    def said(design: str, axes: str = AXES, rest: str = "seeds: 3\n") -> str:
        return problems(
            f"question: q?\nbase: {{train.epochs: 1}}\n{axes}design: {{kind: search, {design}}}\n{rest}".strip()
        )

    assert "design of kind search takes trials, at_once, sampler" in said("size: 4")
    assert "design.trials takes a whole number, 2 or more, not None" in said("within: [advantage]")
    assert "design.sampler takes tpe, cmaes, qmc, random, not 'tpee'; did you mean 'tpe'?" in said(
        "trials: 4, sampler: tpee"
    )
    assert "names every axis" in said("trials: 4, within: [advantage, lr, updates]")
    assert "axis 'lr' is a range, which has no arms" in said("trials: 4, within: [advantage, lr]")
    assert "baseline.lr: a searched axis has no arms" in said("trials: 4", rest="seeds: 3\nbaseline: {lr: 1e-5}\n")
    assert "design.seeds and seeds share 2" in said("trials: 4, seeds: {n: 1, start: 2}")
    assert "stop does not go with a search" in said("trials: 4", rest="seeds: 3\nstop: {when: decided, max_seeds: 9}\n")
    assert "the levels of axis 'advantage' are no numbers in order" in said("trials: 4, sampler: cmaes")
    assert "cmaes needs two axes or more" in said("trials: 4, sampler: cmaes, within: [advantage, updates]")
    assert "axis 'lr' is a range, and design: full takes levels" in problems(f"question: q?\n{AXES}seeds: 3")
    ends = "question: q?\naxes: {train.lr: {low: 1e-2, high: 1e-3}}\nseeds: 1"
    assert "axis 'train.lr': `low` is 0.01 and `high` 0.001: give low below high" in problems(ends)
    steps = "question: q?\naxes: {u: {key: train.updates_per_rollout, low: 1, high: 8, step: 2}}\nseeds: 1"
    assert "`high` is no number of steps above `low`; the last below it is 7" in problems(steps)
    assert "unknown key 'max' beside `low` and `high`" in problems(
        "question: q?\naxes: {train.lr: {low: 1, max: 3}}\nseeds: 1"
    )


def test_levels_may_be_named_low_and_high(grid: Callable[..., Expansion]) -> None:
    found = grid("axes: {rate: {low: {train.lr: 1e-4}, high: {train.lr: 1e-3}}}\nseeds: 1")
    assert [cell.identity.train.lr for cell in found.cells] == [1e-4, 1e-3]


def test_planning_writes_nothing_and_says_what_is_to_come(spec: Callable[..., Path], tmp_path: Path) -> None:
    plan = plans.make(str(spec()), (), tmp_path / "root")
    assert not (tmp_path / "root").exists() and plan.todo() == []
    assert plan.expansion.search is not None and plan.expansion.spec.design.search is not None
    assert plan.expansion.search.said(plan.expansion.spec.design.search, plan.expansion.seeds) == [
        "search: tpe, 8 trials in each of 2 arms, 4 at once, on seed 1000; the best of each then on 3 fresh seeds",
        "0 of 16 trials made; 0 of 2 settings chosen",
    ]
    assert estimate.of(plan, 1).sources.total() == 2 * (8 + 3)


def test_every_arm_gets_the_same_budget_and_its_best_setting_runs_on_fresh_seeds(
    spec: Callable[..., Path], tmp_path: Path
) -> None:
    path = spec()
    assert rounds(path, tmp_path) == [8, 8, 6]
    manifest, found = told(tmp_path), settings(tmp_path)
    assert {arm: len(trials) for arm, trials in found.items()} == {"group_z": 8, "batch_z": 8}
    assert found["group_z"][:4] == found["batch_z"][:4]  # paired: both begin with the same settings
    assert len({trial["cell"] for study in manifest["search"]["studies"] for trial in study["trials"]}) == 16
    for study in manifest["search"]["studies"]:
        arm = study["labels"]["advantage"]
        values = [searched_train.accuracy(p["lr"], int(p["updates"]), arm, 1000) for p in found[arm]]
        assert study["chosen"] == values.index(max(values))
        cell = study["trials"][study["chosen"]]["cell"]
        fresh = [run for run in manifest["runs"] if run["labels"] == {"advantage": arm} and "trial" not in run]
        assert [run["run"] for run in fresh] == [f"{cell}-s{seed}" for seed in (0, 1, 2)]
        trials = stored(tmp_path, arm)
        assert [trial.state.name for trial in trials] == ["COMPLETE"] * 8
        assert [trial.value for trial in trials] == pytest.approx(values)
    assert manifest["axes"] == {"advantage": ["group_z", "batch_z"]} and manifest["seeds"] == [0, 1, 2]
    assert rounds(path, tmp_path) == []  # the budget is what there is in all


def test_a_larger_budget_goes_on_and_a_narrower_space_drops_what_it_lost(
    spec: Callable[..., Path], tmp_path: Path
) -> None:
    path = spec()
    rounds(path, tmp_path)
    before = settings(tmp_path)
    path = spec(DESIGN.replace("trials: 8", "trials: 10"))
    assert rounds(path, tmp_path)[0] == 4  # two more in each arm
    assert {arm: trials[:8] for arm, trials in settings(tmp_path).items()} == before
    assert rounds(path, tmp_path, "updates=[2,4,8]", "design={kind: search, trials: 8, within: [advantage]}") != []
    again = plans.make(str(path), ("updates=[2,4,8]",), tmp_path, "lr")
    assert again.expansion.search is not None
    kept = [trial.params for trial in again.expansion.search.studies[0].trials]
    assert kept == [p for p in settings(tmp_path)["group_z"] if p["updates"] != "1"]


def test_what_failed_diverged_or_has_no_value_is_told_as_such_and_never_chosen(
    spec: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "fail").write_text("3e-3")
    (tmp_path / "diverge").write_text("1e-4")
    rounds(spec(), tmp_path)
    states = {"FAIL": 0, "PRUNED": 0, "COMPLETE": 0}
    for arm, params in settings(tmp_path).items():
        for trial, setting in zip(stored(tmp_path, arm), params, strict=True):
            rate = setting["lr"]
            assert trial.state.name == ("FAIL" if rate > 3e-3 else "PRUNED" if rate > 1e-4 else "COMPLETE")
            states[trial.state.name] += 1
    assert all(states.values())
    for study in told(tmp_path)["search"]["studies"]:
        assert study["trials"][study["chosen"]]["params"]["lr"] < 1e-4


def test_a_search_of_which_everything_fails_asks_for_no_more(spec: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "fail").write_text("0")
    assert rounds(spec(), tmp_path) == [8]
    (tmp_path / "fail").unlink()
    for run in (tmp_path / "runs").iterdir():
        shutil.rmtree(run)  # as `retry` leaves them, more or less
    assert rounds(spec(), tmp_path) == [8, 8, 6]
    assert [t.state.name for t in stored(tmp_path, "group_z")].count("COMPLETE") == 8


def test_a_small_space_is_tried_out_and_no_point_twice(spec: Callable[..., Path], tmp_path: Path) -> None:
    axes = AXES.replace("low: 1e-5, high: 1e-2, log: true", "values: [1e-4, 1e-3]")
    assert rounds(spec("design: {kind: search, trials: 20, at_once: 3, within: [advantage]}\n", axes), tmp_path) == [
        6, 6, 4, 6,
    ]  # fmt: skip
    for study in told(tmp_path)["search"]["studies"]:
        assert len({trial["cell"] for trial in study["trials"]}) == len(study["trials"]) == 8 and study["exhausted"]
        assert study["trials"][study["chosen"]]["params"] == {"lr": "1e-3", "updates": "4"}


def test_an_axis_that_is_not_there_has_no_value(spec: Callable[..., Path], tmp_path: Path) -> None:
    axes = (
        "axes:\n  advantage: [group_z]\n  surrogate: {key: tricks.surrogate, values: [reinforce, clip]}\n"
        '  high: {key: tricks.surrogate.high, low: 0.2, high: 0.4, when: surrogate == "clip"}\n'
    ).replace("advantage:", "tricks.advantage:")
    path = spec("design: {kind: search, trials: 8, at_once: 8}\n", axes)
    path.write_text(path.read_text().replace("baseline: {advantage: group_z}\n", ""))
    rounds(path, tmp_path)
    (study,) = told(tmp_path)["search"]["studies"]
    params = [trial["params"] for trial in study["trials"]]
    assert {p["surrogate"] for p in params} == {"reinforce", "clip"}
    assert all(("high" in p) == (p["surrogate"] == "clip") for p in params)
    assert [p["surrogate"] for p in params].count("reinforce") == 1  # without its knob there is one such run


@pytest.mark.parametrize("sampler", ["cmaes", "qmc", "random"])
def test_every_sampler_searches_in_a_database_as_well(sampler: str, spec: Callable[..., Path], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/search.db"
    words = f"trials: 6, at_once: 3, within: [advantage], sampler: {sampler}, storage: '{url}'"
    assert rounds(spec(f"design: {{kind: search, {words}}}\n"), tmp_path) == [6, 6, 6]
    names = optuna.get_all_study_names(url)
    assert len(names) == 2
    for name in names:
        complete = [t for t in optuna.load_study(study_name=name, storage=url).trials if t.state.name == "COMPLETE"]
        assert len(complete) == 6
    for params in settings(tmp_path).values():
        assert all(1e-5 <= p["lr"] <= 1e-2 for p in params)


def test_runs_that_others_finished_are_the_first_trials_but_for_the_verdict_s_seeds(
    spec: Callable[..., Path], tmp_path: Path
) -> None:
    grid = AXES.replace("low: 1e-5, high: 1e-2, log: true", "values: [1e-4, 1e-3]")
    rounds(spec("", grid, "grid.yaml"), tmp_path, "seeds={n: 2, start: 2}", "updates=[1,4]")  # seeds 2 and 3
    assert rounds(spec(), tmp_path)[0] == 8  # four of its own in each arm, beside the four that were there
    for study in told(tmp_path)["search"]["studies"]:
        taken = [trial for trial in study["trials"] if trial["imported"]]
        assert {(t["params"]["lr"], t["params"]["updates"]) for t in taken} == {
            (rate, updates) for rate in (1e-4, 1e-3) for updates in ("1", "4")
        }
        assert all(trial["seeds"] == [3] for trial in taken)  # 2 is one of the verdict's
        assert len(study["trials"]) == 8
    assert [t.state.name for t in stored(tmp_path, "batch_z")][:4] == ["COMPLETE"] * 4
    path = spec(DESIGN.replace("trials: 8", "trials: 8, reuse: false"), name="alone.yaml")
    assert rounds(path, tmp_path)[0] == 8
    assert not any(t["imported"] for s in told(tmp_path, "alone")["search"]["studies"] for t in s["trials"])


def test_runs_on_the_verdict_s_seeds_alone_are_held_back_and_named(spec: Callable[..., Path], tmp_path: Path) -> None:
    grid = AXES.replace("low: 1e-5, high: 1e-2, log: true", "values: [1e-4, 1e-3]")
    rounds(spec("", grid, "grid.yaml"), tmp_path, "updates=[4]")  # seeds 0, 1 and 2
    plan = search.commit(plans.make(str(spec()), (), tmp_path))
    assert plan.expansion.search is not None and plan.expansion.spec.design.search is not None
    assert plan.expansion.search.held_back == 4
    said = plan.expansion.search.said(plan.expansion.spec.design.search, plan.expansion.seeds)
    assert "4 settings of this space have been run elsewhere" in said[2] and "{n: 3, start: 3}" in said[2]
    assert not any(trial.imported for study in plan.expansion.search.studies for trial in study.trials)


def test_a_question_whose_answer_was_lost_is_asked_again_with_the_same_answer(
    spec: Callable[..., Path], tmp_path: Path
) -> None:
    path = spec()
    whole = tmp_path / "whole"
    rounds(path, whole)
    cut = tmp_path / "cut"
    plan = search.commit(plans.make(str(path), (), cut))
    asked = stored(cut, "group_z")
    (cut / "sweeps/lr/manifest.json").unlink()  # as if it had been killed between the storage and the manifest
    with open(cut / "sweeps/lr/search.log", "ab") as log:
        log.write(b'{"op_code": 4, "worker')  # and once more in the middle of a write
    rounds(path, cut)
    assert settings(cut) == settings(whole)
    assert [t.params for t in stored(cut, "group_z")][:4] == [t.params for t in asked]
    assert [t.state.name for t in stored(cut, "group_z")] == ["FAIL"] * 4 + ["COMPLETE"] * 8
    assert plan.expansion.search is not None
    again = [Trial(params, "", (1000,)) for params in settings(cut)["group_z"][:4]]
    assert [t.params for t in plan.expansion.search.studies[0].trials] == [t.params for t in again]


def test_numbers_are_ordered_for_the_sampler_and_names_are_not(spec: Callable[..., Path]) -> None:
    by_name = {axis.name: axis for axis in read(spec()).axes}
    assert studies.distribution(by_name["updates"]) == optuna.distributions.IntDistribution(0, 3)
    assert studies.distribution(by_name["advantage"]) == optuna.distributions.CategoricalDistribution(
        ["group_z", "batch_z"]
    )
    assert studies.distribution(by_name["lr"]) == optuna.distributions.FloatDistribution(1e-5, 1e-2, log=True)
