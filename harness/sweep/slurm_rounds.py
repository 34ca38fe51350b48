"""What goes on with a sweep on Slurm when a round of runs has ended: one small job that types the command again.

    arrays of a round  <- afterany - the job: `sweep NAME`  ->  arrays of the next round  <- afterany - the next job

It decides nothing itself: the command compares spec, run folders and queue as it does for a person, and prints the
verdict when nothing is left to do. Whoever types the command in between is no harm, since one such job at most waits,
and one that starts too early waits again. Leaves out: what a round is (`rounds.py`), the arrays (`slurm.py`).
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import scheduler, store
from harness.sweep import slurm, snapshot
from harness.sweep.plan import Plan

PART = "next"  # of the job's name
MINUTES, GIGABYTES = 60, 4.0  # of a job that plans, judges and draws
WAIT = "now+600"  # seconds before the job looks, where runs are open and no task is left to wait for
LOOK = 5.0  # seconds between questions whether a job goes on with a sweep that is followed
VAIN = 3  # jobs in a row that find no run ended; then nothing is submitted any more
OURS = ("SLURM_CONF", "SLURM_JOB_ID")  # of the job's variables: the others would bind the jobs that it submits


@dataclass(frozen=True)
class Next:
    """The command of the next round, as it is typed by hand in `folder`."""

    root: str
    name: str
    folder: str
    words: tuple[str, ...]

    def __call__(self) -> None:
        """Raises SystemExit with the command's status where it is not 0."""
        from harness.sweep.cli import main

        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # submitit would let a cancelled job submit more
        for name in [name for name in os.environ if name.startswith(("SLURM", "SRUN", "SBATCH")) and name not in OURS]:
            del os.environ[name]
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        if store.read_json(Path(self.root) / "sweeps" / self.name / "manifest.json")["launcher"] != "slurm":
            print(f"'{self.name}' has been taken off Slurm by a later `sweep`, so no round is submitted here")
            return
        words = ["--root", self.root, "sweep", self.name, "--name", self.name, *self.words]
        print("python -m harness", *words, flush=True)
        if status := main(words):
            print(f"this sweep goes on with: python -m harness --root {self.root} sweep {self.name}", flush=True)
            raise SystemExit(status)


def follow(plan: Plan, arrays: list[str], mirror: bool) -> str:
    """Submits the job that waits for all tasks in the queue, `arrays` among them, unless one waits already.

    What becomes of the next round, in one sentence; '' where the sweep has none.
    """
    stop, kind = plan.expansion.spec.stop, plan.expansion.spec.design.kind
    if stop is None and kind != "search":
        return ""
    more = "adds seeds where nothing is decided yet" if stop else "asks the search for more"
    by_hand = f"when these runs have ended, the same command {more}"
    name, me = slurm.job_name(plan, PART), scheduler.incarnation().get("job", "")
    known = store.read_json(plan.folder / "slurm" / "jobs.json")
    tasks = scheduler.tasks([*known, name]) if plan.launcher.continues else None
    if tasks is None:
        return by_hand
    live = [task for task in tasks if task.is_live and task.id != me]
    if queued := [task.id for task in live if task.name == name]:
        return f"when these runs have ended, job {queued[0]} goes on"
    open_runs = len(plan.todo())
    before = next((entry for entry in known.get(name, []) if entry["array"] == me), {"left": open_runs + 1})
    vain = before.get("vain", 0) + 1 if open_runs >= before["left"] else 0
    if vain >= VAIN:
        return f"{by_hand}; no job does, since the last {VAIN} found that no run had ended: `status {plan.name}`"
    words = ("--force",) if mirror else ("--force", "--no-mirror")  # what does not fit was refused before, or forced
    after = sorted({task.id.split("_")[0] for task in live} | set(arrays), key=int)
    try:
        job = _submit(plan, name, Next(str(plan.root.resolve()), plan.name, str(Path.cwd()), words), after)
    except RuntimeError as error:
        return f"{by_hand}; no job does ({error})"
    slurm.note(plan, name, job, 1, after=after, left=open_runs, vain=vain)
    return f"when these runs have ended, job {job} {more}; it writes to {_log(plan.folder, job)}"


def _submit(plan: Plan, name: str, what: Next, after: list[str]) -> str:
    """The job's id. Raises RuntimeError with Slurm's words where it does not take it."""
    from submitit.core.utils import FailedJobError

    when = {"dependency": f"afterany:{':'.join(after)}"} if after else {"begin": WAIT}
    executor = slurm.bare_executor(
        plan, name, snapshot.take(plan.folder), min(MINUTES, plan.launcher.minutes), 1, **when
    )
    executor.update_parameters(mem_gb=GIGABYTES)
    try:
        return str(executor.submit(what).job_id)
    except FailedJobError as error:
        raise RuntimeError(f"Slurm refuses it: {' '.join(str(error).split())}") from None


def _log(folder: Path, job: str) -> Path:
    return folder / "slurm" / f"{job}_0_log.out"


def is_next(name: str) -> bool:
    """Whether a job of this name goes on with a sweep, and trains nothing."""
    return name.endswith(f".{PART}")


def first_to_cancel(names: Iterable[str]) -> list[str]:
    """Job names in the order in which they may be cancelled: the end of its arrays would start the next round's job."""
    return sorted(names, key=lambda name: not is_next(name))


def waiting(folder: Path, tasks: Iterable[scheduler.Task]) -> str:
    """Of a sweep's tasks in the queue, the one that goes on with it: `next round: job 17 waits for 15, 16`; else ''."""
    known = store.read_json(folder / "slurm" / "jobs.json")
    for task in _going_on(tasks):
        if task.state != "PENDING":
            return f"next round: job {task.id} prepares it"
        entries = [entry for entry in known.get(task.name, []) if entry["array"] == task.id and entry["after"]]
        return f"next round: job {task.id} waits" + "".join(f" for {', '.join(entry['after'])}" for entry in entries)
    return ""


def adds_runs(folder: Path, manifest: dict[str, Any]) -> bool:
    """Whether a sweep whose runs have ended gets further ones, which is waited for while a job in Slurm goes on."""
    names = list(store.read_json(folder / "slurm" / "jobs.json"))
    while names and any(_going_on(scheduler.tasks(names) or [])):
        if store.read_json(folder / "manifest.json")["runs"] != manifest["runs"]:
            break
        time.sleep(LOOK)
    return bool(store.read_json(folder / "manifest.json")["runs"] != manifest["runs"])


def _going_on(tasks: Iterable[scheduler.Task]) -> Iterator[scheduler.Task]:
    return (task for task in tasks if is_next(task.name) and task.is_live)
