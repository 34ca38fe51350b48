"""What a comparison can show at the planned seeds: its standard deviation, and the smallest effect that it finds.

A run's score is a seed's own level plus a rest of standard deviation σ, so that Σ w · score of one seed spreads by
σ · √Σw²: √2 σ for two runs, 2 σ / √R for the effect of a fraction of R runs. σ is taken from finished runs,

    σ² = Σ_c Σ_s (d_cs - d̄_c)² / Σw_c²  /  Σ_c (n_c - 1)      over comparisons c with n_c complete seeds s

of this sweep, and where they are few of the latest others of its scale, metric and reading; else it is the spec's
`endpoint.sd`, else what docs/results measured at the scale. Leaves out: which cells are compared (`contrasts.py`), the
t test (`analysis.stats`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import store
from harness.sweep import contrasts
from harness.sweep.contrasts import Comparison
from harness.sweep.stop import DECIDING

if TYPE_CHECKING:
    from harness.sweep.plan import Plan

ALPHA = 0.05  # as the verdict has it: level of a family
ACCURACY = "eval/accuracy"  # of which a status tells every evaluation
TYPICAL = {
    ("mini", ACCURACY): 0.09
}  # sd of two runs' difference: 57 comparisons of three pairs, docs/results/paper_mini
LOOKED_AT = 30  # comparisons whose runs are read
ENOUGH = 6  # degrees of freedom of σ; at six its 95 % interval is (0.64, 2.2) times as large
RECENT = 5  # other sweeps that are looked into

Score = Callable[[str], float]  # run id -> its score, NaN for a run that has none


@dataclass(frozen=True)
class Scatter:
    """σ of one run's score within a seed, NaN where nothing tells it, and where it comes from."""

    sigma: float
    source: str

    @property
    def pair(self) -> float:
        """Of the difference of two runs of one seed."""
        return math.sqrt(2) * self.sigma


def scatter(plan: "Plan", manifest: dict[str, Any], compared: Sequence[Comparison]) -> Scatter:
    """`compared` are the sweep's own comparisons, controls left out: their arms may differ by nothing at all."""
    end = manifest["endpoint"]
    done = {id for id, state in plan.states.items() if state == "done"}
    squares, freedom, pairs = _squares(compared, manifest, _scores(plan.root, end, done)) if done else (0.0, 0, 0)
    here = "of this sweep"
    for other in _others(plan, manifest) if freedom < ENOUGH else ():
        grid = contrasts.Grid(other)
        found = [c for axis, some in contrasts.arms(grid).items() if axis not in other["control"] for c in some]
        more = _squares(found, other, _scores(plan.root, end))
        squares, freedom, pairs = squares + more[0], freedom + more[1], pairs + more[2]
        here = "of sweeps here"
    if freedom >= ENOUGH:
        return Scatter(math.sqrt(squares / freedom), f"from {pairs} finished pairs {here}")
    if stated := plan.expansion.spec.endpoint.sd:
        return Scatter(stated / math.sqrt(2), "endpoint.sd")
    if typical := TYPICAL.get((manifest["scale"], end["metric"])):
        return Scatter(typical / math.sqrt(2), "as in docs/results; nothing has finished here")
    return Scatter(math.nan, "unknown until pairs have finished; or state endpoint.sd")


def _others(plan: "Plan", manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Manifests of the sweeps that were planned last, of this scale, metric and reading."""
    files = (file for file in (plan.root / "sweeps").glob("*/manifest.json") if file.parent != plan.folder)
    latest = sorted(files, key=lambda file: -file.stat().st_mtime)[:RECENT]
    for other in filter(None, map(store.read_json, latest)):
        alike = all(other["endpoint"][key] == manifest["endpoint"][key] for key in ("metric", "last"))
        if alike and other["scale"] == manifest["scale"]:
            yield other


def _squares(compared: Sequence[Comparison], manifest: dict[str, Any], score: Score) -> tuple[float, int, int]:
    """(Σ (d - d̄)² / Σw², its degrees of freedom, numbers d) of LOOKED_AT comparisons, evenly chosen."""
    seeds = manifest["seeds"]
    total, freedom, numbers = 0.0, 0, 0
    for comparison in compared[:: max(1, -(-len(compared) // LOOKED_AT))]:
        each = [math.fsum(w * score(f"{cell}-s{seed}") for cell, w in comparison.weights) for seed in seeds]
        known = [value for value in each if not math.isnan(value)]
        if len(known) > 1:
            mean = math.fsum(known) / len(known)
            total += math.fsum((value - mean) ** 2 for value in known) / comparison.spread**2
            freedom, numbers = freedom + len(known) - 1, numbers + len(known)
    return total, freedom, numbers


def _scores(root: Path, end: dict[str, Any], done: set[str] | None = None) -> Score:
    """Mean of the last evaluations of a finished run, as `analysis.stats.endpoint` has it, without pandas."""

    @cache
    def score(id: str) -> float:
        run = store.Run(root / "runs" / id)
        if done is not None and id not in done:
            return math.nan
        status = store.read_json(run.path / "status.json")
        if status.get("state") != "done":
            return math.nan
        values = [value for _, value in status.get("evals", [])] if end["metric"] == ACCURACY else []
        values = values or [line["m"].get(end["metric"]) for line in run.read("metrics")]
        known = [value for value in values if value is not None][-end["last"] :]
        return math.fsum(known) / end["last"] if len(known) == end["last"] else math.nan

    return score


def smallest(sd: float, seeds: int, family: int, most: int | None = None) -> float:
    """The true effect that two-sided tests on `seeds` differences of this sd find with power .8; NaN under DECIDING.

    At the level at which Holm's procedure tests the smallest p of a family: ALPHA / family. With `most` seeds at most
    and a look at every number of them (`stop`), at this one look.
    """
    from analysis import sequential, stats

    if seeds < DECIDING or math.isnan(sd):
        return math.nan
    level = ALPHA / max(1, family)
    if most:
        from scipy.stats import t

        level = 2 * float(t.sf(sequential.critical(seeds, most, level / 2), seeds - 1))
    return stats.detectable(sd, seeds, alpha=level)
