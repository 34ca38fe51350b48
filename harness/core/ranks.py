"""One run in as many processes as it has GPUs: in this one, or under torchrun, which this one then only watches.

Ranks stop together: the first one looks for the watcher's flag at each step boundary and tells the others. Only it
writes into the run's folder. Ports are torchrun's choice, so that many runs share a host. Leaves out: what the ranks
share (`parallel.py`), and more than one node.

    python -m torch.distributed.run ... -m harness.core.ranks runs/<id> TOKEN FOLDER      (not for people)
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from harness import store
from harness.core.engines import vllm_start
from harness.core.parallel import from_chief
from harness.core.train import train as here  # torch with it: a worker imports this module before it claims a run

POLL = 0.2  # seconds
PATIENCE = timedelta(hours=2)  # of a rank for the others, which may have longer responses to sample and grade
LOST = re.compile("connection (was )?(closed|reset)|broken pipe|NCCL", re.IGNORECASE)  # what is left of another rank
STOP, ERROR = "stop", "error"  # files between the watcher and its ranks


def train(run: store.Run, stop: Callable[[], bool] = lambda: False) -> None:
    """Trains the run; returns at a step boundary once `stop()` is true. Raises what the first failing rank raised."""
    gpus = run.config().runtime.gpus
    if gpus < 2:
        return here(run, stop)
    with tempfile.TemporaryDirectory(prefix="harness-ranks-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}"]
        command += ["-m", "harness.core.ranks", str(run.path), run.token, name]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            while process.poll() is None:
                if stop():
                    (folder / STOP).touch()
                time.sleep(POLL)
        finally:
            if process.poll() is None:  # the claim is lost: no rank may write on
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                _kill_all(folder)
                process.wait()
        if process.returncode:
            _raise(folder, process.returncode)


def _kill_all(folder: Path) -> None:
    """torchrun gives every rank a session of its own; each has left its process id here."""
    for file in folder.glob("pid-*"):
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def _raise(folder: Path, status: int) -> None:
    first = min(folder.glob(f"{ERROR}-*"), key=lambda file: file.stat().st_mtime, default=None)
    if first is None:
        raise ChildProcessError(f"a rank ended without a word (exit status {status}): killed, or out of memory?")
    rank, text = first.name.removeprefix(f"{ERROR}-"), first.read_text()
    silent = [file.name.removeprefix("pid-") for file in folder.glob("pid-*")]
    silent = [other for other in sorted(silent) if not (folder / f"{ERROR}-{other}").exists()]
    if silent and LOST.search(text):
        raise ChildProcessError(
            f"rank {silent[0]} ended without a word: killed, or out of memory? Rank {rank} saw: {text}"
        )
    raise RuntimeError(f"{text}(on rank {rank}) {text.strip().splitlines()[-1]}")


def main(folder: Path, token: str, between: Path) -> None:
    """What a rank does."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # they reach the watcher too, which sees to an orderly stop
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
    rank = dist.get_rank()
    (between / f"pid-{rank}").write_text(str(os.getpid()))

    def stop() -> bool:
        return from_chief((between / STOP).exists() or os.getppid() == 1)

    try:
        here(store.Run(folder, token), stop)
    except BaseException:
        (between / f"{ERROR}-{rank}").write_text(traceback.format_exc())
        raise
    vllm_start.forget()  # an engine that was kept for a next run ends before its groups do, and takes them along
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
