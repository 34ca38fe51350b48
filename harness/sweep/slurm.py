"""Slurm as desired state: how many tasks a sweep wants, less those in the queue, goes to Slurm as arrays; nobody waits.

A task is a pool of workers that claims runs from the store (`task.py`), so which task trains which run is never
decided here. submitit writes the batch script and submits the array, and nothing else of it is used: what became of
a run is read from its folder, what is in the queue from squeue. Leaves out: the tasks' lives (`task.py`), what follows
when a round of runs has ended (`slurm_rounds.py`).
"""

import contextlib
import fcntl
import hashlib
import math
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from harness import scheduler, store
from harness.config import Launcher
from harness.sweep import snapshot
from harness.sweep.plan import Needs, Plan, task_workers
from harness.sweep.task import BAD_NODES, Task


@dataclass(frozen=True)
class Order:
    """What one group of runs with like needs wants of Slurm."""

    name: str  # of the job
    group: str
    needs: Needs
    launcher: Launcher
    waiting: int  # runs that nobody trains
    training: int
    tasks: int  # wanted in all
    queued: int  # of them pending or running
    submit: int

    @property
    def workers(self) -> int:
        """Worker processes of a task."""
        return task_workers(self.launcher, self.needs)


def orders(plan: Plan) -> list[Order]:
    """One per group that has anything to do. Raises RuntimeError where Slurm does not answer."""
    groups: dict[Needs, list[store.State]] = {}
    for run in plan.todo():
        groups.setdefault(Needs.of(run.cell.runtime), []).append(plan.states[run.id])
    found = [_order(plan, needs, states) for needs, states in groups.items()]
    live = scheduler.tasks([order.name for order in found]) if found else []
    if live is None:
        raise RuntimeError("Slurm does not answer (squeue failed or took too long), so nothing was submitted")
    counted = []
    for order in found:
        queued = sum(task.name == order.name and task.is_live for task in live)
        counted.append(replace(order, queued=queued, submit=max(0, order.tasks - queued) if order.waiting else 0))
    return counted


def _order(plan: Plan, needs: Needs, states: list[store.State]) -> Order:
    training = sum(state == "running" for state in states)
    waiting = len(states) - training
    bare = Order(job_name(plan, needs.group), needs.group, needs, plan.launcher, waiting, training, 0, 0, 0)
    return replace(bare, tasks=tasks_wanted(len(states), bare.workers, plan.launcher))


def tasks_wanted(runs: int, workers: int, launcher: Launcher) -> int:
    """ceil(runs / runs_per_task), or as many as run at a time where a task stays until nothing is left."""
    if launcher.runs_per_task:
        return math.ceil(runs / launcher.runs_per_task)
    return min(launcher.max_concurrent, math.ceil(runs / workers))


def arrays(tasks: int, most: int, max_concurrent: int) -> list[tuple[int, int]]:
    """(size, throttle) of each array: under MaxArraySize, throttles that sum to max_concurrent, one at least."""
    number = math.ceil(tasks / most)
    sizes = [tasks // number + (i < tasks % number) for i in range(number)]
    shares = [max_concurrent // number + (i < max_concurrent % number) for i in range(number)]
    return [(size, max(1, share)) for size, share in zip(sizes, shares, strict=True)]


def job_name(plan: Plan, part: str) -> str:
    """By it the queue is asked: the sweep's name, a hash of its root, and the group of runs or what else is done."""
    root = hashlib.sha256(str(plan.root.resolve()).encode()).hexdigest()
    return f"{plan.name}.{root[:6]}.{part}"


def show(plan: Plan, console: Console, scripts: bool = False) -> list[Order]:
    """Prints and returns the orders; with `scripts`, the batch script of each that would submit something."""
    found = orders(plan)
    for order in found:
        what = f"{order.needs.gpus} GPUs a run" if order.needs.gpus else "no GPU"
        console.print(
            f"Slurm, {what}: {order.waiting} runs wait, {order.training} train; {order.tasks} tasks wanted, "
            f"{order.queued} in the queue, {order.submit} to submit (job name {order.name})",
            highlight=False,
            soft_wrap=True,
        )
        if scripts and order.submit:
            console.print(script(plan, order), highlight=False, markup=False, soft_wrap=True)
    return found


def script(plan: Plan, order: Order) -> str:
    """The text of the batch script that `submit` would hand to sbatch for the first array."""
    code = snapshot.place(plan.folder).resolve()
    size, throttle = arrays(max(1, order.submit), scheduler.max_array(), order.launcher.max_concurrent)[0]
    executor = _executor(plan, order, code, throttle)._executor
    executor.parameters["map_count"] = size
    return str(executor._make_submission_file_text(executor._submitit_command_str, "dry-run"))


def submit(plan: Plan, wanted: list[Order], mirror: bool) -> list[str]:
    """Ids of the arrays submitted. Raises RuntimeError with Slurm's words where it takes no (further) array."""
    from submitit.core.utils import FailedJobError

    made: list[str] = []
    wanted = [order for order in wanted if order.submit]
    if not wanted:
        return made
    code, most = snapshot.take(plan.folder), scheduler.max_array()
    for order in wanted:
        for size, throttle in arrays(order.submit, most, order.launcher.max_concurrent):
            executor = _executor(plan, order, code, throttle)
            try:
                with executor.batch():
                    jobs = [executor.submit(_task(plan, order, mirror)) for _ in range(size)]
                made.append(jobs[0].job_id.split("_")[0])
                note(plan, order.name, made[-1], size)
            except FailedJobError as error:
                words = " ".join(str(error).split())
                before = f"; submitted before it: {', '.join(made)}" if made else ""
                raise RuntimeError(f"Slurm refuses the job: {words}{before}") from None
    return made


def note(plan: Plan, name: str, array: str, tasks: int, **more: Any) -> None:
    """slurm/jobs.json: job name -> arrays submitted under it; what `cancel` and `status` ask the queue about."""
    file = plan.folder / "slurm" / "jobs.json"
    file.parent.mkdir(exist_ok=True)
    known = store.read_json(file)
    entry = {"array": array, "tasks": tasks, "time": time.time()} | more
    store.write_atomic(file, store.dump_json(known | {name: [*known.get(name, []), entry]}))


@contextlib.contextmanager
def alone(plan: Plan) -> Iterator[None]:
    """Two submissions of one sweep one after the other, so that the second sees the first one's tasks."""
    with open(plan.folder / "submit.lock", "w") as lock:
        with contextlib.suppress(OSError):  # a filesystem without locks: too many tasks do no harm, they find nothing
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _task(plan: Plan, order: Order, mirror: bool) -> Task:
    launcher, needs = order.launcher, order.needs
    return Task(
        root=str(plan.root.resolve()),
        name=plan.name,
        group=order.group,
        workers=0 if needs.gpus else order.workers,
        gpus=needs.gpus,
        workers_per_gpu=launcher.workers_per_gpu,
        threads=needs.threads,
        runs_per_task=launcher.runs_per_task,
        minutes=launcher.minutes,
        warning=launcher.warning,
        mirror=mirror,
    )


def _executor(plan: Plan, order: Order, code: Path, throttle: int) -> Any:
    launcher, needs = order.launcher, order.needs
    cpus = order.workers * (needs.cpus or needs.threads * max(1, needs.gpus))
    executor = bare_executor(plan, order.name, code, launcher.minutes, cpus)
    executor.update_parameters(slurm_array_parallelism=throttle, slurm_signal_delay_s=launcher.warning)
    if needs.gpus:
        executor.update_parameters(gpus_per_node=needs.gpus)
    if needs.mem_gb:
        executor.update_parameters(mem_gb=order.workers * needs.mem_gb)
    return executor


def bare_executor(plan: Plan, name: str, code: Path, minutes: int, cpus: int, **options: Any) -> Any:
    """submitit's executor with what every job of a sweep has of its site, and further `options` of sbatch.

    Raises RuntimeError where it or Slurm is missing.
    """
    try:
        import submitit
    except ModuleNotFoundError:
        raise RuntimeError("launcher=slurm needs submitit: pip install -c constraints.txt -e '.[slurm]'") from None
    launcher, folder = plan.launcher, plan.folder.resolve() / "slurm"
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
    except RuntimeError:
        raise RuntimeError("launcher=slurm: no srun here; submit from a machine of the cluster") from None
    executor.update_parameters(
        name=name,
        nodes=1,
        tasks_per_node=1,
        timeout_min=minutes,
        cpus_per_task=cpus,
        stderr_to_stdout=True,
        slurm_setup=[f"export PYTHONPATH={shlex.quote(str(code))}${{PYTHONPATH:+:$PYTHONPATH}}", *launcher.setup],
        slurm_additional_parameters={"requeue": True, "chdir": str(code)} | _extra(launcher) | options,
    )
    given = {key: getattr(launcher, key) for key in ("partition", "account", "qos", "constraint")}
    executor.update_parameters(**{f"slurm_{key}": value for key, value in given.items() if value is not None})
    if avoided := _bad_nodes(folder):
        executor.update_parameters(slurm_exclude=",".join(avoided))
    return executor


def _bad_nodes(folder: Path) -> list[str]:
    """On which no worker of this sweep could start; delete the file to try them again."""
    try:
        return sorted(set((folder / BAD_NODES).read_text().split()))
    except FileNotFoundError:
        return []


def _extra(launcher: Launcher) -> dict[str, Any]:
    """Further options, nice=100 or exclusive, as submitit takes them."""
    pairs = [line.removeprefix("--").partition("=") for line in launcher.extra]
    return {name: value if sign else True for name, sign, value in pairs}
