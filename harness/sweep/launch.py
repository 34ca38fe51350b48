"""The local pool: worker processes of one thread each, watched until no run is left.

A worker that dies is replaced and its run tried again, at most twice; Ctrl-C lets every worker finish its step and
save a checkpoint. Nothing is kept in memory that the store does not hold, so that any kill leaves a state that the
same command resumes. Leaves out: what a worker does (`worker.py`), Slurm.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness import store
from harness.sweep import worker
from harness.sweep.keys import REPOSITORY
from harness.sweep.plan import Plan

BARREN_ALLOWED = 3  # deaths of workers in a row without a run begun or ended between them
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
        self.pending = [id for id in self.pending if self.statuses[id]["state"] not in worker.FINAL]


class Pool:
    """Worker processes in their own sessions, so that a terminal's Ctrl-C reaches only us."""

    def __init__(self, plan: Plan, size: int) -> None:
        self.plan, self.size = plan, size
        self.processes: dict[int, subprocess.Popen[bytes]] = {}  # slot -> process
        threads = max((cell.runtime.threads for cell in plan.expansion.cells), default=1)
        self.environment = worker_environment(threads) | {worker.SESSION: f"{os.getpid()}-{time.time():.3f}"}

    def start(self, slot: int) -> None:
        command = [sys.executable, "-m", "harness", "--root", str(self.plan.root), "work", self.plan.name]
        with open(self.plan.folder / f"worker-{slot}.log", "ab") as log:
            self.processes[slot] = subprocess.Popen(
                [*command, "--parent", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )

    def ended(self) -> list[tuple[int, int]]:
        """(slot, exit status) of every worker that has left since the last call."""
        left = [(slot, p.returncode) for slot, p in self.processes.items() if p.poll() is not None]
        for slot, _ in left:
            del self.processes[slot]
        return left

    def send(self, number: signal.Signals) -> None:
        for process in self.processes.values():
            process.send_signal(number)

    def log_tail(self, slot: int) -> str:
        try:
            lines = (self.plan.folder / f"worker-{slot}.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


def worker_environment(threads: int) -> dict[str, str]:
    """One thread pool of `threads` per worker: the cores are shared between workers, not fought over."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    quiet = {"TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
    return os.environ | dict.fromkeys(names, str(threads)) | quiet | {"PYTHONPATH": path}


def sweep(plan: Plan, size: int, display: Display) -> Outcome:
    """Trains all that is missing with `size` workers; returns when nothing is left or after Ctrl-C."""
    watch = Watch(plan.root, [run.id for run in plan.expansion.runs()])
    pool = Pool(plan, size)
    watch.look()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill` is as gentle as Ctrl-C
    interrupted = False
    try:
        _supervise(plan, pool, watch, display)
    except KeyboardInterrupt:
        interrupted = True
        _stop(pool, display)
    finally:
        pool.send(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)
    watch.look()
    display.update(watch.statuses)
    states = {id: status["state"] for id, status in watch.statuses.items()}
    failed = tuple(id for id, state in states.items() if state == "failed")
    return Outcome(sum(state in ("done", "diverged") for state in states.values()), failed, interrupted)


def _supervise(plan: Plan, pool: Pool, watch: Watch, display: Display) -> None:
    barren, seen = 0, _progress(watch)  # workers that died in a row while no run went on: a broken installation
    for slot in range(min(pool.size, len(watch.pending))):
        pool.start(slot)
    while watch.pending:
        started = time.perf_counter()
        watch.look()
        for slot, status in pool.ended():
            if status == 0:
                continue
            reason = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
            barren, seen = (barren + 1 if _progress(watch) == seen else 1), _progress(watch)
            if barren > BARREN_ALLOWED:
                raise ChildProcessError(
                    f"workers die before they train ({reason}): {pool.log_tail(slot) or 'no output'}; "
                    f"see {plan.folder / f'worker-{slot}.log'}"
                )
            display.say(f"worker {slot} died ({reason}); another takes its place")
            if watch.pending:
                pool.start(slot)
        if watch.pending and not pool.processes:  # all left because nothing was free, yet a run is open again
            pool.start(0)
        display.update(watch.statuses)
        time.sleep(max(POLL, 10 * (time.perf_counter() - started)) if watch.pending else 0)


def _progress(watch: Watch) -> tuple[int, int]:
    """(runs that are final, attempts begun)."""
    attempts = sum(status["attempt"] + 1 for status in watch.statuses.values() if "attempt" in status)
    return len(watch.statuses) - len(watch.pending), attempts


def _stop(pool: Pool, display: Display) -> None:
    """Every worker ends its step and saves; a second Ctrl-C kills."""
    display.say("stopping: each worker finishes its step and saves a checkpoint (Ctrl-C again kills)")
    pool.send(signal.SIGTERM)
    try:
        for process in pool.processes.values():
            process.wait()
    except KeyboardInterrupt:
        pool.send(signal.SIGKILL)
        display.say("killed; each run goes on from its last checkpoint")
