"""`python -m harness doctor`: is everything here that a sweep needs? One line per part, with the cure where it is not.

Every look has a time limit, and none imports torch or MLflow. Leaves out: repairing anything.
"""

import importlib.metadata
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

from rich.console import Console
from rich.table import Table

from harness.sweep.tracking import address

SECONDS = 5.0  # for anything that may hang
ROOM = 2.0  # GiB free, below which a sweep is likely to fill the disk
PACKAGES = ("torch", "transformers", "hydra-core", "mlflow", "pandas", "matplotlib")
SIGNS = {"ok": "green", "absent": "dim", "bad": "red"}


@dataclass(frozen=True)
class Finding:
    """`state`: ok, absent (nothing is wrong, but the feature is not there) or bad."""

    part: str
    state: str
    text: str


def examine(root: Path) -> list[Finding]:
    looks: tuple[Callable[[], Finding], ...] = (
        lambda: folder(root),
        lambda: disk(root),
        versions,
        processors,
        gpu,
        slurm,
        lambda: tracking(address(root)),
    )
    return [look() for look in looks]


def show(root: Path, console: Console) -> int:
    """Prints the findings; 1 where something is bad."""
    found = examine(root)
    table = Table.grid(padding=(0, 2))
    for finding in found:
        table.add_row(f"[{SIGNS[finding.state]}]{finding.state}[/]", finding.part, finding.text)
    console.print(table)
    return int(any(finding.state == "bad" for finding in found))


def folder(root: Path) -> Finding:
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".doctor-") as name:
            first, second = Path(name) / "a", Path(name) / "b"
            first.write_text("x")
            os.rename(first, second)
            os.close(os.open(first, os.O_CREAT | os.O_EXCL))
    except OSError as error:
        return Finding("folder", "bad", f"{root}: cannot be written ({error.strerror}); give another with --root DIR")
    return Finding("folder", "ok", f"{root.resolve()} takes files, renames and exclusive claims")


def disk(root: Path) -> Finding:
    free = shutil.disk_usage(root if root.exists() else ".").free / 2**30
    if free < ROOM:
        return Finding(
            "disk", "bad", f"{free:.1f} GiB free; a sweep wants at least {ROOM:.0f}: clear some, or --root DIR"
        )
    return Finding("disk", "ok", f"{free:.0f} GiB free")


def versions() -> Finding:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return Finding("packages", "bad", f"not installed: {', '.join(missing)}; pip install -c constraints.txt -e .")
    return Finding("packages", "ok", ", ".join(found))


def processors() -> Finding:
    cores = len(os.sched_getaffinity(0))
    return Finding("cores", "ok", f"{cores}: that many runs at a time on the CPU")


def gpu() -> Finding:
    names = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    if not names:
        return Finding("GPU", "absent", "no NVIDIA GPU; the miniature scale needs none")
    return Finding("GPU", "ok", ", ".join(names.splitlines()))


def slurm() -> Finding:
    if not shutil.which("sbatch"):
        return Finding("Slurm", "absent", "no sbatch here; sweeps run on this machine")
    said = _output("scontrol", "ping")
    if "UP" not in said:
        return Finding("Slurm", "bad", f"sbatch is here, but the controller does not answer within {SECONDS:.0f} s")
    return Finding("Slurm", "ok", said.splitlines()[0])


def tracking(uri: str) -> Finding:
    """Only whether a server listens; a run never waits for one."""
    parts = urlparse(uri)
    if parts.scheme not in ("http", "https"):
        return Finding("tracking", "ok", f"MLflow in {uri}, no server needed")
    try:
        socket.create_connection(
            (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)), SECONDS
        ).close()
    except OSError as error:
        why = f"{uri} does not answer ({error.strerror or error})"
        return Finding("tracking", "bad", f"{why}; runs go on without it, `python -m harness mirror SWEEP` catches up")
    return Finding("tracking", "ok", f"{uri} answers")


def _output(*command: str) -> str:
    """What a command prints, '' if it is not there, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
