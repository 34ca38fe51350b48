"""What a claim's test compares: the paired values by seed of every place that it is about.

    arm and baseline    their difference, with all other arms at their baseline unless the test names them; in a
                        fraction or a sample the arm's effect over the levels of the others, where those are allowed
    a trend             the least-squares slope over an axis's numeric levels, times last less first

Leaves out: reading numbers off runs and judging (`claims.py`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis import averaged, scores
from analysis.expectations import TRENDS
from analysis.load import Entry, Sweep

Stratum = dict[str, str]


@dataclass(frozen=True)
class Compared:
    stratum: Stratum
    what: str
    values: list[float]  # by seed
    sides: list[list[Entry]]  # the planned runs of each level that is compared


def of(sweep: Sweep, axis: str, test: dict[str, Any], by_run: dict[str, float]) -> list[Compared]:
    """Every place that the sweep plans and the test's `where` allows; `by_run`: run id -> its number."""
    if axis in averaged.axes(sweep) and test["expect"] not in TRENDS:
        return _averaged(sweep, axis, test, by_run)
    found = []
    for stratum in sweep.strata(axis):
        levels = {a: given[0] for a, given in sweep.axes.items()} | stratum
        if any(levels.get(a) not in allowed for a, allowed in _where(sweep, axis, test).items()):
            continue
        planned = [arm for arm in sweep.axes[axis] if sweep.having(stratum | {axis: arm})]
        if test["expect"] in TRENDS:
            arms = sorted((arm for arm in planned if number(arm) is not None), key=float)
            what = f"rise over {axis} {arms[0]} … {arms[-1]}" if len(arms) > 2 else ""
        else:
            arms = _named(planned, test)
            what = " - ".join([f"{axis} {arms[0]}", arms[1]]) if arms else ""
        if what:
            sides = [sweep.having(stratum | {axis: arm}) for arm in arms]
            trend = test["expect"] in TRENDS
            values = _rises(by_run, arms, sides) if trend else scores.pair(by_run, *sides).differences
            found.append(Compared(stratum, what, values, sides))
    return found


def _averaged(sweep: Sweep, axis: str, test: dict[str, Any], by_run: dict[str, float]) -> list[Compared]:
    """`where` holds if it allows a place's levels, and every level of the arms that are averaged over."""
    over, arms = averaged.axes(sweep), _named(averaged.axes(sweep)[axis], test)
    single = {a: [given[0]] for a, given in sweep.axes.items() if len(given) == 1}
    found = []
    for effect in averaged.effects(sweep, axis, arms[0], arms[1], by_run) if arms else []:
        here: Mapping[str, Sequence[str]] = single | over | {a: [level] for a, level in effect.stratum.items()}
        if all(set(here.get(a, [""])) <= set(allowed) for a, allowed in test.get("where", {}).items()):
            what = f"{axis} {arms[0]} - {arms[1]}, {effect.over}"
            found.append(Compared(effect.stratum, what, effect.values, effect.sides))
    return found


def needs(test: dict[str, Any]) -> str:
    """What a sweep has to have for a test."""
    arms = "three numeric levels" if test["expect"] in TRENDS else f"{test['arm']} and {test['baseline']}"
    where = ", ".join(f"{axis} {' or '.join(allowed)}" for axis, allowed in test.get("where", {}).items())
    return f"{test['key']} with {arms}{f' on {where}' if where else ''}"


def _where(sweep: Sweep, axis: str, test: dict[str, Any]) -> dict[str, list[str]]:
    """All other arms are at their baseline unless the test names them; a control holds wherever it was tried."""
    held = {} if test.get("control") else {a: [b] for a, b in sweep.baseline.items() if a in sweep.varying(axis)}
    return held | test.get("where", {})


def _rises(by_run: dict[str, float], arms: list[str], sides: list[list[Entry]]) -> list[float]:
    """Per seed: least-squares slope of the score over the arms' numeric levels, times last - first level."""
    import numpy as np

    x = np.array([float(arm) for arm in arms])
    columns = [scores.by_seed(by_run, side) for side in sides]
    seeds = [s for s in sorted(columns[0]) if all(not math.isnan(c.get(s, math.nan)) for c in columns)]
    return [float(np.polyfit(x, [c[s] for c in columns], 1)[0] * (x[-1] - x[0])) for s in seeds]


def _named(levels: Sequence[str], test: dict[str, Any]) -> list[str]:
    """The test's arm and baseline as the sweep writes them; empty where it lacks one."""
    found = [next((level for level in levels if same(level, test[side])), "") for side in ("arm", "baseline")]
    return found if all(found) else []


def same(level: str, wanted: str) -> bool:
    """Equal as text or as numbers: a spec may write 0.2 where the claim says 0.20."""
    return level == wanted or (number(level) is not None and number(level) == number(wanted))


def number(text: str) -> float | None:
    """None for what is no finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
