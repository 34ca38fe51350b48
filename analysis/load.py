"""A sweep's runs as one tidy frame, straight from the run folders; never from a tracking server.

Every run of the manifest is accounted for: those without a finished curve are listed in `missing` with their state
and appear in every output. Leaves out: parsing (`records.py`), what is kept between two loads (`cache.py`),
smoothing and statistics.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import cache, frames, records
from harness.store import Run, read_json

if TYPE_CHECKING:
    import pandas as pd

NOT_SET = "-"  # the level of a run that an axis (or an included cell's extra key) does not reach


@dataclass(frozen=True)
class Entry:
    """One planned run in one place of the grid; `labels` has a level for every axis of the sweep."""

    run: str
    seed: int
    state: str
    labels: dict[str, str]
    reached: tuple[int, int] | None = None  # of a pruned run: its step, and how many it was to have

    @property
    def said(self) -> str:
        """Its state, such as "pruned at step 12 of 40"."""
        return f"{self.state} at step {self.reached[0]} of {self.reached[1]}" if self.reached else self.state


@dataclass(frozen=True)
class Sweep:
    """`frame` has a column per axis, then run, seed, state, step, metric, value (NaN where null was recorded), and no
    rows of pruned runs: a mean over curves would jump where a rule took one away.

    `axes` are the spec's, and the extra keys of included cells, each with its levels in order. `runs` has each run
    once; `aliases` are the further places of the grid that a run fills, since several points may be one cell.
    """

    name: str
    folder: Path
    manifest: dict[str, Any]
    axes: dict[str, list[str]]
    runs: list[Entry]
    frame: "pd.DataFrame"
    aliases: tuple[Entry, ...] = ()

    @property
    def missing(self) -> list[Entry]:
        """Planned runs that are not done, whatever the reason."""
        return [entry for entry in self.runs if entry.state != "done"]

    @property
    def pruned(self) -> list[Entry]:
        """Planned runs that a rule stopped early, since they were behind."""
        return [entry for entry in self.runs if entry.state == "pruned"]

    @cached_property
    def censored(self) -> set[str]:
        """The runs of cells of which one was pruned: what is left of such a cell is no sample of it."""
        cells = {tuple(entry.labels.values()) for entry in self.pruned}
        return {entry.run for entry in self.runs if tuple(entry.labels.values()) in cells}

    @cached_property
    def baseline(self) -> dict[str, str]:
        """axis -> its baseline arm, for the axes along which arms are compared; the first is the spec's main one."""
        return {axis: str(level) for axis, level in self.manifest["baseline"].items() if axis in self.axes}

    @property
    def controls(self) -> set[str]:
        """The axes whose arms train alike by mathematics: a difference there is the instrument's error, or chance."""
        said = self.manifest["control"]
        return set(self.axes) if said is True else set(said or ())

    @property
    def arm_axis(self) -> str | None:
        return next(iter(self.baseline), None)

    def varying(self, without: str | None = None) -> list[str]:
        """The axes with more than one level, in the spec's order."""
        return [axis for axis, levels in self.axes.items() if len(levels) > 1 and axis != without]

    def strata(self, axis: str | None) -> list[dict[str, str]]:
        """Every combination of the other axes' levels that the sweep plans, in the order of the axes."""
        others = self.varying(without=axis)
        found = {tuple(self._held(entry, other) for other in others) for entry in (*self.runs, *self.aliases)}
        ordered = sorted(found, key=lambda levels: [self.axes[o].index(v) for o, v in zip(others, levels, strict=True)])
        return [dict(zip(others, levels, strict=True)) for levels in ordered]

    def having(self, labels: dict[str, str]) -> list[Entry]:
        """The planned runs with these labels, also under an alias; each once, in the order of the plan.

        An axis with a baseline that does not reach a run leaves it at the baseline: a recipe that fills every slot
        itself stands beside the baseline recipe, whose slots the other axes vary.
        """
        places, at = self._index
        found = set(range(len(places)))
        for label in labels.items():
            found &= at.get(label, set())
        return list({places[i].run: places[i] for i in sorted(found)}.values())

    def shown(self, stratum: dict[str, str]) -> dict[str, str]:
        """What of a stratum is worth saying: not the arms held at their baseline, not the axes that do not reach it."""
        return {axis: level for axis, level in stratum.items() if level not in (NOT_SET, self.baseline.get(axis))}

    @cached_property
    def _index(self) -> tuple[tuple[Entry, ...], dict[tuple[str, str], set[int]]]:
        """Every place of the grid, and (axis, level) -> those that have it, in themselves or as held."""
        places, at = (*self.runs, *self.aliases), defaultdict[tuple[str, str], set[int]](set)
        for i, entry in enumerate(places):
            for axis, level in entry.labels.items():
                at[axis, level].add(i)
                at[axis, self._held(entry, axis)].add(i)
        return places, dict(at)

    def plain(self, strata: list[dict[str, str]]) -> list[dict[str, str]]:
        """Those in which every arm that they name stands at its baseline."""
        return [s for s in strata if all(s.get(axis, level) == level for axis, level in self.baseline.items())]

    def _held(self, entry: Entry, axis: str) -> str:
        level = entry.labels[axis]
        return self.baseline.get(axis, level) if level == NOT_SET else level

    def progress(self) -> str:
        """Such as "33 of 36 runs done; 2 failed, 1 new"; of a search: "0 of 15 fresh runs done"."""
        lack = Counter(entry.state for entry in self.missing)
        each = (f"{number} {state}{self._stopped() if state == 'pruned' else ''}" for state, number in lack.items())
        rest = "; " + ", ".join(each) if lack else ""
        searched = self.manifest.get("search") or {"studies": []}
        later = sum(study["chosen"] is None for study in searched["studies"]) * len(self.manifest["seeds"])
        kind = "fresh runs" if searched["studies"] else "runs"
        return f"{len(self.runs) - len(self.missing)} of {len(self.runs) + later} {kind} done{rest}"

    def _stopped(self) -> str:
        """Where the pruned runs were stopped."""
        steps, of = zip(*(entry.reached or (0, 0) for entry in self.pruned), strict=True)
        at = f"step {steps[0]}" if len(set(steps)) == 1 else f"steps {min(steps)} to {max(steps)}"
        return f" at {at} of {max(of)}"


def load(
    root: Path,
    name: str,
    metrics: Collection[str] | None = None,
    manifest: dict[str, Any] | None = None,
    trials: bool = False,
) -> Sweep:
    """All metrics, or only those named. Raises FileNotFoundError where no sweep of that name was planned.

    Rows are in the order of the manifest's runs, of their steps, and of the metrics' names. `manifest` stands in for
    the one that was written. The runs are those that a verdict may be about; with `trials` a search's trials instead.
    """
    import numpy as np
    import pandas as pd

    manifest = manifest or read_manifest(root, name)
    axes, entries, aliases = _entries(root, manifest, trials)
    kept = [entry for entry in entries if entry.state != "pruned"]
    wanted = None if metrics is None else {records.METRIC + metric for metric in metrics}
    folder = root / "sweeps" / name / ("cache_trials" if trials else "cache")  # one would make the other stale
    parts = _parts(root, folder, "metrics", kept, frames.long, lambda column: wanted is None or column in wanted)
    columns = frames.per_run(axes, kept, np.concatenate([part["rows"] for part in parts]))
    columns["step"] = np.concatenate([part["step"] for part in parts])
    columns["metric"] = frames.merged([part["metric"] for part in parts])
    columns["value"] = np.concatenate([part["value"] for part in parts])
    return Sweep(name, root / "sweeps" / name, manifest, axes, entries, pd.DataFrame(columns, copy=False), aliases)


def load_evals(root: Path, name: str) -> "pd.DataFrame":
    """One row per graded answer, of all runs, whatever their state: paired and clustered errors need every one.

    A column per axis, then run, seed, state, step, benchmark, mode (sample or greedy), question and sample (indices
    from 0), right. Raises FileNotFoundError where no sweep of that name was planned.
    """
    import numpy as np
    import pandas as pd

    axes, entries, _ = _entries(root, read_manifest(root, name))
    parts = _parts(root, root / "sweeps" / name / "cache", "evals", entries, frames.answers, lambda column: True)
    columns = frames.per_run(axes, entries, np.concatenate([part["rows"] for part in parts]))
    columns["step"] = np.concatenate([part["step"] for part in parts])
    for text in ("benchmark", "mode"):
        columns[text] = frames.merged([part[text] for part in parts])
    for plain in ("question", "sample", "right"):
        columns[plain] = np.concatenate([part[plain] for part in parts])
    return pd.DataFrame(columns, copy=False)


def _parts(
    root: Path,
    at: Path,
    kind: str,
    entries: list[Entry],
    shape: Callable[[cache.Part], frames.Rows],
    wanted: cache.Wanted,
) -> list[frames.Rows]:
    """The columns of all runs, in parts that are kept in the folder `at`; `rows` counts each run's."""
    groups = cache.parts([(root / "runs" / entry.run, entry.state) for entry in entries]) or [[]]

    def one(number: int) -> frames.Rows:
        return shape(cache.read(at, kind, number, groups[number], wanted))

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Arrow and numpy do most of it without the interpreter's lock
        return list(pool.map(one, range(len(groups))))


def _entries(
    root: Path, manifest: dict[str, Any], trials: bool = False
) -> tuple[dict[str, list[str]], list[Entry], tuple[Entry, ...]]:
    """The runs with their states, their aliases, and the axes filled up with what only some of the runs carry.

    A conditional axis leaves some runs without a level, an included cell brings keys of its own; both would
    otherwise pass for replicates of other cells.
    """
    axes = {axis: [str(level) for level in levels] for axis, levels in manifest["axes"].items()}
    runs = [run for run in manifest["runs"] if bool(run.get("trial")) == trials]
    labels = [_texts(run["labels"]) for run in runs]
    also = [(alias["cell"], _texts(alias["labels"])) for alias in manifest.get("aliases", [])]
    every = [*labels, *(given for _, given in also)]
    for given in every:
        for axis, level in given.items():
            levels = axes.setdefault(axis, [])
            if level not in levels:
                levels.append(level)
    for axis, levels in axes.items():
        if any(axis not in given for given in every) and NOT_SET not in levels:
            levels.append(NOT_SET)
    statuses = {run["run"]: Run(root / "runs" / run["run"]).status() for run in runs}

    def entry(run: dict[str, Any], given: dict[str, str]) -> Entry:
        status, levels = statuses[run["run"]], {axis: given.get(axis, NOT_SET) for axis in axes}
        reached = (status.get("step", 0), status.get("steps", 0)) if status["state"] == "pruned" else None
        return Entry(run["run"], run["seed"], status["state"], levels, reached)

    by_cell: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        by_cell[run.get("cell", "")].append(run)
    entries = [entry(run, given) for run, given in zip(runs, labels, strict=True)]
    return axes, entries, tuple(entry(run, given) for cell, given in also for run in by_cell[cell])


def _texts(labels: dict[str, Any]) -> dict[str, str]:
    return {axis: str(level) for axis, level in labels.items()}


def read_manifest(root: Path, name: str) -> dict[str, Any]:
    """What the sweep wing wrote of a sweep. Raises FileNotFoundError naming the sweeps that exist."""
    manifest = read_json(root / "sweeps" / name / "manifest.json")
    if not manifest:
        there = sorted(path.parent.name for path in (root / "sweeps").glob("*/manifest.json"))
        have = f"there are: {', '.join(there)}" if there else "there is none yet: python -m harness sweep SPEC"
        raise FileNotFoundError(f"no sweep '{name}' in {root / 'sweeps'} ({have})")
    return manifest
