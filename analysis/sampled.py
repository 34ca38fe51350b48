"""Main effects in a sample of all combinations, by least squares within each stratum and seed.

In one stratum (a combination of the `within` axes) and under one seed, over the cells c that were sampled,

    y_c = μ + Σ over axes of β[axis, level of c] + rest,     β[axis, baseline level] = 0

so that β of an arm is what it adds, whatever the other axes are, where what arms do adds up; where it does not, an
average that depends on the cells that were drawn. The βs of the seeds take the place of paired differences, with the t
interval over seeds that every other verdict has: cells of a seed share prompts and noise, so that a seed is the unit.

What the cells do not tell apart is named and not estimated: an effect that is no combination of the rows (that would
change if another solution of the normal equations were taken). An axis that does not reach a cell counts as its
baseline there; cells that the spec includes with keys of their own are left out. Of a seed that lacks some cells the
others are fitted. Leaves out: verdicts (`sampled_verdict.py`), drawing the sample (`harness/sweep/sample.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis import fractional, scores
from analysis.fractional import Stratum
from analysis.load import NOT_SET, Entry, Sweep

if TYPE_CHECKING:
    import numpy as np

Column = tuple[str, str]  # an axis and one of its levels
ROUNDING = 1e-12  # relative to the largest score
TINY = 1e-8  # of a unit vector's distance to the rows' space: numerically within it


@dataclass(frozen=True)
class Cell:
    labels: dict[str, str]  # axis -> level, of the axes that vary and are not in `within`
    runs: list[Entry]


@dataclass(frozen=True)
class Fit:
    """One stratum fitted: β by seed, NaN where a seed leaves it open, and means with each axis at its first level."""

    stratum: Stratum
    cells: list[Cell]
    columns: list[Column]
    seeds: list[int]
    effects: "np.ndarray"  # [seeds, columns]
    bases: "np.ndarray"  # [seeds, columns]


def design(sweep: Sweep) -> dict[str, Any] | None:
    """The manifest's design where it is a sample whose arms have a baseline; None for any other."""
    found = sweep.manifest.get("design", {})
    return found if found.get("kind") == "sample" and sweep.baseline else None


def levels(sweep: Sweep, of: dict[str, Any]) -> dict[str, list[str]]:
    """axis -> its levels, the one that the others are compared with first, of the axes that were sampled."""
    found = {}
    for axis in sweep.varying():
        if axis in sweep.manifest["axes"] and axis not in of["within"]:
            names = [level for level in sweep.axes[axis] if level != NOT_SET]
            first = sweep.baseline.get(axis, names[0])
            found[axis] = [first, *(name for name in names if name != first)]
    return found


def cells(sweep: Sweep, of: dict[str, Any], stratum: Stratum) -> list[Cell]:
    """The sampled cells of a stratum, each place of the grid once; a run that fills two places stands in both."""
    known, found = levels(sweep, of), dict[tuple[str, ...], list[Entry]]()
    extra = [axis for axis in sweep.axes if axis not in sweep.manifest["axes"]]
    for entry in (*sweep.runs, *sweep.aliases):
        here = all(entry.labels[axis] == level for axis, level in stratum.items())
        if here and all(entry.labels[axis] == NOT_SET for axis in extra):
            at = tuple(known[a][0] if entry.labels[a] == NOT_SET else entry.labels[a] for a in known)
            found.setdefault(at, []).append(entry)
    return [Cell(dict(zip(known, at, strict=True)), runs) for at, runs in found.items()]


def fits(sweep: Sweep, of: dict[str, Any], numbers: dict[str, float]) -> list[Fit]:
    """Every stratum, by the numbers of its runs."""
    return [
        fit(stratum, cells(sweep, of, stratum), levels(sweep, of), numbers) for stratum in fractional.strata(sweep, of)
    ]


def fit(stratum: Stratum, sampled: Sequence[Cell], known: dict[str, list[str]], numbers: dict[str, float]) -> Fit:
    """`known`: axis -> levels, the first of which is compared with."""
    import numpy as np

    columns = [(axis, level) for axis, (_, *others) in known.items() for level in others]
    ones = np.array([[1.0, *(cell.labels[axis] == level for axis, level in columns)] for cell in sampled])
    seeds = sorted({entry.seed for cell in sampled for entry in cell.runs})
    by_seed = [{e.seed: numbers.get(e.run, math.nan) for e in cell.runs} for cell in sampled]
    values = np.array([[row.get(seed, math.nan) for row in by_seed] for seed in seeds]).reshape(len(seeds), -1)
    shape = (len(seeds), len(columns))
    effects, bases = np.full(shape, math.nan), np.full(shape, math.nan)
    for place, row in enumerate(values):
        there = ~np.isnan(row)
        if there.any():
            effects[place] = solved(ones[there], row[there])[1:]
            bases[place] = row[there].mean() - _shares(ones[there][:, 1:], effects[place], columns)
    return Fit(stratum, list(sampled), columns, seeds, effects, bases)


def open_columns(sweep: Sweep, of: dict[str, Any], stratum: Stratum) -> list[Column]:
    """Arms that occur in the stratum, but whose effect the planned cells leave open, were they all to finish."""
    planned, known = cells(sweep, of, stratum), levels(sweep, of)
    every = fit(stratum, planned, known, {entry.run: 0.0 for cell in planned for entry in cell.runs})
    return [
        column
        for place, column in enumerate(every.columns)
        if math.isnan(every.effects[:, place].max()) and runs_at(every, *column)
    ]


def solved(ones: "np.ndarray", values: "np.ndarray") -> "np.ndarray":
    """Least squares β of values[rows] on ones[rows, columns]; NaN where the rows leave a column open.

    What is rounding beside the values is 0: arms that train alike have no effect, in any seed.
    """
    import numpy as np

    inverse = np.linalg.pinv(ones)
    open_ = np.abs(np.eye(ones.shape[1]) - inverse @ ones).max(axis=1) > TINY
    found = inverse @ values
    found = np.where(np.abs(found) < ROUNDING * np.abs(values).max(), 0.0, found)
    return np.where(open_, math.nan, found)


def _shares(ones: "np.ndarray", effects: "np.ndarray", columns: Sequence[Column]) -> "np.ndarray":
    """What an axis's levels add to the mean over rows, for each column's axis."""
    import numpy as np

    parts = np.where(ones.any(axis=0), ones.mean(axis=0) * effects, 0.0)
    added = {axis: math.fsum(parts[i] for i, (a, _) in enumerate(columns) if a == axis) for axis, _ in columns}
    return np.array([added[axis] for axis, _ in columns])


def pair(found: Fit, arm: Column, against: Column | None = None) -> scores.Pair:
    """The effect of a level, seed by seed, less that of another one, or of the one that all are compared with."""
    import numpy as np

    one, other = (_effect(found, column) for column in (arm, against))
    values, base = one - other, found.bases[:, [axis for axis, _ in found.columns].index(arm[0])] + other
    known = ~np.isnan(values)
    low = float(base[known].mean()) if known.any() else math.nan
    high = float((base + values)[known].mean()) if known.any() else math.nan
    return scores.Pair(values[known].tolist(), high, low, len(values) - int(known.sum()))


def _effect(found: Fit, column: Column | None) -> "np.ndarray":
    """[seeds]; 0 of the level that the others are compared with."""
    import numpy as np

    return found.effects[:, found.columns.index(column)] if column in found.columns else np.zeros(len(found.seeds))


def runs_at(found: Fit, axis: str, level: str) -> list[Entry]:
    return [entry for cell in found.cells if cell.labels[axis] == level for entry in cell.runs]
