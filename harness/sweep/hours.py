"""What a sweep has cost and what is left of it, from manifests and statuses alone.

A run's time is judged by finished runs of its cell, else by all finished ones, else by the pace of those at work.
Leaves out: the plan's estimate before anything has run (`estimate.py`).
"""

import heapq
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.store import ENDED

Statuses = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Hours:
    """Hours of GPUs where runs use any, else of the processor; `wall` seconds are left with as many at work as now."""

    unit: str
    spent: float
    left: float | None
    wall: float | None

    def text(self) -> str:
        if not self.spent:
            return ""  # nothing has run yet
        parts = [f"{amount(self.spent)} {self.unit}-hours spent"]
        if self.left:
            parts.append(f"about {amount(self.left)} left")
        if self.wall:
            parts.append(f"{minutes(self.wall)} to go")
        return ", ".join(parts)


def of(manifest: dict[str, Any], statuses: Statuses) -> Hours:
    weights = _weights(manifest)
    spent = sum(statuses.get(run, {}).get("seconds", 0.0) * weight for run, weight in weights.items())
    whole = _whole_times(manifest, statuses)
    open_runs = [run for run in manifest["runs"] if statuses.get(run["run"], {"state": "new"})["state"] not in ENDED]
    left = wall = None
    if whole and open_runs:
        remaining = {run["run"]: _remaining(run, statuses.get(run["run"], {}), whole) for run in open_runs}
        left = sum(seconds * weights[run] for run, seconds in remaining.items()) / 3600
        busy = {run["run"] for run in open_runs if statuses.get(run["run"], {}).get("state") == "running"}
        waiting = (seconds for run, seconds in remaining.items() if run not in busy)
        wall = makespan([*(remaining[run] for run in busy), *waiting], len(busy)) if busy else None
    unit = "GPU" if any(group["gpus"] for group in manifest.get("groups", {}).values()) else "CPU"
    return Hours(unit, spent / 3600, left, wall)


def makespan(seconds: Iterable[float], workers: int) -> float:
    """When the last of these runs ends, if each of `workers` takes the next one whenever it is free; 0 for none."""
    free = [0.0] * max(1, workers)
    for length in seconds:
        heapq.heapreplace(free, free[0] + length)
    return max(free)


def _weights(manifest: dict[str, Any]) -> dict[str, int]:
    """run -> how many GPUs (or one processor) it keeps busy."""
    gpus = {name: max(1, group["gpus"]) for name, group in manifest.get("groups", {}).items()}
    return {run["run"]: gpus.get(run.get("group", ""), 1) for run in manifest["runs"]}


def _whole_times(manifest: dict[str, Any], statuses: Statuses) -> dict[str, float]:
    """cell -> seconds of a whole run; under '' those of any run; empty where nothing can be said yet."""
    found: dict[str, list[float]] = defaultdict(list)
    pace = []
    for run in manifest["runs"]:
        status = statuses.get(run["run"], {})
        seconds = status.get("seconds")
        if seconds and status["state"] == "done":
            found[run["cell"]].append(seconds)
        elif seconds and status.get("step"):
            pace.append(seconds / status["step"] * status["steps"])
    whole = {cell: statistics.mean(times) for cell, times in found.items()}
    everything = [seconds for times in found.values() for seconds in times] or pace
    return whole | {"": statistics.mean(everything)} if everything else {}


def _remaining(run: dict[str, Any], status: dict[str, Any], whole: dict[str, float]) -> float:
    share = 1 - status.get("step", 0) / status["steps"] if status.get("steps") else 1.0
    return whole.get(run["cell"], whole[""]) * share


def minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def amount(hours: float) -> str:
    return f"{hours:.2f}" if hours < 1 else f"{hours:.1f}" if hours < 100 else f"{hours:,.0f}"
