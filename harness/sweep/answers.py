"""What each answer of a plan takes and can show: of every axis with a baseline, and of every claim.

An answer's runs are those of all cells that it compares; a run that several answers need counts in each. Hours are
those of `estimate.rates`. Leaves out: which cells are compared (`contrasts.py`), the table (`present_answers.py`).
"""

import contextlib
import gc
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness import store
from harness.sweep import contrasts, estimate, keys, power, yaml12
from harness.sweep import plan as plans
from harness.sweep.contrasts import Comparison
from harness.sweep.estimate import Rate
from harness.sweep.grid import Run
from harness.sweep.plan import Plan
from harness.sweep.power import Scatter
from harness.sweep.stop import DECIDING


@dataclass(frozen=True)
class Answer:
    """Runs and hours (of GPUs where the sweep uses any, else of the processor) that one answer takes.

    `more_…` is what seeds that are added later (`stop`) come to at most. `finds` is the smallest effect that shows, at
    the planned seeds and then at the most of them: of the metric, and where nothing tells its scatter in standard
    deviations of a paired difference. NaN under three seeds, and where the answer is not about the endpoint.
    """

    name: str
    is_claim: bool
    compared: int
    runs: int
    done: int
    more_runs: int
    hours: float
    left: float
    more_hours: float
    finds: tuple[float, ...]


@dataclass(frozen=True)
class Answers:
    rows: list[Answer]
    scatter: Scatter
    unit: str  # GPU or CPU
    seeds: tuple[int, ...]  # planned in a cell; where they are added, the fewest that decide and the most


def of(plan: Plan, rate: Rate) -> Answers | None:
    """None for a sweep that neither compares arms nor tests a claim."""
    if not (plan.expansion.spec.baseline or plan.expansion.spec.claims):
        return None
    with _uncollected():
        return _of(plan, rate)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Of 10^5 cells everything is kept to the end: collecting meanwhile finds nothing and takes half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _of(plan: Plan, rate: Rate) -> Answers | None:
    spec = plan.expansion.spec
    manifest = plans.manifest(plan)
    grid = contrasts.Grid(manifest)
    arms = {axis: found for axis, found in contrasts.arms(grid).items() if found}
    listed = yaml12.load(keys.CLAIMS).value if spec.claims else {}
    tested = {name: contrasts.tested(grid, listed[name]) for name in spec.claims}
    if not arms and not any(claim.all for claim in tested.values()):
        return None
    plain = [c for axis, found in arms.items() if axis not in spec.control for c in found]
    scatter, costs = power.scatter(plan, manifest, plain), _Costs(plan, manifest, rate)
    sigma = 1 / math.sqrt(2) if math.isnan(scatter.sigma) else scatter.sigma
    first = len(spec.seeds)
    seeds = (max(first, DECIDING), spec.stop.max_seeds) if spec.stop else (first,)

    def answer(name: str, is_claim: bool, compared: list[Comparison], judged: list[Comparison], family: int) -> Answer:
        spread = max((c.spread for c in judged), default=math.nan)
        most = spec.stop.max_seeds if spec.stop else None
        finds = tuple(power.smallest(spread * sigma, n, family, most) for n in seeds)
        return Answer(name, is_claim, len(compared), *costs.of(contrasts.cells_of(compared)), finds)

    rows = [answer(axis, False, found, found, len(found)) for axis, found in arms.items()]
    rows += [answer(name, True, list(c.all), list(c.on_endpoint), 1) for name, c in tested.items()]
    return Answers(rows, scatter, costs.unit, seeds)


class _Costs:
    """Runs and hours of cells."""

    def __init__(self, plan: Plan, manifest: dict[str, Any], rate: Rate) -> None:
        self.plan, self.rate = plan, rate
        judged = {run["run"] for run in manifest["runs"] if not run.get("trial")}
        self.runs: dict[str, list[Run]] = defaultdict(list)
        for run in plan.expansion.runs():
            if run.id in judged:
                self.runs[run.cell.id].append(run)
        self.unit = "GPU" if any(runs[0].cell.runtime.gpus for runs in self.runs.values()) else "CPU"
        self.known: dict[str, _Cost] = {}

    def of(self, cells: set[str]) -> "_Cost":
        parts = [self._cell(cell) for cell in sorted(cells)]
        return _Cost(*(sum(column) for column in zip(*parts, strict=True))) if parts else _Cost()

    def _cell(self, id: str) -> "_Cost":
        if id not in self.known:
            runs, expansion = self.runs[id], self.plan.expansion
            hours = self.rate(runs[0].cell)[1] * max(1, runs[0].cell.runtime.gpus) / 3600
            done = sum(self.plan.states[run.id] in store.FINISHED for run in runs)
            left = sum(estimate.share_left(self.plan, run) for run in runs)
            stop, rounds = expansion.spec.stop, expansion.rounds
            more = stop.max_seeds - len(runs) if stop and not (rounds and rounds.over) else 0
            self.known[id] = _Cost(len(runs), done, more, hours * len(runs), hours * left, hours * more)
        return self.known[id]


class _Cost(NamedTuple):
    """Of some cells; the fields of `Answer`."""

    runs: int = 0
    done: int = 0
    more_runs: int = 0
    hours: float = 0.0
    left: float = 0.0
    more_hours: float = 0.0
