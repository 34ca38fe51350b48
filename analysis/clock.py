"""Where a sweep's time went: hours of its runs' steps and each phase's share of them.

Seconds are those of timing/aNNN.jsonl, all attempts, repeated steps included; a run counts once per GPU it holds.
Leaves out: what is still to come (`status`).
"""

import functools
from pathlib import Path

from analysis import text
from analysis.load import Sweep
from harness.store import Run


@functools.lru_cache(maxsize=4096)
def _phases(folder: Path, size: int) -> dict[str, float]:
    """Read once per state of the files, of which `size` is the sum."""
    return Run(folder).phases()


def spent(root: Path, sweep: Sweep) -> str:
    """`1.20 CPU-hours in 36 runs: update 46 %, generate 30 %, …`; nothing where no step has been timed."""
    groups = {run["run"]: run.get("group", "") for run in sweep.manifest["runs"]}
    gpus = {name: group.get("gpus", 0) for name, group in sweep.manifest.get("groups", {}).items()}
    total: dict[str, float] = {}
    timed = 0
    for entry in sweep.runs:
        folder = root / "runs" / entry.run
        size = sum(file.stat().st_size for file in folder.glob("timing/a*.jsonl"))
        phases = _phases(folder, size) if size else {}
        timed += bool(phases)
        for phase, seconds in phases.items():
            total[phase] = total.get(phase, 0.0) + seconds * max(1, gpus.get(groups[entry.run], 0))
    if not timed:
        return ""
    whole = sum(total.values())
    shares = sorted(total.items(), key=lambda item: -item[1])
    parts = ", ".join(f"{phase} {100 * seconds / whole:.0f} %" for phase, seconds in shares if seconds >= whole / 200)
    unit = "GPU" if any(gpus.values()) else "CPU"
    return f"{whole / 3600:.2f} {unit}-hours in {text.plural(timed, 'run')}" + (f": {parts}" if parts else "")
