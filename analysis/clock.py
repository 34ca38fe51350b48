"""Where a sweep's time went: hours of its runs' steps and each phase's share of them.

Seconds are those of timing/aNNN.jsonl, all attempts, repeated steps included; a run counts once per GPU it holds.
Leaves out: what is still to come (`status`), what was spared (`savings.py`).
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from analysis import text
from analysis.load import Sweep
from harness.store import read_lines

STARTS = ("load", "engine")  # phases of an attempt's first line that are its start


@dataclass(frozen=True)
class Timed:
    """Of one run, in seconds: by phase; what other runs' work spared, by phase; each attempt's start, by its number."""

    phases: dict[str, float] = field(default_factory=dict)
    spared: dict[str, float] = field(default_factory=dict)
    starts: dict[int, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(self.phases.values())


def timed(root: Path, sweep: Sweep) -> Iterator[tuple[str, int, Timed]]:
    """Every run of the manifest once: its id, how many GPUs it holds (1 without any), and what it recorded."""
    gpus = {name: group.get("gpus", 0) for name, group in sweep.manifest.get("groups", {}).items()}
    weights = {run["run"]: max(1, gpus.get(run.get("group", ""), 0)) for run in sweep.manifest["runs"]}
    for run, weight in weights.items():
        folder = root / "runs" / run
        size = sum(file.stat().st_size for file in folder.glob("timing/a*.jsonl"))
        yield run, weight, _read(folder, size) if size else Timed()


@functools.lru_cache(maxsize=4096)
def _read(folder: Path, size: int) -> Timed:
    """Read once per state of the files, of which `size` is the sum."""
    phases: dict[str, float] = {}
    starts: dict[int, float] = {}
    spared: dict[str, float] = {}
    for file in sorted(folder.glob("timing/a*.jsonl")):
        for number, line in enumerate(read_lines(file)):
            seconds = line.get("seconds", {})
            for phase, some in seconds.items():
                phases[phase] = phases.get(phase, 0.0) + some
            if number == 0 and "load" in seconds:
                starts[int(file.stem[1:])] = sum(seconds.get(phase, 0.0) for phase in STARTS)
            for phase, some in line.get("spared", {}).items():
                spared[phase] = spared.get(phase, 0.0) + some
    return Timed(phases, spared, starts)


def unit(sweep: Sweep) -> str:
    """GPU where some run of the sweep uses one, else CPU."""
    return "GPU" if any(group.get("gpus", 0) for group in sweep.manifest.get("groups", {}).values()) else "CPU"


def spent(root: Path, sweep: Sweep) -> str:
    """`1.20 CPU-hours in 36 runs: update 46 %, generate 30 %, …`; nothing where no step has been timed."""
    total: dict[str, float] = {}
    runs = 0
    for _, weight, found in timed(root, sweep):
        runs += bool(found.phases)
        for phase, seconds in found.phases.items():
            total[phase] = total.get(phase, 0.0) + seconds * weight
    if not runs:
        return ""
    whole = sum(total.values())
    shares = sorted(total.items(), key=lambda item: -item[1])
    parts = ", ".join(f"{phase} {100 * seconds / whole:.0f} %" for phase, seconds in shares if seconds >= whole / 200)
    return f"{whole / 3600:.2f} {unit(sweep)}-hours in {text.plural(runs, 'run')}" + (f": {parts}" if parts else "")
