"""Aggregates over runs and benchmarks that describe and do not decide: IQM, probability of improvement, optimality gap.

As rliable has them (arXiv:2108.13264), but resampled by whole runs: one run is scored on every benchmark, and to
resample within each benchmark by itself, as rliable does, covers 67, 72 and 76 % instead of 95 % at 3, 5 and 10 seeds.
Whole runs cover 76, 83 and 89 %: still too little for a verdict, which is why the headline is a paired t interval over
seeds (`stats.paired`: 95 % at any of them). Scores are [runs, benchmarks], runs in the order of their seeds; the arms
of one seed are drawn together. Leaves out: verdicts (`verdict.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis import scores
from analysis.load import NOT_SET, Sweep

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

DRAWS = 2000
SEED = 0
NOTE = (
    "Descriptive, no verdict: intervals are percentiles of a bootstrap of whole runs, which cover 76, 83 and 89 % "
    "instead of 95 % at 3, 5 and 10 seeds."
)


@dataclass(frozen=True)
class Described:
    """A value with the middle 95 % of its bootstrap; NaN bounds for a single run."""

    value: float
    low: float
    high: float
    runs: int


def iqm(values: "np.ndarray") -> float:
    """Mean of the middle half of all scores, runs and benchmarks together: a quarter is cut at either end."""
    from scipy import stats

    return float(stats.trim_mean(values, 0.25, axis=None))


def optimality_gap(values: "np.ndarray", target: float = 1.0) -> float:
    """Mean of max(target - score, 0): how much is missing on average, with nothing won beyond the target."""
    import numpy as np

    return float(np.maximum(target - values, 0.0).mean())


def improvement(arm: "np.ndarray", baseline: "np.ndarray") -> float:
    """Mean over benchmarks of P(a > b) + ½ P(a = b), a and b a run of either arm: Mann and Whitney's U / (n · m)."""
    import numpy as np

    return float(((np.sign(arm[:, None] - baseline[None]) + 1.0) / 2.0).mean())


def bootstrap(
    statistic: Callable[..., float], *arms: "np.ndarray", generator: "np.random.Generator", draws: int = DRAWS
) -> Described:
    """Percentile interval over draws of whole runs with replacement; the same seeds are drawn of every arm.

    Raises ValueError where the arms have different numbers of runs.
    """
    import numpy as np

    sizes = {len(arm) for arm in arms}
    if len(sizes) != 1:
        raise ValueError(f"arms are drawn by seed and need as many runs each, not {sorted(sizes)}")
    runs, value = sizes.pop(), statistic(*arms)
    if runs < 2:
        return Described(value, math.nan, math.nan, runs)
    drawn = generator.integers(runs, size=(draws, runs))
    low, high = np.quantile([statistic(*(arm[rows] for arm in arms)) for rows in drawn], [0.025, 0.975])
    return Described(value, float(low), float(high), runs)


def benchmarks(sweep: Sweep) -> list[str]:
    """The benchmarks whose `eval/<benchmark>/accuracy` is loaded, in alphabetical order."""
    parts = [str(metric).split("/") for metric in sweep.frame["metric"].unique()]
    return sorted(p[1] for p in parts if len(p) == 3 and p[0] == "eval" and p[2] == "accuracy")


def matrices(sweep: Sweep, axis: str) -> "list[tuple[dict[str, str], str, np.ndarray, np.ndarray]]":
    """(stratum, arm, scores of the arm, of the baseline), both [seeds, benchmarks], of seeds that have every score.

    A score is the mean of the last L evaluations. The baseline itself comes first in its stratum, beside itself.
    """
    import numpy as np

    names = benchmarks(sweep)
    read = [scores.run_scores(sweep, f"eval/{name}/accuracy", scores.reader(sweep, "last")) for name in names]
    baseline, found = sweep.baseline[axis], []

    def rows(labels: dict[str, str]) -> dict[int, list[float]]:
        by_seed = {e.seed: [known.get(e.run, math.nan) for known in read] for e in sweep.having(labels)}
        return {seed: row for seed, row in by_seed.items() if row and not any(map(math.isnan, row))}

    for stratum in sweep.strata(axis):
        theirs = rows(stratum | {axis: baseline})
        arms = [baseline, *(arm for arm in sweep.axes[axis] if arm not in (baseline, NOT_SET))]
        for arm in arms:
            ours = rows(stratum | {axis: arm})
            if seeds := sorted(ours.keys() & theirs.keys()):
                a, b = (np.array([side[seed] for seed in seeds]) for side in (ours, theirs))
                found.append((sweep.shown(stratum), arm, a, b))
    return found


def table(sweep: Sweep, axis: str, draws: int = DRAWS) -> "pd.DataFrame":
    """A row per stratum, arm and statistic: stratum axes, axis, arm, statistic, value, low, high, runs.

    statistic: iqm, optimality_gap, and improvement over the baseline. No rows where no benchmark's accuracy is loaded.
    """
    import numpy as np
    import pandas as pd

    generator, lines = np.random.default_rng(SEED), []
    for stratum, arm, ours, theirs in matrices(sweep, axis):
        found = {
            "iqm": bootstrap(iqm, ours, generator=generator, draws=draws),
            "optimality_gap": bootstrap(optimality_gap, ours, generator=generator, draws=draws),
        }
        if arm != sweep.baseline[axis]:
            found["improvement"] = bootstrap(improvement, ours, theirs, generator=generator, draws=draws)
        for name, d in found.items():
            numbers = {"statistic": name, "value": d.value, "low": d.low, "high": d.high, "runs": d.runs}
            lines.append(stratum | {"axis": axis, "arm": arm} | numbers)
    return pd.DataFrame(lines)
