"""What planning and launching cost: ours beside a bare process pool, Hydra's launchers and submitit's local executor.

A trivial run writes one JSON file. CPU seconds are user plus system of all descendants, orphans included. Every
launcher starts a small and a larger number of runs; the difference gives the cost of one more run, the rest is
the fixed cost. Two workers where the tool allows it. Leaves out: training; wall time (other work shares the cores).

    python -m bench.sweep            about three minutes
"""

import argparse
import ctypes
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUNS_PLANNED = 100_000
PLAN_LIMIT = 15.0  # CPU seconds
RUN_LIMIT = 5.0  # CPU milliseconds per run beyond the bare pool
PR_SET_CHILD_SUBREAPER = 36


def write(path: str) -> str:
    """The trivial run: one small file, whole or absent."""
    record = {"path": path, "accuracy": 0.5, "pid": os.getpid(), "note": "a trivial run of a sweep"}
    Path(f"{path}.tmp").write_text(json.dumps(record))
    os.replace(f"{path}.tmp", path)
    return path


def train(run: Any, stop: Callable[[], bool]) -> None:
    """The same as a training of ours; HARNESS_TRAIN names it."""
    write(str(run.path / "result.json"))
    run.write_status("done", step=1, steps=1, attempt=0, accuracy=0.5)


def hydra_task(config: Any) -> None:
    write(str(Path(os.environ["BENCH_FOLDER"]) / f"{config.x}.json"))


def pool(number: int, folder: Path) -> None:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        list(executor.map(write, [str(folder / f"{i}.json") for i in range(number)]))


def hydra_basic(number: int, folder: Path, *words: str) -> None:
    import hydra

    from bench import sweep  # by its name, so that workers can import the task

    sys.argv = ["bench", "-m", f"+x=range(0,{number})", f"hydra.sweep.dir={folder / 'sweep'}", *words]
    hydra.main(version_base="1.3", config_path=None)(sweep.hydra_task)()


def hydra_joblib(number: int, folder: Path) -> None:
    hydra_basic(number, folder, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")


def submitit_local(number: int, folder: Path) -> None:
    import submitit

    from bench import sweep

    executor = submitit.LocalExecutor(folder / "log")
    executor.update_parameters(timeout_min=10)
    waiting = [str(folder / f"{i}.json") for i in range(number)]
    running: list[Any] = []
    while waiting or running:  # it has no queue: two in flight by hand, or the machine drowns
        running = [job for job in running if not job.done()]
        while waiting and len(running) < 2:
            running.append(executor.submit(sweep.write, waiting.pop()))
        time.sleep(0.05)


PEERS: dict[str, tuple[Callable[..., None], str | None, tuple[int, int]]] = {
    "process pool, bare": (pool, None, (100, 2000)),
    "hydra basic": (hydra_basic, "hydra", (5, 25)),
    "hydra joblib": (hydra_joblib, "hydra_plugins.hydra_joblib_launcher", (5, 25)),
    "submitit local": (submitit_local, "submitit", (5, 25)),
}


def cpu_of(command: list[str], folder: Path, **environment: str) -> float:
    """CPU seconds of a command and everything it started. Raises RuntimeError with its output where it fails."""
    before = _children()
    root = str(Path(__file__).resolve().parents[1])
    quiet = {"OMP_NUM_THREADS": "1", "PYTHONPATH": root, "BENCH_FOLDER": str(folder), "HYDRA_FULL_ERROR": "1"}
    done = subprocess.run(command, env=os.environ | quiet | environment, capture_output=True, text=True)
    while True:  # orphans come to us, since we are the subreaper
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peer(name: str, number: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        seconds = cpu_of([sys.executable, "-m", "bench.sweep", "--case", name, str(number), folder], Path(folder))
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


def plan(rates: int, steps: int, seeds: int) -> float:
    """CPU seconds of `python -m harness plan`."""
    with tempfile.TemporaryDirectory() as name:
        path = spec(Path(name), rates, steps, seeds)
        return cpu_of([sys.executable, "-m", "harness", "--root", name, "plan", str(path)], Path(name))


def ours(number: int) -> float:
    """CPU seconds of `python -m harness sweep` on `number` runs in two workers, plan and verdict included."""
    with tempfile.TemporaryDirectory() as name:
        path = spec(Path(name), number // 20, 4, 5)
        words = ["--root", name, "sweep", str(path), "--no-mirror", "--workers", "2"]
        seconds = cpu_of([sys.executable, "-m", "harness", *words], Path(name), HARNESS_TRAIN="bench.sweep:train")
        found = len(list(Path(name).glob("runs/*/result.json")))
        if found != number:
            raise RuntimeError(f"{found} of {number} runs left a result")
        return seconds


def slope(measure: Callable[[int], float], sizes: tuple[int, int]) -> tuple[float, float]:
    """(CPU milliseconds per further run, fixed CPU seconds)."""
    small, large = (measure(size) for size in sizes)
    per_run = (large - small) / (sizes[1] - sizes[0])
    return 1000 * per_run, small - sizes[0] * per_run


def main() -> int:
    """Prints both tables; 1 when a limit is passed."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    help_seconds = cpu_of([sys.executable, "-m", "harness", "--help"], Path())
    print(f"--help: {help_seconds:.2f} s CPU (limit 0.3)\n")
    print(f"planning {RUNS_PLANNED:,} runs, CPU seconds (limit {PLAN_LIMIT:.0f})")
    grids = {"20,000 cells x 5 seeds": (200, 100, 5), "100,000 cells x 1 seed": (1000, 100, 1)}
    plans = {name: plan(*grid) for name, grid in grids.items()}
    for name, seconds in plans.items():
        print(f"  {name:26} {seconds:6.1f} s   {1e6 * seconds / RUNS_PLANNED:5.0f} us per run")

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
    return int(max(plans.values()) > PLAN_LIMIT or beyond > RUN_LIMIT or help_seconds > 0.3)


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _row(name: str, per_run: float, fixed: float, numbers: tuple[int, int], ratio: float | None) -> None:
    against = "" if ratio is None else f"{ratio:.1f}x"
    print(f"  {name:22} {per_run:10.2f} {fixed:8.2f} {f'{numbers[0]}, {numbers[1]}':>12} {against:>13}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        PEERS[options.case[0]][0](int(options.case[1]), Path(options.case[2]))
    else:
        sys.exit(main())
