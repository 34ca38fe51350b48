"""Which processes belong to a cluster, read from /proc: by the environment they were started with, and by descent.

Clients that a test started (SLURM_CONF, but no job) do not belong to it. Not here: anything that a job hid by emptying
its environment after it had left its step.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

DAEMONS = {"munged", "slurmctld", "slurmscriptd", "slurmd", "slurmstepd"}


def of_cluster(conf: Path, node: str | None = None) -> set[int]:
    """Daemons, steps and the processes of jobs; with a node's name, only the steps and jobs there."""
    found, parents = set(), {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            words = dict.fromkeys((folder / "environ").read_bytes().decode(errors="replace").split("\0"))
            # the name in brackets may hold spaces and brackets
            name, after = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            state, parent = after.split()[:2]
            if state == "Z":
                continue
            pid = int(folder.name)
            parents[pid] = int(parent)
            in_job = any(word.startswith("SLURM_JOB_ID=") for word in words)
            ours = f"SLURM_CONF={conf}" in words and (in_job or name in DAEMONS)
            if ours and (node is None or f"SLURMD_NODENAME={node}" in words or _is_step(folder, name, node)):
                found.add(pid)
    return _with_descendants(found, parents) - {os.getpid()}


def _is_step(folder: Path, name: str, node: str) -> bool:
    """A slurmstepd says nowhere which node it is of, but it writes to the log of that node's slurmd."""
    logs = {os.path.basename(os.readlink(file)) for file in (folder / "fd").iterdir()} if name == "slurmstepd" else ()
    return f"slurmd-{node}.log" in logs


def _with_descendants(found: set[int], parents: dict[int, int]) -> set[int]:
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found = found | more
    return found


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_all_of(conf: Path, node: str | None = None, seconds: float = 5) -> None:
    """Until none is left: what is killed may have just started another."""
    deadline = time.monotonic() + seconds
    while left := of_cluster(conf, node):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes that do not end: {sorted(left)}")
        kill(left)
        time.sleep(0.05)
