"""What a task of a Slurm array does: a pool of workers, until nothing is left to claim or the task is told to stop.

On SIGTERM or SIGUSR2 (preemption, time limit) every worker saves at its next step boundary; then the task leaves
with an error status, and asks to be queued again where Slurm has not decided anything itself: a cancelled or
preempted job is completing by then, one that runs was only warned. A run that did not get as far as one step in a
whole task is failed, since no number of tasks would end it. Leaves out: how tasks are submitted (`slurm.py`).
"""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich.console import Console

from harness import scheduler, store
from harness.sweep import mirroring, worker
from harness.sweep.pool import Duty, Pool, slots, visible_gpus
from harness.sweep.pruning import Pruning

POLL = 0.5  # seconds
EARLY = 60  # seconds by which Slurm may send the warning of a time limit too soon
SPARE = 15  # seconds before the limit at which a task no longer waits for its workers
OTHER_NODES = 2  # that a task tries after one on which no worker starts
BAD_NODES = "bad_nodes.txt"
STOPPED = 85  # exit status of a task that is to go on


@dataclass(frozen=True)
class Task:
    """Everything that travels with a submission; the runs themselves are found in the store."""

    root: str
    name: str
    group: str
    workers: int
    gpus: int
    workers_per_gpu: int
    threads: int
    runs_per_task: int
    minutes: int
    warning: int
    mirror: bool

    def __call__(self) -> None:
        """Raises SystemExit (STOPPED) when it was told to stop, ChildProcessError or DiskFull when it cannot go on."""
        begun = time.monotonic()
        told: list[int] = []

        def on_signal(number: int, frame: FrameType | None) -> None:
            told.append(number)

        for number in worker.Stop.SIGNALS:  # after submitit's own handlers, which these replace
            signal.signal(number, on_signal)
        found = slots(self.workers, self.gpus, self.workers_per_gpu, visible_gpus() if self.gpus else [])
        limit = -(-self.runs_per_task // len(found))
        duty = Duty(Path(self.root), self.name, self.group, limit)
        pool = Pool(duty, found, self.threads, _say)
        pruning = Pruning(duty.root, self.name, _say)
        with mirroring.beside(duty.root, self.name, Console(file=sys.stdout), self.mirror, True) as mirror:
            try:
                pool.start_all(len(found))
                while pool.processes and not told:
                    time.sleep(POLL)
                    if not told:
                        pool.mend()
                        pruning.look(pool.at_work)
            except ChildProcessError as error:
                blame_the_node(duty.folder, error)
                raise
            finally:
                at_limit = time.monotonic() - begun > 60 * self.minutes - self.warning - EARLY
                pool.end(max(SPARE, self.warning - SPARE))
            if told:
                mirror.kill()  # there may be seconds left; another one goes on where it was
                if at_limit:
                    fail_what_stands_still(pool, time.time() - (time.monotonic() - begun), self.minutes)
                leave(signal.Signals(told[0]).name)


def leave(why: str) -> None:
    """Ends the task, to be queued again unless Slurm sees to that. Raises SystemExit."""
    job = str(scheduler.incarnation().get("job", ""))
    state = scheduler.state(job)
    if state == "RUNNING":
        asked = scheduler.requeue(job)
        _say(f"told to stop by {why}: saved, and {'queued again' if asked else 'could not be queued again'}")
    else:
        _say(f"told to stop by {why}: saved; Slurm says {state or 'nothing'}, so what comes next is its decision")
    raise SystemExit(STOPPED)


def blame_the_node(folder: Path, error: ChildProcessError) -> None:
    """No worker can start here: the task is queued again for another node, and later submissions avoid this one."""
    node, mine = os.environ.get("SLURMD_NODENAME", ""), scheduler.incarnation()
    if not node or mine.get("restart", 0) >= OTHER_NODES:
        return
    with open(folder / "slurm" / BAD_NODES, "a") as file:
        file.write(f"{node}\n")
    asked = scheduler.requeue(str(mine["job"]), without=node)
    _say(f"{error}; {'queued again' if asked else 'could not be queued again'} without node {node}")


def fail_what_stands_still(pool: Pool, started: float, minutes: int) -> None:
    """Fails the runs that had most of the task's time, from `started` to its limit, and made no checkpoint in it."""
    half = (time.time() - started) / 2
    for slot in range(len(pool.slots)):
        run = pool.held(slot)
        if run is None or run.state() in store.ENDED:
            continue
        begun = [note for note in run.notes() if note["event"] == "begin"][-1:]
        early = [note for note in begun if started <= note["time"] <= started + half]
        if early and run.saved_step() <= early[0]["saved"]:
            text = f"no checkpoint in a task of {minutes} minutes: raise launcher.minutes, or launcher.warning"
            with run.owned(pool.session) as mine:
                if mine:
                    worker.fail(mine, f"{text} above the time of a step", "")


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S"), line, flush=True)
