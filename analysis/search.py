"""The trials of a search, read from the manifest and the run folders: how each ended and the value it was told.

    value of a trial = mean over its runs of the verdict's own endpoint (`scores.reader(…, "last")`)

There is no other record of a value: the controller tells the sampler what this module reads. Leaves out: choosing the
next trial (`harness/sweep`), importances (`search_axes.py`), text (`search_text.py`), drawing (`plot_search.py`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from analysis import scores
from analysis.load import load, read_manifest
from harness.store import Run

State = Literal["done", "diverged", "failed", "pruned", "running"]
STATES: tuple[State, ...] = ("done", "diverged", "failed", "pruned", "running")


@dataclass(frozen=True)
class Trial:
    """One setting that was tried; `params` lacks an axis that is absent under its condition."""

    number: int
    params: dict[str, Any]
    cell: str
    runs: tuple[str, ...]
    imported: bool  # its runs were there before, trained for another sweep
    state: State
    value: float | None  # as recorded, of a trial that is done; None also where a curve is too short to have one
    per_seed: dict[int, float]  # of the runs that are done


@dataclass(frozen=True)
class Study:
    """One arm's search; `chosen` is the number of its best trial once all trials have ended."""

    labels: dict[str, str]
    trials: list[Trial]
    chosen: int | None


def studies(root: Path, name: str, manifest: dict[str, Any] | None = None) -> list[Study]:
    """The manifest's studies as their runs stand now; none of a sweep without a search.

    Reads the endpoint's metric of the runs that are done and nothing else. `manifest` stands in for the one that was
    written. Raises FileNotFoundError where no sweep of that name was planned.
    """
    manifest = manifest or read_manifest(root, name)
    planned = (manifest.get("search") or {"studies": []})["studies"]
    ids = dict.fromkeys(run for study in planned for trial in study["trials"] for run in trial["runs"])
    states: dict[str, str] = {run: Run(root / "runs" / run).state() for run in ids}
    values = _values(root, name, manifest, {run for run, state in states.items() if state == "done"})
    return [
        Study(study["labels"], [_trial(trial, states, values) for trial in study["trials"]], study["chosen"])
        for study in planned
    ]


def axes(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The searched axes with their ranges or levels, without those whose condition no trial has met."""
    asked = manifest["search"]
    met = {axis for study in asked["studies"] for trial in study["trials"] for axis in trial["params"]}
    return {axis: kind for axis, kind in asked["over"].items() if axis in met or not met}


def best(study: Study, goal: str) -> Trial | None:
    """The trial of the highest value (of the lowest with goal "min"), of equal ones the first; None without a value."""
    valued = [trial for trial in study.trials if trial.value is not None]
    return min(valued, key=lambda trial: (signed(trial, goal), trial.number), default=None)


def signed(trial: Trial, goal: str) -> float:
    """What is smaller for a better trial; infinite without a value."""
    if trial.value is None:
        return math.inf
    return trial.value if goal == "min" else -trial.value


def state_of(runs: list[str]) -> State:
    """A trial's state from its runs': failed before pruned before diverged; done only where all are."""
    if any(state in ("failed", "cancelled") for state in runs):
        return "failed"
    for state in ("pruned", "diverged"):
        if state in runs:
            return state
    return "done" if all(state == "done" for state in runs) else "running"


def _trial(planned: dict[str, Any], states: Mapping[str, str], values: Mapping[str, tuple[int, float]]) -> Trial:
    runs: list[str] = planned["runs"]
    state = state_of([states[run] for run in runs])
    known = dict(values[run] for run in runs if run in values)
    whole = state == "done" and len(known) == len(runs)
    return Trial(
        number=planned["number"],
        params=planned["params"],
        cell=planned["cell"],
        runs=tuple(runs),
        imported=planned["imported"],
        state=state,
        value=math.fsum(known.values()) / len(runs) if whole else None,
        per_seed=known,
    )


def _values(root: Path, name: str, manifest: dict[str, Any], done: set[str]) -> dict[str, tuple[int, float]]:
    """run -> (seed, endpoint), of those runs that have one."""
    if not done:
        return {}
    metric = manifest["endpoint"]["metric"]
    wanted = {run["run"]: run | {"trial": True} for run in manifest["runs"] if run["run"] in done}
    sweep = load(root, name, {metric}, manifest | {"runs": list(wanted.values()), "aliases": []}, trials=True)
    found = scores.run_scores(sweep, metric, scores.reader(sweep, "last"))
    return {e.run: (e.seed, found[e.run]) for e in sweep.runs if not math.isnan(found.get(e.run, math.nan))}
