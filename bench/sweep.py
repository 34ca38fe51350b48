"""What planning, launching and looking cost: ours beside a bare process pool, Hydra's launchers and submitit's.

CPU seconds are user plus system of all descendants, orphans included; peak memory is that of the one process. Every
launcher starts a small and a larger number of trivial runs (`launchers.py`); the difference gives the cost of one
more run, the rest is the fixed cost. Leaves out: training; Slurm (`slurm.py`); wall time, but that of `status`,
which a person waits for (other work shares the cores).

    python -m bench.sweep            about three minutes
"""

import ctypes
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.launchers import PEERS, write

RUNS_PLANNED = 100_000
PLAN_LIMIT = 15.0  # CPU seconds
PLAN_MEMORY_LIMIT = 1024.0  # MiB
RUN_LIMIT = 5.0  # CPU milliseconds per run beyond the bare pool
RUNS_SHOWN = 1000
STATUS_LIMIT = 2.0  # seconds, CPU and wall
HELP_LIMIT = 0.3  # CPU seconds
PR_SET_CHILD_SUBREAPER = 36
EVALS = [[step, 0.1 + 0.003 * step] for step in range(0, 101, 10)]


@dataclass(frozen=True)
class Cost:
    """What a command took: `cpu` with everything it started, `wall` and `peak` of itself."""

    cpu: float  # seconds
    wall: float  # seconds
    peak: float  # MiB


def train(run: Any, stop: Callable[[], bool]) -> None:
    """The trivial run as a training of ours; HARNESS_TRAIN names it."""
    write(str(run.path / "result.json"))
    run.write_status("done", step=1, steps=1, attempt=0, accuracy=0.5, seconds=12.3, evals=EVALS)


def cost_of(command: list[str], folder: Path, **environment: str) -> Cost:
    """Raises RuntimeError with the command's output where it fails."""
    before, started = _children(), time.perf_counter()
    root = str(Path(__file__).resolve().parents[1])
    quiet = {"OMP_NUM_THREADS": "1", "PYTHONPATH": root, "BENCH_FOLDER": str(folder), "HYDRA_FULL_ERROR": "1"}
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(command, env=os.environ | quiet | environment, stdout=output, stderr=output)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - started
        while True:  # orphans come to us, since we are the subreaper
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                break
        if child.returncode:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)}\n{output.read().decode(errors='replace')[-4000:]}")
    return Cost(_children() - before, wall, usage.ru_maxrss / 1024)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peer(name: str, number: int) -> float:
    """CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "bench.launchers", name, str(number), folder]
        seconds = cost_of(words, Path(folder)).cpu
        found = len(list(Path(folder).glob("*.json")))
        if found != number:
            raise RuntimeError(f"{name}: {found} of {number} runs left a result")
        return seconds


def spec(folder: Path, rates: int, steps: int, seeds: int) -> Path:
    """A grid of rates x steps cells on a model folder without weights."""
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "config.json").write_text("{}")
    path = folder / "bench.yaml"
    path.write_text(
        "question: what does a grid cost?\n"
        f"base: {{model: hub_folder, model.path: {folder / 'model'}}}\n"
        f"axes:\n  train.lr: [{', '.join(f'{i}e-7' for i in range(1, rates + 1))}]\n"
        f"  train.steps: [{', '.join(str(i) for i in range(1, steps + 1))}]\n"
        f"seeds: {seeds}\n"
    )
    return path


def harness(root: Path, *words: str) -> Cost:
    """`python -m harness` on runs and sweeps below `root`."""
    command = [sys.executable, "-m", "harness", "--root", str(root), *words]
    return cost_of(command, root, HARNESS_TRAIN="bench.sweep:train")


def plan(rates: int, steps: int, seeds: int) -> Cost:
    with tempfile.TemporaryDirectory() as name:
        return harness(Path(name), "plan", str(spec(Path(name), rates, steps, seeds)))


def sweep(root: Path, number: int) -> float:
    """CPU seconds of a sweep of `number` runs in two workers, plan and verdict included."""
    path = spec(root, number // 20, 4, 5)
    seconds = harness(root, "sweep", str(path), "--no-mirror", "--workers", "2").cpu
    found = len(list(root.glob("runs/*/result.json")))
    if found != number:
        raise RuntimeError(f"{found} of {number} runs left a result")
    return seconds


def ours(number: int) -> float:
    with tempfile.TemporaryDirectory() as name:
        return sweep(Path(name), number)


def status(number: int) -> Cost:
    """Of `python -m harness status` on a sweep of so many finished runs."""
    with tempfile.TemporaryDirectory() as name:
        sweep(Path(name), number)
        return harness(Path(name), "status", "bench")


def slope(measure: Callable[[int], float], sizes: tuple[int, int]) -> tuple[float, float]:
    """(CPU milliseconds per further run, fixed CPU seconds)."""
    small, large = (measure(size) for size in sizes)
    per_run = (large - small) / (sizes[1] - sizes[0])
    return 1000 * per_run, small - sizes[0] * per_run


def main() -> int:
    """Prints the tables; 1 when a limit is passed."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    seconds = cost_of([sys.executable, "-m", "harness", "--help"], Path()).cpu
    print(f"--help: {seconds:.2f} s CPU (limit {HELP_LIMIT})\n")
    passed = [seconds > HELP_LIMIT, planning(), looking(), launching()]
    return int(any(passed))


def planning() -> bool:
    """Prints its table; whether a limit is passed, as all parts say."""
    print(f"planning {RUNS_PLANNED:,} runs (limits {PLAN_LIMIT:.0f} s CPU, {PLAN_MEMORY_LIMIT:.0f} MiB at its peak)")
    grids = {"20,000 cells x 5 seeds": (200, 100, 5), "100,000 cells x 1 seed": (1000, 100, 1)}
    passed = False
    for name, grid in grids.items():
        cost = plan(*grid)
        each = 1e6 * cost.cpu / RUNS_PLANNED
        print(f"  {name:26} {cost.cpu:6.1f} s {each:6.0f} us per run {cost.peak:6.0f} MiB", flush=True)
        passed |= cost.cpu > PLAN_LIMIT or cost.peak > PLAN_MEMORY_LIMIT
    return passed


def looking() -> bool:
    cost = status(RUNS_SHOWN)
    print(f"\nstatus of {RUNS_SHOWN:,} finished runs (limit {STATUS_LIMIT:.0f} s)")
    print(f"  {cost.cpu:.2f} s CPU, {cost.wall:.2f} s wall, {cost.peak:.0f} MiB", flush=True)
    return max(cost.cpu, cost.wall) > STATUS_LIMIT


def launching() -> bool:
    print("\nlaunching trivial runs, CPU of all descendants")
    print(f"  {'launcher':22} {'ms per run':>10} {'fixed s':>8} {'runs':>12} {'against ours':>13}")
    sizes = (100, 2000)
    mine = slope(ours, sizes)
    bare: tuple[float, float] | None = None
    _row("this harness", *mine, sizes, None)
    for name, (_, module, numbers) in PEERS.items():
        if module and not _installed(module):
            print(f"  {name:22} not installed: pip install -e '.[bench]'")
            continue
        found = slope(lambda number, name=name: peer(name, number), numbers)  # type: ignore[misc]
        bare = found if module is None else bare
        _row(name, *found, numbers, found[0] / mine[0])
    beyond = mine[0] - (bare[0] if bare else 0.0)
    print(f"\nours beyond the bare pool: {beyond:.2f} ms per run (limit {RUN_LIMIT:.0f}), durable and resumable")
    return beyond > RUN_LIMIT


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _row(name: str, per_run: float, fixed: float, numbers: tuple[int, int], ratio: float | None) -> None:
    against = "" if ratio is None else f"{ratio:.1f}x"
    print(f"  {name:22} {per_run:10.2f} {fixed:8.2f} {f'{numbers[0]}, {numbers[1]}':>12} {against:>13}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
