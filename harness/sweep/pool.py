"""Worker processes on one machine: started in their own sessions, replaced when they die, told to stop.

A death costs the run that the worker held one of its tries (`worker.give_up`), at once all where the kernel killed it
for memory; workers that die without having begun a run end the pool. Leaves out: what a worker does
(`worker.py`), when the pool is done (`launch.py` on this machine, `task.py` in a Slurm task).
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import store
from harness.sweep import worker
from harness.sweep.keys import REPOSITORY

BARREN_ALLOWED = 3  # deaths of workers in a row without a run begun

Say = Callable[[str], None]


@dataclass(frozen=True)
class Duty:
    """What the workers are for: a sweep's runs, or one group of them, `limit` at most for each worker (0 = all)."""

    root: Path
    name: str
    group: str = ""
    limit: int = 0

    @property
    def folder(self) -> Path:
        return self.root / "sweeps" / self.name

    def command(self) -> list[str]:
        words = [sys.executable, "-m", "harness", "--root", str(self.root), "work", self.name]
        words += ["--parent", str(os.getpid()), "--limit", str(self.limit)]
        return words + (["--group", self.group] if self.group else [])


class Pool:
    """`slots[i]` is what worker i finds in its environment beside the rest, such as its GPUs."""

    def __init__(self, duty: Duty, slots: list[dict[str, str]], threads: int, say: Say) -> None:
        self.duty, self.slots, self.say = duty, slots, say
        self.session = f"{os.getpid()}-{time.time():.3f}"
        self.environment = worker_environment(threads) | {worker.SESSION: self.session}
        self.notes = tempfile.TemporaryDirectory(prefix="harness-")  # of this machine: what each worker trains
        self.processes: dict[int, subprocess.Popen[bytes]] = {}  # slot -> process
        self.barren, self.killed_for_memory = 0, _killed_for_memory()

    def log(self, slot: int) -> Path:
        """One file per worker of this machine or task; each process appends to it."""
        task = os.environ.get("SLURM_ARRAY_TASK_ID", "")
        return self.duty.folder / f"worker-{f'{task}-' if task else ''}{slot}.log"

    def start(self, slot: int) -> None:
        current = {worker.CURRENT: str(Path(self.notes.name) / str(slot))}
        with open(self.log(slot), "ab") as log:
            self.processes[slot] = subprocess.Popen(
                self.duty.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment | current | self.slots[slot],
                start_new_session=True,
            )

    def start_all(self, most: int) -> None:
        for slot in range(min(len(self.slots), most)):
            self.start(slot)

    def mend(self) -> None:
        """Sees to every worker that has ended since the last call. Raises ChildProcessError, DiskFull."""
        for slot, process in [(s, p) for s, p in self.processes.items() if p.poll() is not None]:
            del self.processes[slot]
            if process.returncode == 0:
                continue
            if process.returncode == worker.DISK_FULL:
                raise worker.DiskFull(self.log_tail(slot))
            reason = self._count(slot, process.pid, process.returncode)
            self.say(f"worker {slot} died ({reason}); another takes its place")
            self.start(slot)

    def _count(self, slot: int, pid: int, status: int) -> str:
        """Why the worker died. Takes the run that it had begun, which notes the death, and fails it after one too many.

        A SIGKILL that was not the kernel's for memory came from outside and says little about the run.
        """
        killed, self.killed_for_memory = self.killed_for_memory, _killed_for_memory()
        of_memory = self.killed_for_memory > killed
        outside = status == -signal.SIGKILL and not of_memory
        reason = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        run = self.held(slot)
        begun = run is not None and any(n["event"] == "begin" and n.get("pid") == pid for n in run.notes())
        self.barren = 0 if begun else self.barren + (not outside)
        if self.barren > BARREN_ALLOWED:
            raise ChildProcessError(
                f"workers die before they train ({reason}): {self.log_tail(slot) or 'no output'}; see {self.log(slot)}"
            )
        if run is None or not begun or run.state() in store.ENDED:
            return reason
        if not outside:
            run.note(worker.OWN_DEATH, session=self.session, pid=pid, reason=reason)
        with run.owned(self.session) as mine:  # or another worker was faster, and noted the death
            if mine and of_memory:
                worker.fail(mine, "killed for memory: ask for more with runtime.mem_gb, or train with less", "")
            elif mine:
                worker.give_up(mine, self.session)
        return reason

    def held(self, slot: int) -> store.Run | None:
        """The run that a slot's worker took last."""
        with contextlib.suppress(OSError, ValueError):
            id, _ = (Path(self.notes.name) / str(slot)).read_text().split()
            return store.Run(self.duty.root / "runs" / id)
        return None

    def at_work(self) -> list[str]:
        """The runs that its workers took last."""
        return [run.id for slot in self.processes if (run := self.held(slot))]

    def send(self, number: signal.Signals) -> None:
        for process in self.processes.values():
            process.send_signal(number)

    def wait(self, seconds: float | None = None) -> None:
        """Until all have ended; at most so many seconds together."""
        end = None if seconds is None else time.monotonic() + seconds
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(None if end is None else max(0.0, end - time.monotonic()))

    def end(self, seconds: float) -> None:
        """Every worker saves and leaves; after so many seconds those that are left are killed. None may outlive us."""
        self.send(signal.SIGTERM)
        self.wait(seconds)
        self.send(signal.SIGKILL)
        self.wait()

    def log_tail(self, slot: int) -> str:
        try:
            lines = self.log(slot).read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


def worker_environment(threads: int) -> dict[str, str]:
    """One thread pool of `threads` per worker: the cores are shared between workers, not fought over."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    quiet = {"TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
    return os.environ | dict.fromkeys(names, str(threads)) | quiet | {"PYTHONPATH": path}


def slots(workers: int, gpus: int, workers_per_gpu: int, visible: list[str]) -> list[dict[str, str]]:
    """What each worker sees of the GPUs: `gpus` of its own for one run, or one that several share; all without GPUs.

    Never more than `workers` (0 = as many as there is room for). Raises ValueError where there are too few GPUs.
    """
    if not gpus:
        return [{} for _ in range(max(1, workers))]
    if len(visible) < gpus:
        cure = "choose launcher=slurm, or runtime.gpus=0 to train on the CPU"
        raise ValueError(f"runtime.gpus: a run asks for {gpus}, but {len(visible)} are visible here; {cure}")
    shares = [visible[i : i + gpus] for i in range(0, len(visible) - gpus + 1, gpus)]
    found = [{"CUDA_VISIBLE_DEVICES": ",".join(share)} for share in shares for _ in range(workers_per_gpu)]
    return found[:workers] if workers else found


def visible_gpus() -> list[str]:
    """The GPUs that this process may use: what CUDA_VISIBLE_DEVICES says, else all that nvidia-smi lists."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name for name in given.split(",") if name.strip()]
    try:
        done = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(i) for i, line in enumerate(done.stdout.splitlines()) if line.startswith("GPU ")]


def _killed_for_memory() -> int:
    """How often the kernel has killed for memory on this machine, in any control group; 0 where it does not count."""
    try:
        counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(counts.get("oom_kill", 0))
