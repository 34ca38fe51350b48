"""Finished runs of other sweeps that are settings of a search: its first trials, for nothing.

A run is one where some setting of the searched space has its cell. Candidates are read off the run's configuration: the
number at a range's key, the levels whose one key has that value; levels of several keys are all tried. Runs on the
seeds of the verdict are left out, since what chooses must not judge. Leaves out: how they ended (`analysis/search.py`).
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness import store
from harness.sweep import trials
from harness.sweep.axes import Axis, Level, same
from harness.sweep.compose import look_up
from harness.sweep.expand import Make
from harness.sweep.trials import Trial

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # eight times as fast, where it is there
Finished = dict[str, dict[int, store.Run]]  # cell -> seed -> run


def finished(root: Path) -> Finished:
    """Every run of the store that has a result."""
    found: Finished = defaultdict(dict)
    for folder in sorted((root / "runs").glob("*-s*")):
        run, (cell, _, seed) = store.Run(folder), folder.name.rpartition("-s")
        if seed.isdigit() and run.state() in store.FINISHED:
            found[cell][int(seed)] = run
    return found


def matching(there: Finished, axes: Sequence[Axis], fresh: Sequence[int], make: Make) -> tuple[list[Trial], int]:
    """The settings that have been run, in the order of their cells' ids, and how many more have only `fresh` seeds."""
    found, held_back = [], 0
    for cell, by_seed in sorted(there.items()):
        params = _setting(next(iter(by_seed.values())), axes, make, cell)
        if params is None:
            continue
        seeds = tuple(sorted(set(by_seed) - set(fresh)))
        held_back += not seeds
        found += [Trial(params, cell, seeds, imported=True)] if seeds else []
    return found, held_back


def _setting(run: store.Run, axes: Sequence[Axis], make: Make, cell: str) -> dict[str, Any] | None:
    """The params that make the run's cell; None where it is of no setting of the space."""
    try:
        tree = yaml.load((run.path / "config.yaml").read_text(encoding="utf-8"), Loader=_Loader)["identity"]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return None
    options = [list(_levels(axis, tree)) for axis in axes]
    for chosen in itertools.product(*options):
        at = {axis.name: level for axis, level in zip(axes, chosen, strict=True)}
        params: dict[str, Any] = {}

        def pick(axis: Axis, at: dict[str, Level] = at, params: dict[str, Any] = params) -> Level:
            params[axis.name] = trials.value(axis, at[axis.name])
            return at[axis.name]

        made = make(pick)
        if made and made.id == cell:
            return params
    return None


def _levels(axis: Axis, tree: dict[str, Any]) -> Iterator[Level]:
    """Those that the run may have; of an axis with a condition it may have none, and any will do."""
    if axis.key is None or axis.when or len(axis.key.split(".")) < 2:  # several keys, or a group's choice
        yield from axis.levels
        return
    actual = look_up(tree, axis.key)
    if axis.span:
        if axis.span.holds(actual):
            yield axis.at(actual)
        return
    for level in axis.levels:
        given = level.value
        if same(given.get("name") if isinstance(given, dict) else given, actual):  # a slot's choice with its knobs
            yield level
