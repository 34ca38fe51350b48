"""The trivial run, and the peers that launch many of it: a bare process pool, Hydra's launchers, submitit's executor.

Two workers where the tool allows it. Leaves out: our own launcher and the measuring (`sweep.py`), Slurm (`slurm.py`).

    python -m bench.launchers NAME NUMBER FOLDER     launches so many runs, each leaves one JSON file
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write(path: str) -> str:
    """The trivial run: one small file, whole or absent."""
    record = {"path": path, "accuracy": 0.5, "pid": os.getpid(), "note": "a trivial run of a sweep"}
    Path(f"{path}.tmp").write_text(json.dumps(record))
    os.replace(f"{path}.tmp", path)
    return path


def hydra_task(config: Any) -> None:
    write(str(Path(os.environ["BENCH_FOLDER"]) / f"{config.x}.json"))


def pool(number: int, folder: Path) -> None:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        list(executor.map(write, [str(folder / f"{i}.json") for i in range(number)]))


def hydra_basic(number: int, folder: Path, *words: str) -> None:
    import hydra

    from bench import launchers  # by its name, so that workers can import the task

    sys.argv = ["bench", "-m", f"+x=range(0,{number})", f"hydra.sweep.dir={folder / 'sweep'}", *words]
    hydra.main(version_base="1.3", config_path=None)(launchers.hydra_task)()


def hydra_joblib(number: int, folder: Path) -> None:
    hydra_basic(number, folder, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")


def submitit_local(number: int, folder: Path) -> None:
    import submitit

    from bench import launchers

    executor = submitit.LocalExecutor(folder / "log")
    executor.update_parameters(timeout_min=10)
    waiting = [str(folder / f"{i}.json") for i in range(number)]
    running: list[Any] = []
    while waiting or running:  # it has no queue: two in flight by hand, or the machine drowns
        running = [job for job in running if not job.done()]
        while waiting and len(running) < 2:
            running.append(executor.submit(launchers.write, waiting.pop()))
        time.sleep(0.05)


PEERS: dict[str, tuple[Callable[..., None], str | None, tuple[int, int]]] = {
    "process pool, bare": (pool, None, (100, 2000)),
    "hydra basic": (hydra_basic, "hydra", (5, 25)),
    "hydra joblib": (hydra_joblib, "hydra_plugins.hydra_joblib_launcher", (5, 25)),
    "submitit local": (submitit_local, "submitit", (5, 25)),
}


if __name__ == "__main__":
    PEERS[sys.argv[1]][0](int(sys.argv[2]), Path(sys.argv[3]))
