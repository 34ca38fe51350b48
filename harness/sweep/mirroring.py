"""The mirror beside a sweep: a low-priority process that may fail, hang or be missing without touching the sweep.

Leaves out: what it sends (`mirror.py`).
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from harness.sweep import mirror
from harness.sweep.pool import worker_environment

PATIENCE = 60.0  # seconds for the last pass


@dataclass
class Beside:
    """The mirror's process, if there is one."""

    name: str
    log: Path
    console: Console
    process: "subprocess.Popen[bytes] | None" = None
    begin: int = 0  # where in the log its own lines start; other mirrors of the sweep write there too

    def finish(self) -> None:
        """Lets it make its last pass; says so in one line when that fails."""
        if self.process is None:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()  # its end of file is the sign to make the last pass; our death gives the same
        try:
            complete = self.process.wait(PATIENCE) == 0
        except subprocess.TimeoutExpired:
            self.process.kill()
            complete = False
        self.process = None
        if not complete:
            own = self.log.read_bytes()[self.begin :].decode(errors="replace")
            lines = own.strip().splitlines() or [f"MLflow copy of '{self.name}' is behind: no answer"]
            self.console.print(
                f"{lines[-1]}; nothing is lost: `python -m harness mirror {self.name}` catches up",
                style="yellow",
                highlight=False,
            )

    def kill(self) -> None:
        """Without a last pass: another mirror goes on where this one was."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextlib.contextmanager
def beside(root: Path, name: str, console: Console, wanted: bool, busy: bool) -> Iterator[Beside]:
    """Starts the mirror unless it is not wanted, not installed, or idle with nothing to send."""
    it = Beside(name, root / "sweeps" / name / "mirror.log", console)
    if wanted and importlib.util.find_spec("mlflow") is None:
        console.print("MLflow is not installed, so there is no copy in it; the record is in runs/", style="dim")
    elif wanted and (busy or not mirror.is_current(root, name)):
        with open(it.log, "ab") as log:
            it.begin = log.tell()
            it.process = subprocess.Popen(
                [sys.executable, "-m", "harness", "--root", str(root), "mirror", name, "--follow", "--until-eof"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=worker_environment(1),
                start_new_session=True,
                preexec_fn=lambda: os.nice(10) and None,
            )
    try:
        yield it
    finally:
        it.finish()
