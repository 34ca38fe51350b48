"""The files a run appends to: metrics, evals and samples (the record), timing (wall-clock, beside it).

One JSON line per write, in a file of this attempt's own; nothing in the record depends on the clock, so a resumed
run's curve is byte-equal to an undisturbed one. Leaves out: reading (`harness.store.Run.read`).
"""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

from harness.store import Run, dump_json

KINDS = ("metrics", "evals", "samples", "timing")


class Recorder:
    """Appends one attempt's lines. `timed` adds a phase's seconds to the step's timing line."""

    def __init__(self, run: Run, attempt: int) -> None:
        self.files: dict[str, int] = {}
        for kind in KINDS:
            path = run.attempt_file(kind, attempt)
            path.parent.mkdir(exist_ok=True)
            self.files[kind] = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self.seconds: dict[str, float] = {}

    def write(self, kind: str, record: dict[str, Any]) -> None:
        os.write(self.files[kind], (dump_json(record) + "\n").encode())

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start

    def step(self, step: int, metrics: dict[str, Any]) -> None:
        """The step's metrics and its timing; floats keep 9 digits, more than a float32 holds."""
        rounded = {key: float(f"{v:.9g}") if isinstance(v, float) else v for key, v in metrics.items()}
        self.write("timing", {"step": step, "time": time.time(), "seconds": self.seconds})
        self.write("metrics", {"step": step, "m": rounded})
        self.seconds = {}

    def close(self) -> None:
        for descriptor in self.files.values():
            os.fsync(descriptor)
            os.close(descriptor)
