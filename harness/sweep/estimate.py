"""What is left of a plan in hours, disk and memory, before it is trained.

A run's hours come from finished runs of its cell, else of its kind, else from runtime.minutes_per_run, else from the
cost model (`cost.py`); of a run that was begun, the share of its steps that is left. Leaves out: what is left once runs
are at work (`hours.py`), what each answer takes of it (`answers.py`), how it is shown (`present.py`).
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from harness import store
from harness.sweep import cost, cost_memory
from harness.sweep import plan as plans
from harness.sweep import work as works
from harness.sweep.cost_memory import GIB
from harness.sweep.grid import Cell, Expansion, Run
from harness.sweep.hours import makespan
from harness.sweep.plan import Needs, Plan
from harness.sweep.work import Work
from harness.sweep.yaml12 import Problem, SpecError

SAMPLED_RUNS = 50  # finished runs whose timing is read

Rate = Callable[[Cell], tuple[str, float]]  # where a whole run's seconds come from, and how many


@dataclass(frozen=True)
class Estimate:
    """Hours of what is to do, of processors and of GPUs, and wall hours if `workers` take the runs in their order.

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


def of(plan: Plan, num_workers: int, rate: Rate | None = None) -> Estimate:
    rate, by_id = rate or rates(plan), works.of_cells([*plan.expansion.cells, *plan.expansion.probes])
    known: dict[str, tuple[str, float]] = {}
    lengths: dict[Needs | None, list[float]] = defaultdict(list)  # seconds, in the order in which runs are taken
    gpus, sources = 0.0, Counter[str]()
    kinds: dict[Work, Counter[str]] = defaultdict(Counter)
    one_pool = plan.launcher.kind != "slurm"  # whose arrays are of runs with like needs, max_concurrent tasks of each
    for cell, share in [*((run.cell, share_left(plan, run)) for run in plan.todo()), *to_come(plan.expansion)]:
        source, whole = known.get(cell.id) or known.setdefault(cell.id, rate(cell))
        seconds = whole * share
        lengths[None if one_pool else Needs.of(cell.runtime)].append(seconds)
        sources[source] += 1
        gpus += seconds * cell.runtime.gpus
        if work := by_id[cell.id]:
            kinds[work][model_name(cell)] += 1
    total = sum(map(sum, lengths.values()))
    at_once = {needs: plans.slurm_workers(plan.launcher, needs) if needs else num_workers for needs in lengths}
    wall = max((makespan(part, at_once[needs]) for needs, part in lengths.items()), default=0.0)
    disk = sum((cost.disk(work).total * models.total() for work, models in kinds.items()), 0.0)
    return Estimate(total / 3600, gpus / 3600, wall / 3600, num_workers, sources, dict(kinds), disk)


def rates(plan: Plan) -> Rate:
    """What tells the seconds of a whole run of a cell."""
    by_cell, by_kind = _measured(plan)
    by_id = works.of_cells([*plan.expansion.cells, *plan.expansion.probes])

    def rate(cell: Cell) -> tuple[str, float]:
        if times := by_cell.get(cell.id) or by_kind.get(_kind(cell)):
            return "measured", statistics.mean(times)
        if cell.runtime.minutes_per_run:
            return "stated", 60 * cell.runtime.minutes_per_run
        work = by_id.get(cell.id)
        return ("computed", cost.seconds(work).total) if work else ("unknown", 0.0)

    return rate


def to_come(expansion: Expansion) -> list[tuple[Cell, float]]:
    """Whole runs of a search that have no cell yet: trials, and fresh seeds of what they will choose.

    A study's are spread evenly over the cells that its space was checked with, each level and each end of a range.
    """
    search, found = expansion.spec.design.search, list[tuple[Cell, float]]()
    if search is None or expansion.search is None:
        return found
    for study in expansion.search.studies:
        like = [probe for probe in expansion.probes if study.labels.items() <= probe.labels.items()]
        number = study.missing(search) * len(search.seeds) + (study.chosen is None) * len(expansion.spec.seeds)
        found += [(like[i % len(like)], 1.0) for i in range(number if like else 0)]
    return found


def share_left(plan: Plan, run: Run) -> float:
    """Of its steps: a run at work is where its status says, an interrupted one goes on from its checkpoint."""
    state = plan.states[run.id]
    if state == "new" or state in store.ENDED:
        return float(state == "new")
    folder = store.Run(plan.root / "runs" / run.id)
    done = folder.status().get("step", 0) if state == "running" else folder.saved_step()
    return 1.0 - min(1.0, done / run.cell.identity.train.steps)


def refuse_what_cannot_fit(plan: Plan) -> None:
    """Raises SpecError naming each kind of run to do that no GPU of the hardware can hold, and the cures."""
    waiting = [*(run.cell for run in plan.todo()), *(cell for cell, _ in to_come(plan.expansion))]
    by_id = works.of_cells(waiting)
    kinds: dict[Work, Counter[str]] = defaultdict(Counter)
    for cell in waiting:
        if (work := by_id[cell.id]) and not cost_memory.memory(work).fits:
            kinds[work][model_name(cell)] += 1
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
