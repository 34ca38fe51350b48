"""Main effects and two-factor interactions of a fractional factorial sweep, each from all of its runs.

A block is one stratum (model, data) under one seed: R runs, one of each row of the fraction, on the same prompts and
noise. With x_r = -1 or +1 the level of a factor in row r, or for an interaction the product of its two factors' levels,

    effect_s = mean of y_rs over x_r = +1  -  mean over x_r = -1

is the effect in seed s, and takes the place of a paired difference: its mean over the seeds with their t interval, on
as many degrees of freedom as pairs have. (A residual shared by all effects would have R - 1 times as many, and holds if
no arm's effect varies from seed to seed: where it does by 0.6 of a run's scatter, R = 8 and S = 3, a test at 5 % errs
in 11 %.) What a fraction saves is in the mean: every effect is read off all R runs of a seed, not off two.

A seed that lacks a run of a stratum's fraction is left out there, since the rest would no longer be balanced. An
interaction is half the difference between the effect of one factor at the two levels of the other. Which effects one
number is the sum of stands in the manifest (`design.classes`), with signs.

Leaves out: verdicts and reports (`fractional_verdict.py`), the design's mathematics (`harness/sweep/fraction.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from analysis import scores
from analysis.load import NOT_SET, Entry, Sweep

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

Stratum = dict[str, str]


@dataclass(frozen=True)
class Effect:
    """What one contrast of the rows estimates: `names` (one: a main effect, two: an interaction), and `beside` it."""

    names: tuple[str, ...]
    beside: tuple[tuple[int, tuple[str, ...]], ...]  # (sign, names) of the effects that are confounded with it
    signs: tuple[int, ...]  # by row

    @property
    def name(self) -> str:
        return ":".join(self.names)

    @property
    def confounded(self) -> str:
        """Such as "(+ keep:weight - advantage:limit)"; empty where no effect of up to two factors is."""
        said = " ".join(f"{'-' if sign < 0 else '+'} {':'.join(names)}" for sign, names in self.beside)
        return f"({said})" if said else ""


def design(sweep: Sweep) -> dict[str, Any] | None:
    """The manifest's fractional design; None for any other."""
    found = sweep.manifest.get("design", {})
    return found if found.get("kind") == "fractional" else None


def effects(of: dict[str, Any]) -> list[Effect]:
    """Every main effect and two-factor interaction that the runs estimate, in the manifest's order."""
    place = {factor: number for number, factor in enumerate(of["factors"])}
    found = []
    for (_, names), *beside in of["classes"]:
        signs = tuple(math.prod(row[place[name]] for name in names) for row in of["rows"])
        found.append(Effect(tuple(names), tuple((sign, tuple(other)) for sign, other in beside), signs))
    return found


def strata(sweep: Sweep, of: dict[str, Any]) -> list[Stratum]:
    """Every combination of the axes of `within` that vary, in the order of the axes."""
    names = [axis for axis in sweep.varying() if axis in of["within"]]
    return [dict(zip(names, levels, strict=True)) for levels in product(*(sweep.axes[name] for name in names))]


def rows(sweep: Sweep, of: dict[str, Any], stratum: Stratum) -> list[list[Entry]]:
    """The planned runs of each row of the fraction in one stratum; what the spec includes beside it is none of them."""
    apart = {axis for axis, levels in sweep.axes.items() if NOT_SET in levels and axis not in stratum}
    plain = dict.fromkeys(apart - set(of["factors"]), NOT_SET)
    found = []
    for row in of["rows"]:
        labels = {factor: ends[sign > 0] for (factor, ends), sign in zip(of["factors"].items(), row, strict=True)}
        found.append(sweep.having(stratum | labels | plain))
    return found


def sides(sweep: Sweep, axis: str) -> list[scores.Side]:
    """A factor's runs with its arm and without it, over both levels of the others; empty for other designs."""
    of = design(sweep)
    if of is None or axis not in of["factors"]:
        return []
    signs, arm = [row[list(of["factors"]).index(axis)] for row in of["rows"]], of["factors"][axis][1]
    return [scores.Side(stratum, arm, *split(rows(sweep, of, stratum), signs)) for stratum in strata(sweep, of)]


def split(runs: Sequence[Sequence[Entry]], signs: Sequence[int]) -> tuple[list[Entry], list[Entry]]:
    """The runs of the rows on the +1 side of an effect, and of those on its -1 side."""
    up, down = (
        [entry for row, sign in zip(runs, signs, strict=True) if sign == side for entry in row] for side in (1, -1)
    )
    return up, down


def blocks(runs: Sequence[Sequence[Entry]], numbers: dict[str, float]) -> "tuple[np.ndarray, list[int]]":
    """Scores [rows, seeds] of the seeds of which every row has one, and these seeds."""
    import numpy as np

    by_seed = [{e.seed: numbers[e.run] for e in row if not math.isnan(numbers.get(e.run, math.nan))} for row in runs]
    seeds = sorted(set.intersection(*map(set, by_seed))) if by_seed else []
    return np.array([[row[seed] for seed in seeds] for row in by_seed]).reshape(len(by_seed), len(seeds)), seeds


def mean_blocks(sweep: Sweep, of: dict[str, Any], over: Sequence[Stratum], numbers: dict[str, float]) -> "np.ndarray":
    """Scores [rows, seeds], averaged over strata within each seed, of the seeds that are complete in all of them."""
    import numpy as np

    found = [blocks(rows(sweep, of, stratum), numbers) for stratum in over]
    seeds = sorted(set.intersection(*(set(known) for _, known in found))) if found else []
    if not seeds:
        return np.empty((len(of["rows"]), 0))
    return np.mean([scores[:, [known.index(seed) for seed in seeds]] for scores, known in found], axis=0)


def by_seed(block: "np.ndarray", signs: Sequence[int], planned: int) -> scores.Pair:
    """One effect, seed by seed, from scores [rows, seeds], and the means of the runs at +1 and at -1."""
    import numpy as np

    up = np.array(signs) > 0
    high, low = block[up].mean(axis=0), block[~up].mean(axis=0)
    n = block.shape[1]
    means = (float(high.mean()), float(low.mean())) if n else (math.nan, math.nan)
    return scores.Pair((high - low).tolist(), *means, planned - n)


def seed_means(runs: "Sequence[tuple[Entry, pd.Series]]") -> "list[tuple[Entry, pd.Series]]":
    """A curve per seed: the mean over its runs, at the steps that all of them have, with the first of them.

    A seed with fewer runs than another is left out: it would be a mean over other levels.
    """
    import pandas as pd

    by_seed: dict[int, list[tuple[Entry, pd.Series]]] = {}
    for entry, curve in runs:
        by_seed.setdefault(entry.seed, []).append((entry, curve))
    most = max(map(len, by_seed.values()), default=0)
    return [
        (group[0][0], pd.concat([curve for _, curve in group], axis=1, join="inner").mean(axis=1).sort_index())
        for group in by_seed.values()
        if len(group) == most
    ]


def level_scores(sweep: Sweep, of: dict[str, Any], axis: str, numbers: dict[str, float]) -> "pd.DataFrame":
    """axis, the axes of `within` that vary, seed, score: a level's mean over its half of the runs, block by block."""
    import numpy as np
    import pandas as pd

    names, found = [name for name in sweep.varying() if name in of["within"]], []
    at = np.array([row[list(of["factors"]).index(axis)] for row in of["rows"]])
    for stratum in strata(sweep, of):
        scores, seeds = blocks(rows(sweep, of, stratum), numbers)
        for level, sign in zip(of["factors"][axis], (-1, 1), strict=True):
            for place, seed in enumerate(seeds):
                found.append({axis: level, **stratum, "seed": seed, "score": float(scores[at == sign, place].mean())})
    return pd.DataFrame(found, columns=[axis, *names, "seed", "score"])
