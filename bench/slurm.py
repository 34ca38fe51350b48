"""Trivial runs per second on a real, throw-away Slurm: ours, whose workers pull, beside one Slurm job per run.

`python -m harness sweep` with four tasks of one worker each; `sbatch --array` of a shell line that writes one file,
which no Python job can undercut; submitit's array of Python functions, for scale and so once and fewer. Each of these
two has 32 jobs at a time. Ours and sbatch take turns, and the medians count. Wall time, from before the submission to
the last result's time stamp, with our plan, snapshot and workers' start in it. Leaves out: CPU time; a site's
scheduling delays, which cost per job, so that arrays look better here than there; training.

    python -m bench.slurm            under three minutes; says so where Slurm cannot be installed
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.launchers import write
from bench.sweep import spec
from tests.slurm.cluster import Cluster

RUNS, ROUNDS = 1000, 3
RUNS_SUBMITIT = 100
TASKS, JOBS = 4, 32  # at a time: ours, and one job per run
PATIENCE = 120.0  # seconds for all of one launcher's results
REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Pace:
    """Seconds of the submission itself, and until the last result."""

    runs: int
    submission: float
    wall: float

    @property
    def rate(self) -> float:
        return self.runs / self.wall


def ours(folder: Path, number: int) -> Pace:
    """`sweep` onto Slurm; a result is a run's final status."""
    words = ["--root", str(folder), "sweep", str(spec(folder, number // 20, 4, 5)), "--no-mirror"]
    words += ["launcher=slurm", f"launcher.max_concurrent={TASKS}"]

    def submit() -> None:
        command(sys.executable, "-m", "harness", *words, HARNESS_TRAIN="bench.sweep:train")

    pace = timed(submit, lambda: list(folder.glob("runs/*/status.json")), number)
    done = sum('"done"' in file.read_text() for file in folder.glob("runs/*/status.json"))
    if done != number:
        raise RuntimeError(f"{done} of {number} runs are done")
    return pace


def sbatch(folder: Path, number: int) -> Pace:
    """One job per run, as a user has it without any tool."""
    array = f"--array=0-{number - 1}%{JOBS}"
    line = f"echo 0.5 > {folder}/$SLURM_ARRAY_TASK_ID.txt"
    return timed(
        lambda: command("sbatch", array, "-o", "/dev/null", "--wrap", line),
        lambda: list(folder.glob("*.txt")),
        number,
    )


def submitit_array(folder: Path, number: int) -> Pace:
    """One Python job per run."""
    import submitit

    executor = submitit.AutoExecutor(folder=folder / "log", cluster="slurm")
    executor.update_parameters(timeout_min=10, slurm_array_parallelism=JOBS)
    return timed(
        lambda: executor.map_array(write, [str(folder / f"{i}.json") for i in range(number)]),
        lambda: list(folder.glob("*.json")),
        number,
    )


def timed(submit: Callable[[], object], results: Callable[[], list[Path]], number: int) -> Pace:
    """Raises TimeoutError where results stay away."""
    begun = time.time()
    submit()
    submission = time.time() - begun
    while len(found := results()) < number:
        if time.time() - begun > PATIENCE:
            raise TimeoutError(f"{len(found)} of {number} results after {PATIENCE:.0f} s")
        time.sleep(0.5)  # rarely, since looking costs the jobs time; the files know when they were written
    return Pace(number, submission, max(file.stat().st_mtime for file in found) - begun)


def command(*words: str, **environment: str) -> None:
    """Raises RuntimeError with the output where it fails."""
    done = subprocess.run(words, env=os.environ | environment, cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def main() -> int:
    """Prints the table; 1 where one job per run is faster."""
    if reason := Cluster.install():
        print(f"no Slurm: {reason}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or the cluster would outlive us
    for name in [name for name in os.environ if name.startswith(("SLURM", "SBATCH", "SRUN", "SQUEUE"))]:
        del os.environ[name]
    path = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with Cluster(path / "slurm") as cluster:
            os.environ |= cluster.environment | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
            ratio = measure(path, cluster)
        if left := cluster.processes():
            raise RuntimeError(f"left behind: {sorted(left)}")
    finally:
        shutil.rmtree(path)
    print(f"\nours / sbatch: {ratio:.1f} (at least 1.0)")
    return int(ratio < 1.0)


def measure(path: Path, cluster: Cluster) -> float:
    """Prints the table; our median rate over that of sbatch."""
    print("trivial runs on a throw-away Slurm, wall time")
    print(f"  {'launcher':24} {'runs':>5} {'submission s':>13} {'last result s':>14} {'runs per s':>11}", flush=True)

    def show(name: str, launch: Callable[[Path, int], Pace], number: int) -> float:
        pace = launch(Path(tempfile.mkdtemp(dir=path)), number)
        numbers = f"{number:5} {pace.submission:13.2f} {pace.wall:14.1f} {pace.rate:11.1f}"
        print(f"  {name:24} {numbers}", flush=True)
        cluster.wait_empty(60)  # each begins on an empty queue
        return pace.rate

    mine, plain = [], []
    for _ in range(ROUNDS):
        mine.append(show(f"this harness, {TASKS} tasks", ours, RUNS))
        plain.append(show("sbatch array, sh", sbatch, RUNS))
    show("submitit array, python", submitit_array, RUNS_SUBMITIT)
    return statistics.median(mine) / statistics.median(plain)


if __name__ == "__main__":
    sys.exit(main())
