"""A sweep's runs as one tidy frame, straight from the run folders; never from a tracking server.

Every run of the manifest is accounted for: those without a finished curve are listed in `missing` with their state
and appear in every output. Leaves out: smoothing and statistics.
"""

import math
from array import array
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store import Run, read_json

if TYPE_CHECKING:
    import pandas as pd

NOT_SET = "-"  # the level of a run that an axis (or an included cell's extra key) does not reach


@dataclass(frozen=True)
class Entry:
    """One planned run; `labels` has a level for every axis of the sweep."""

    run: str
    seed: int
    state: str
    labels: dict[str, str]


@dataclass(frozen=True)
class Sweep:
    """`frame` has a column per axis, then run, seed, state, step, metric, value (NaN where null was recorded).

    `axes` are the spec's, and the extra keys of included cells, each with its levels in order.
    """

    name: str
    folder: Path
    manifest: dict[str, Any]
    axes: dict[str, list[str]]
    runs: list[Entry]
    frame: "pd.DataFrame"

    @property
    def missing(self) -> list[Entry]:
        """Planned runs that are not done, whatever the reason."""
        return [entry for entry in self.runs if entry.state != "done"]

    @property
    def baseline(self) -> dict[str, str]:
        """axis -> its baseline arm, for the axes along which arms are compared; the first is the spec's main one."""
        return {axis: str(level) for axis, level in self.manifest["baseline"].items() if axis in self.axes}

    @property
    def arm_axis(self) -> str | None:
        return next(iter(self.baseline), None)

    def varying(self, without: str | None = None) -> list[str]:
        """The axes with more than one level, in the spec's order."""
        return [axis for axis, levels in self.axes.items() if len(levels) > 1 and axis != without]

    def strata(self, axis: str | None) -> list[dict[str, str]]:
        """Every combination of the other axes' levels that the sweep plans, in the order of the axes."""
        others = self.varying(without=axis)
        found = {tuple(entry.labels[other] for other in others) for entry in self.runs}
        ordered = sorted(found, key=lambda levels: [self.axes[o].index(v) for o, v in zip(others, levels, strict=True)])
        return [dict(zip(others, levels, strict=True)) for levels in ordered]

    def having(self, labels: dict[str, str]) -> list[Entry]:
        """The planned runs with these labels."""
        return [entry for entry in self.runs if all(entry.labels[axis] == level for axis, level in labels.items())]

    def progress(self) -> str:
        """Such as "33 of 36 runs done; 2 failed, 1 new"."""
        lack = Counter(entry.state for entry in self.missing)
        rest = "; " + ", ".join(f"{number} {state}" for state, number in lack.items()) if lack else ""
        return f"{len(self.runs) - len(self.missing)} of {len(self.runs)} runs done{rest}"


def load(root: Path, name: str, metrics: Collection[str] | None = None) -> Sweep:
    """All metrics, or only those named. Raises FileNotFoundError where no sweep of that name was planned."""
    import pandas as pd

    manifest = read_manifest(root, name)
    axes, entries = _entries(root, manifest)
    codes, steps, keys, values = array("l"), array("l"), array("l"), array("d")
    names: dict[str, int] = {}
    for code, entry in enumerate(entries):
        for record in Run(root / "runs" / entry.run).read("metrics"):
            m = record["m"] if metrics is None else {key: record["m"][key] for key in metrics if key in record["m"]}
            codes.extend(repeat(code, len(m)))
            steps.extend(repeat(record["step"], len(m)))
            keys.extend([names.setdefault(key, len(names)) for key in m])
            values.extend([math.nan if value is None else value for value in m.values()])
    columns: dict[str, Any] = {
        axis: _column([entry.labels[axis] for entry in entries], codes, levels) for axis, levels in axes.items()
    }
    ids, states = [entry.run for entry in entries], [entry.state for entry in entries]
    columns["run"] = _column(ids, codes, ids)
    columns["seed"] = pd.Series([entry.seed for entry in entries], dtype="int64").take(codes).to_numpy()
    columns["state"] = _column(states, codes, list(dict.fromkeys(states)))
    columns["step"] = pd.Series(steps, dtype="int64")
    columns["metric"] = pd.Categorical.from_codes(pd.Series(keys, dtype="int64"), list(names))
    columns["value"] = pd.Series(values, dtype="float64")
    return Sweep(name, root / "sweeps" / name, manifest, axes, entries, pd.DataFrame(columns))


def _column(per_run: list[str], codes: "array[int]", levels: list[str]) -> "pd.Categorical":
    """The run's text repeated for each of its rows, one byte or so a row."""
    import pandas as pd

    return pd.Categorical(per_run, categories=list(dict.fromkeys(levels))).take(codes)


def _entries(root: Path, manifest: dict[str, Any]) -> tuple[dict[str, list[str]], list[Entry]]:
    """The runs with their states, and the axes filled up with what only some of the runs carry.

    A conditional axis leaves some runs without a level, an included cell brings keys of its own; both would
    otherwise pass for replicates of other cells.
    """
    axes = {axis: [str(level) for level in levels] for axis, levels in manifest["axes"].items()}
    labels = [{axis: str(level) for axis, level in run["labels"].items()} for run in manifest["runs"]]
    for given in labels:
        for axis, level in given.items():
            levels = axes.setdefault(axis, [])
            if level not in levels:
                levels.append(level)
    for axis, levels in axes.items():
        if any(axis not in given for given in labels) and NOT_SET not in levels:
            levels.append(NOT_SET)
    states: dict[str, str] = {run["run"]: Run(root / "runs" / run["run"]).state() for run in manifest["runs"]}
    return axes, [
        Entry(run["run"], run["seed"], states[run["run"]], {axis: given.get(axis, NOT_SET) for axis in axes})
        for run, given in zip(manifest["runs"], labels, strict=True)
    ]


def read_manifest(root: Path, name: str) -> dict[str, Any]:
    """What the sweep wing wrote of a sweep. Raises FileNotFoundError naming the sweeps that exist."""
    manifest = read_json(root / "sweeps" / name / "manifest.json")
    if not manifest:
        there = sorted(path.parent.name for path in (root / "sweeps").glob("*/manifest.json"))
        have = f"there are: {', '.join(there)}" if there else "there is none yet: python -m harness sweep SPEC"
        raise FileNotFoundError(f"no sweep '{name}' in {root / 'sweeps'} ({have})")
    return manifest
