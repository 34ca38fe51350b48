"""The files a run appends to: metrics, evals, outputs, counts and samples (the record), timing (wall-clock, beside it).

One JSON line per write, in files of this attempt's own; nothing in the record depends on the clock, so a resumed
run's curve is byte-equal to an undisturbed one. Leaves out: reading (`harness.store.Run.read`).
"""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

from harness.store import Run, append, dump_json

KINDS = ("metrics", "evals", "outputs", "counts", "samples", "timing")


class Recorder:
    """Appends one attempt's lines. `timed` adds a phase's seconds to the step's timing line; `spared` are those of work
    that another run has done for this one.

    A rank that is not the chief has none and writes nothing. Raises FileExistsError where the attempt's files are
    there already.
    """

    def __init__(self, run: Run, attempt: int, first: int, chief: bool = True) -> None:
        self.spent = run.seconds()
        earlier = [(line["step"], line["m"].get("eval/accuracy")) for line in run.read("metrics")]
        self.evals = [(step, value) for step, value in earlier if step < first and value is not None]
        self.files: dict[str, int] = {}
        for kind in KINDS if chief else ():
            path = run.attempt_file(kind, attempt)
            path.parent.mkdir(exist_ok=True)
            self.files[kind] = os.open(path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY)
        self.seconds: dict[str, float] = {}
        self.spared: dict[str, float] = {}

    def write(self, kind: str, record: dict[str, Any]) -> None:
        if kind in self.files:
            append(self.files[kind], dump_json(record) + "\n")

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start

    def step(self, step: int, metrics: dict[str, Any]) -> None:
        """The step's metrics and its timing; floats keep 9 digits, more than a float32 holds."""
        rounded = {key: float(f"{v:.9g}") if isinstance(v, float) else v for key, v in metrics.items()}
        spared = {"spared": self.spared} if any(self.spared.values()) else {}
        self.write("timing", {"step": step, "time": time.time(), "seconds": self.seconds} | spared)
        self.write("metrics", {"step": step, "m": rounded})
        self.spent += sum(self.seconds.values())
        self.seconds, self.spared = {}, {}
        if rounded.get("eval/accuracy") is not None:
            self.evals.append((step, rounded["eval/accuracy"]))

    def summary(self) -> dict[str, Any]:
        """What a status tells of all attempts: seconds spent, and the accuracy of every evaluation so far."""
        return {"seconds": round(self.spent, 1), "evals": self.evals}

    def close(self) -> None:
        """To the disk; before a status says that the run has ended."""
        for kind in list(self.files):
            descriptor = self.files.pop(kind)
            os.fsync(descriptor)
            os.close(descriptor)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        while self.files:
            os.close(self.files.popitem()[1])
