"""The local launch: a pool of workers on this machine, watched until no run is left.

A worker that dies is replaced and its run tried again; Ctrl-C lets every worker finish its step and save a
checkpoint. Nothing is kept in memory that the store does not hold, so that any kill leaves a state that the same
command resumes. Leaves out: the workers' lives (`pool.py`), Slurm (`slurm.py`).
"""

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness import store
from harness.store import claims
from harness.sweep.cancel import LAUNCH
from harness.sweep.plan import Plan
from harness.sweep.pool import Duty, Pool
from harness.sweep.pruning import Pruning

POLL = 0.25  # seconds, or ten times what a look at the runs takes


@runtime_checkable
class Display(Protocol):
    """Told what every look at the runs found; `status.py` has one for terminals and one for logs."""

    def update(self, statuses: dict[str, dict[str, Any]]) -> None: ...

    def say(self, line: str) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """Run ids by how the sweep left them."""

    finished: int
    failed: tuple[str, ...]
    interrupted: bool

    @property
    def exit_code(self) -> int:
        return 130 if self.interrupted else 1 if self.failed else 0


class Watch:
    """The last status of every run; only those not final are read again."""

    def __init__(self, root: Path, ids: list[str]) -> None:
        self.root = root
        self.statuses: dict[str, dict[str, Any]] = {id: {"state": "new"} for id in ids}
        self.pending = list(ids)

    def look(self) -> None:
        for id in self.pending:
            self.statuses[id] = store.Run(self.root / "runs" / id).status()
        self.pending = [id for id in self.pending if self.statuses[id]["state"] not in store.ENDED]


def sweep(plan: Plan, slots: list[dict[str, str]], display: Display) -> Outcome:
    """Trains all that is missing with a worker per slot; returns when nothing is left or after Ctrl-C.

    Raises ChildProcessError where workers cannot start, DiskFull where nothing can be written.
    """
    watch = Watch(plan.root, [run.id for run in plan.expansion.runs()])
    threads = max((cell.runtime.threads for cell in plan.expansion.cells), default=1)
    pool = Pool(Duty(plan.root, plan.name), slots, threads, display.say)
    watch.look()
    taken = claims.take(plan.folder / LAUNCH)  # so that `cancel` finds us; a second launch beside us has none
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill` is as gentle as Ctrl-C
    interrupted = False
    try:
        _supervise(pool, watch, Pruning(plan.root, plan.name, display.say), display)
    except KeyboardInterrupt:
        interrupted = True
        _stop(pool, display)
    finally:
        pool.send(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)
        if taken:
            claims.release(plan.folder / LAUNCH, taken[0])
    watch.look()
    display.update(watch.statuses)
    states = {id: status["state"] for id, status in watch.statuses.items()}
    failed = tuple(id for id, state in states.items() if state in ("failed", "cancelled"))
    return Outcome(sum(state in store.FINISHED for state in states.values()), failed, interrupted)


def _supervise(pool: Pool, watch: Watch, pruning: Pruning, display: Display) -> None:
    pool.start_all(len(watch.pending))
    while watch.pending:
        started = time.perf_counter()
        watch.look()
        pool.mend()
        pruning.look(pool.at_work)
        if watch.pending and not pool.processes:  # all left because nothing was free, yet a run is open again
            pool.start(0)
        display.update(watch.statuses)
        time.sleep(max(POLL, 10 * (time.perf_counter() - started)) if watch.pending else 0)


def _stop(pool: Pool, display: Display) -> None:
    """Every worker ends its step and saves; a second Ctrl-C kills."""
    display.say("stopping: each worker finishes its step and saves a checkpoint (Ctrl-C again kills)")
    pool.send(signal.SIGTERM)
    try:
        pool.wait()
    except KeyboardInterrupt:
        pool.send(signal.SIGKILL)
        display.say("killed; each run goes on from its last checkpoint")
