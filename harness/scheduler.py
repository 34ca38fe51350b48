"""The few questions and orders that Slurm gets from us, each with a time limit; an answer may be `None`: unknown.

Nothing here decides anything. An empty or failed answer is never read as "the job is dead". Leaves out: writing and
submitting batch scripts (`harness.sweep.slurm`).
"""

import os
import re
import subprocess
import time
from dataclasses import dataclass
from typing import Any

SECONDS = 20.0  # for one command; a busy controller answers late, a frozen one never
KNOWN_FOR = 15.0  # seconds for which the list of my running jobs is believed
DEFAULT_ARRAY = 1001  # MaxArraySize where the controller does not say

_running: tuple[float, frozenset[str]] = (0.0, frozenset())


@dataclass(frozen=True)
class Task:
    """A task of an array (or a single job) that is in the queue."""

    id: str  # 71_3
    name: str
    state: str  # PENDING, RUNNING, COMPLETING ...
    reason: str
    node: str

    @property
    def is_live(self) -> bool:
        """Whether it works or is going to: a completing one has ended, whatever comes of it."""
        return self.state in ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "STOPPED")


def incarnation() -> dict[str, Any]:
    """{job, restart} of the Slurm task that this process is part of; empty outside Slurm."""
    job = os.environ.get("SLURM_JOB_ID", "")
    if not job:
        return {}
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        job = f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '0')}"
    return {"job": job, "restart": int(os.environ.get("SLURM_RESTART_COUNT") or 0)}


def tasks(names: list[str]) -> list[Task] | None:
    """My tasks in the queue that bear one of these job names; None where Slurm does not answer."""
    return _mine(f"--name={','.join(names)}")


def _mine(which: str) -> list[Task] | None:
    said = ask("squeue", "--noheader", "--array", "--me", which, "--format=%F|%K|%j|%T|%r|%N")
    return None if said is None else parse(said)


def parse(text: str) -> list[Task]:
    """squeue's lines `array id|index|name|state|reason|node`; a line of another form is passed over."""
    found = []
    for line in text.splitlines():
        parts = line.strip().split("|")
        if len(parts) == 6 and parts[0].isdigit():
            id = parts[0] if parts[1] in ("N/A", "") else f"{parts[0]}_{parts[1]}"
            found.append(Task(id, *parts[2:]))
    return found


def is_running(job: str) -> bool:
    """Whether Slurm says so; False where there is no job, no Slurm or no answer. One question serves many jobs."""
    global _running
    if not job:
        return False
    if time.monotonic() - _running[0] > KNOWN_FOR or not _running[0]:
        _running = (time.monotonic(), frozenset(task.id for task in _mine("--states=RUNNING") or []))
    return job in _running[1]


def state(job: str) -> str | None:
    """PENDING, RUNNING, COMPLETING ...; '' when Slurm no longer knows the job, None when it does not answer."""
    done = _run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")
    if done is None:
        return None
    if done.returncode:
        return "" if "Invalid job id" in done.stderr else None
    return (done.stdout.split() or [""])[0]


def requeue(job: str, without: str = "") -> bool:
    """Queues a running job again; `without`: never again on this node."""
    asked = ask("scontrol", "requeue", job) is not None
    if asked and without:
        ask("scontrol", "update", f"JobId={job}", f"ExcNodeList={without}")
    return asked


def cancel(names: list[str]) -> bool:
    """One call a name: scancel takes no list of them."""
    answers = [ask("scancel", "--me", f"--name={name}") for name in names]
    return None not in answers


def max_array() -> int:
    """How many tasks one array may have: MaxArraySize bounds the index."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config") or "", re.MULTILINE)
    return int(found.group(1)) if found else DEFAULT_ARRAY


def ask(*command: str) -> str | None:
    """What a command prints; None where it is not there, fails or takes too long."""
    done = _run(*command)
    return done.stdout if done and done.returncode == 0 else None


def _run(*command: str) -> "subprocess.CompletedProcess[str] | None":
    """Asked again where a signal ended the command: what Slurm sends to a task reaches all that it has started."""
    try:
        for _ in range(3):
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
            if done.returncode >= 0:
                return done
    except (OSError, subprocess.TimeoutExpired):
        pass
    return None
