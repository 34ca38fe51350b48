"""What is left of a plan in hours, disk and memory, before it is trained.

A run's hours come from finished runs of its cell, else of its kind, else from runtime.minutes_per_run, else from the
cost model (`cost.py`). Leaves out: what is left once runs are at work (`hours.py`), how it is shown (`present.py`).
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness import store
from harness.sweep import cost, cost_memory
from harness.sweep import work as works
from harness.sweep.cost_memory import GIB
from harness.sweep.grid import Cell
from harness.sweep.plan import Plan
from harness.sweep.work import Work
from harness.sweep.yaml12 import Problem, SpecError

SAMPLED_RUNS = 50  # finished runs whose timing is read


@dataclass(frozen=True)
class Estimate:
    """Hours of what is to do, of processors and of GPUs, and wall hours at `workers`; each longest run has to fit in.

    `sources` counts runs by where their hours come from: measured, stated, computed, unknown (then no hours at all).
    `kinds` are the different works of the runs to do, with how many each model has; `disk` is bytes of all of them in
    the end.
    """

    cpu_hours: float
    gpu_hours: float
    wall_hours: float
    workers: int
    sources: Counter[str]
    kinds: dict[Work, Counter[str]]
    disk: float

    @property
    def measured(self) -> float:
        """The share of runs timed by like ones."""
        total = self.sources.total()
        return self.sources["measured"] / total if total else 1.0


def of(plan: Plan, num_workers: int) -> Estimate:
    by_cell, by_kind = _measured(plan)
    by_id, todo = works.of_cells(plan.expansion.cells), plan.todo()
    number = Counter(run.cell.id for run in todo)
    total = gpus = longest = 0.0
    sources: Counter[str] = Counter()
    kinds: dict[Work, Counter[str]] = defaultdict(Counter)
    for cell in plan.expansion.cells:
        if not (runs := number[cell.id]):
            continue
        work = by_id[cell.id]
        if times := by_cell.get(cell.id) or by_kind.get(_kind(cell)):
            source, seconds = "measured", statistics.mean(times)
        elif cell.runtime.minutes_per_run:
            source, seconds = "stated", 60 * cell.runtime.minutes_per_run
        elif work:
            source, seconds = "computed", cost.seconds(work).total
        else:
            source, seconds = "unknown", 0.0
        sources[source] += runs
        if work:
            kinds[work][model_name(cell)] += runs
        total, gpus, longest = total + runs * seconds, gpus + runs * seconds * cell.runtime.gpus, max(longest, seconds)
    wall = max(total / num_workers, longest)
    disk = sum((cost.disk(work).total * models.total() for work, models in kinds.items()), 0.0)
    return Estimate(total / 3600, gpus / 3600, wall / 3600, num_workers, sources, dict(kinds), disk)


def refuse_what_cannot_fit(plan: Plan) -> None:
    """Raises SpecError naming each kind of run to do that no GPU of the hardware can hold, and the cures."""
    by_id = works.of_cells(plan.expansion.cells)
    kinds: dict[Work, Counter[str]] = defaultdict(Counter)
    for run in plan.todo():
        if (work := by_id[run.cell.id]) and not cost_memory.memory(work).fits:
            kinds[work][model_name(run.cell)] += 1
    if kinds:
        problems = [Problem(misfit(work, models)) for work, models in kinds.items()]
        cure = "nothing is started; if your GPU is another, hardware=NAME or hardware.memory_gib; --force trains anyway"
        raise SpecError(None, [*problems, Problem(cure)])


def misfit(work: Work, models: Iterable[str]) -> str:
    """Why a run does not fit, and what would make it fit."""
    memory, names = cost_memory.memory(work), ", ".join(models)
    if memory.peak > memory.available:
        largest = max(memory.parts, key=lambda name: memory.parts[name])
        why = f"needs {memory.peak / GIB:.0f} GiB of {memory.available / GIB:.0f}"
        why += f", {memory.parts[largest] / GIB:.0f} of them {largest}"
    else:
        why = f"leaves the engine room for {max(0.0, memory.responses):.1f} of a longest response"
    return f"does not fit: {names} on {work.gpus} x {work.hardware.gpu} {why}; {cost_memory.cure(work)}"


def model_name(cell: Cell) -> str:
    return cell.identity.model.path.rstrip("/").rsplit("/", 1)[-1]


def _measured(plan: Plan) -> tuple[dict[str, list[float]], dict[Any, list[float]]]:
    """Seconds of finished runs, by cell and by kind."""
    finished = [run for run in plan.expansion.runs() if plan.states[run.id] == "done"]
    by_cell: dict[str, list[float]] = defaultdict(list)
    by_kind: dict[Any, list[float]] = defaultdict(list)
    stride = max(1, len(finished) // SAMPLED_RUNS)
    for run in finished[::stride]:
        if seconds := store.Run(plan.root / "runs" / run.id).seconds():
            by_cell[run.cell.id].append(seconds)
            by_kind[_kind(run.cell)].append(seconds)
    return by_cell, by_kind


def _kind(cell: Cell) -> tuple[Any, ...]:
    """What the time of a run hangs on most."""
    train, sampling = cell.identity.train, cell.identity.sampling
    return (
        cell.identity.model.content,
        cell.runtime.gpus,
        train.steps,
        train.updates_per_rollout,
        sampling.engine,
        sampling.prompts_per_step * sampling.group_size,
        sampling.max_new_tokens,
    )
