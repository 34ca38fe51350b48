"""Which cells each answer of a sweep compares: the arms of every axis with a baseline, and the tests of every claim.

A comparison is one number a seed, Σ w · score over cells: an arm less its baseline in one place of the grid (w = +1 and
-1), an effect of a fraction (±2 over its rows), or a claim's rise over numeric levels (least squares slope times their
range). Read off a manifest, so that a sweep that is only planned and one that another spec has made are told alike.
These are the comparisons that `analysis` judges (`scores.sides`, `claims`, `fractional`); a test holds the two
together. Leaves out: a search's trials, which are never judged; what the runs cost, what they can show (`power.py`).
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

ABSENT = "-"  # the level of a cell that an axis does not reach


@dataclass(frozen=True)
class Comparison:
    """Cells and what each weighs in one number a seed; the weights sum to 0."""

    weights: tuple[tuple[str, float], ...]

    @property
    def spread(self) -> float:
        """√Σw²: the number's standard deviation in those of one run's score within a seed."""
        return math.sqrt(sum(weight * weight for _, weight in self.weights))


@dataclass(frozen=True)
class Tested:
    """A claim's comparisons: all, and those on the endpoint's metric as the verdict reads it."""

    all: tuple[Comparison, ...]
    on_endpoint: tuple[Comparison, ...]


class Grid:
    """The places of a manifest: a level of every axis, and the cell that stands there, also under an alias."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.manifest = manifest
        self.axes = {axis: [str(level) for level in levels] for axis, levels in manifest["axes"].items()}
        runs = [run for run in manifest["runs"] if not run.get("trial")]
        labels = {run["cell"]: run["labels"] for run in runs}
        given = [*labels.items(), *((alias["cell"], alias["labels"]) for alias in manifest.get("aliases", []))]
        for _, at in given:
            for axis, level in at.items():
                if str(level) not in self.axes.setdefault(axis, []):
                    self.axes[axis].append(str(level))
        for axis, levels in self.axes.items():
            if ABSENT not in levels and any(axis not in at for _, at in given):
                levels.append(ABSENT)
        self.baseline = {axis: str(level) for axis, level in manifest["baseline"].items() if axis in self.axes}
        self.names = [axis for axis, levels in self.axes.items() if len(levels) > 1]
        absent = [self.baseline.get(axis, ABSENT) for axis in self.names]
        self.places = [
            (tuple(str(at.get(axis, level)) for axis, level in zip(self.names, absent, strict=True)), cell)
            for cell, at in given
        ]
        self.plain = [not set(at) - set(manifest["axes"]) for _, at in given]  # no key of an included cell's own
        self._groups: dict[str, dict[tuple[str, ...], dict[str, str]]] = {}

    def groups(self, axis: str) -> dict[tuple[str, ...], dict[str, str]]:
        """Levels of the other axes that vary -> level of this one -> the cell there."""
        if axis not in self._groups:
            found: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
            place = self.names.index(axis) if axis in self.names else len(self.names)
            for levels, cell in self.places:
                own = levels[place] if place < len(levels) else self.axes[axis][0]
                found[levels[:place] + levels[place + 1 :]][own] = cell
            self._groups[axis] = dict(found)
        return self._groups[axis]


def arms(grid: Grid) -> dict[str, list[Comparison]]:
    """axis -> the comparisons of its arms with its baseline, or of a fraction its effect in every stratum."""
    design = grid.manifest.get("design", {})
    if design.get("kind") == "fractional":
        return _effects(grid, design)
    found = {}
    for axis, baseline in grid.baseline.items():
        found[axis] = [
            Comparison(((cell, 1.0), (at[baseline], -1.0)))
            for at in grid.groups(axis).values()
            if baseline in at
            for level, cell in at.items()
            if level != baseline and cell != at[baseline]
        ]
    return found


def _effects(grid: Grid, design: dict[str, Any]) -> dict[str, list[Comparison]]:
    """Of each factor in each stratum, ±2 over the number of rows; none where a row lacks its cell."""
    factors = list(design["factors"])
    at = [grid.names.index(factor) for factor in factors]
    strata: dict[tuple[str, ...], dict[tuple[str, ...], str]] = defaultdict(dict)
    for (levels, cell), plain in zip(grid.places, grid.plain, strict=True):
        if plain:
            stratum = tuple(level for i, level in enumerate(levels) if grid.names[i] in design["within"])
            strata[stratum][tuple(levels[i] for i in at)] = cell
    ends = [design["factors"][factor] for factor in factors]
    rows = {tuple(end[sign > 0] for end, sign in zip(ends, row, strict=True)): row for row in design["rows"]}
    weight = 2.0 / len(rows)
    found: dict[str, list[Comparison]] = {factor: [] for factor in factors}
    for cells in strata.values():
        for place, factor in enumerate(factors if rows.keys() <= cells.keys() else ()):
            found[factor].append(Comparison(tuple((cells[key], weight * row[place]) for key, row in rows.items())))
    return found


def tested(grid: Grid, claim: dict[str, Any]) -> Tested:
    """A claim of grid_specs/claims.yaml; empty where nothing of it can be tested here."""
    from analysis.expectations import TRENDS

    every: list[Comparison] = []
    endpoint: list[Comparison] = []
    for test in claim["tests"]:
        axis = next((a for a, key in grid.manifest["keys"].items() if test["key"] in (key, a)), None)
        if axis is None or (test.get("control") and axis not in grid.manifest["control"]):
            continue
        where = _where(grid, axis, test)
        found = [
            comparison
            for levels, at in (grid.groups(axis) if where is not None else {}).items()
            if all(levels[place] in allowed for place, allowed in where or ())
            for comparison in (_rise(at) if test["expect"] in TRENDS else _pair(at, test))
        ]
        every += found
        if test["metric"] == grid.manifest["endpoint"]["metric"] and test.get("read", "last") == "last":
            endpoint += found if not test.get("control") else []
    return Tested(tuple(every), tuple(endpoint))


def _where(grid: Grid, axis: str, test: dict[str, Any]) -> list[tuple[int, list[str]]] | None:
    """(place in a group's levels, those allowed there) of each condition; None where one of them never holds.

    All other arms are at their baseline unless the test names them; a control holds wherever it was tried.
    """
    others = [name for name in grid.names if name != axis]
    held = {} if test.get("control") else {a: [b] for a, b in grid.baseline.items() if a in others}
    found = []
    for name, allowed in (held | test.get("where", {})).items():
        if name in others:
            found.append((others.index(name), allowed))
        elif grid.axes.get(name, [""])[0] not in allowed:
            return None
    return found


def _pair(at: dict[str, str], test: dict[str, Any]) -> list[Comparison]:
    from analysis.compared import same

    arm, baseline = (
        next((cell for level, cell in at.items() if same(level, test[side])), "") for side in ("arm", "baseline")
    )
    return [Comparison(((arm, 1.0), (baseline, -1.0)))] if arm and baseline else []


def _rise(at: dict[str, str]) -> list[Comparison]:
    """Σ (x - x̄) y / Σ (x - x̄)² · (largest x - smallest x) over three numeric levels or more."""
    from analysis.compared import number

    points = sorted((value, cell) for level, cell in at.items() if (value := number(level)) is not None)
    if len(points) < 3:
        return []
    mean = sum(x for x, _ in points) / len(points)
    slope = (points[-1][0] - points[0][0]) / sum((x - mean) ** 2 for x, _ in points)
    return [Comparison(tuple((cell, slope * (x - mean)) for x, cell in points))]


def cells_of(comparisons: Iterable[Comparison]) -> set[str]:
    return {cell for comparison in comparisons for cell, _ in comparison.weights}
