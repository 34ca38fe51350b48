"""What a sweep did not have to compute, in hours, from what its runs and others have recorded.

    first evaluations   seconds that one took, for each run that read it instead (timing's `spared`, evaluate)
    first rollouts      the same of step 0's samples (`spared`, generate)
    coinciding places   the seconds of a run, for each further place of the grid that it fills (aliases)
    taken over          the seconds of runs that had ended before this sweep was begun
    warm workers        later starts in a process · mean of first starts in one - what these later starts took
    stop                seeds that were not added · mean seconds of the cell's runs
    pruned              seconds of a run / its steps · the steps that it did not make

Per cent is of what the sweep would have taken without: spent + saved. What its design left out stands apart, since it
is not the same answer for less. Leaves out: where the time went (`clock.py`).
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import clock, text
from analysis.clock import Timed
from analysis.load import Sweep
from harness.store import Run, read_json

LEAST = 0.0005  # of the whole; less is not worth a word
SHORT = 360.0  # seconds below which hours say nothing


@dataclass(frozen=True)
class Saved:
    what: str
    seconds: float  # of processors or GPUs


def said(root: Path, sweep: Sweep) -> list[str]:
    """A sentence on what was saved, and one on what the design left out; nothing where nothing was timed or saved."""
    found = list(clock.timed(root, sweep))
    spent = sum(weight * of.seconds for _, weight, of in found)
    if not spent:
        return []
    lines, unit = [], f"{clock.unit(sweep)}-hours"
    parts = [part for part in saved(root, sweep, found) if part.seconds > LEAST * spent]
    if parts:
        total = sum(part.seconds for part in parts)
        own = spent - sum(part.seconds for part in parts if part.what.startswith(TAKEN))
        share = 100 * total / (own + total)
        one, name, digits = (3600, unit, 2) if total >= SHORT else (1, unit.replace("hours", "seconds"), 0)
        listed = "; ".join(f"{part.what} {part.seconds / one:,.{digits}f}" for part in parts)
        lines.append(f"Saved {total / one:,.{digits}f} {name}, {share:.0f} % of what this would have taken: {listed}.")
    if left_out := not_run(sweep):
        mean = spent / sum(of.seconds > 0 for _, _, of in found)
        lines.append(
            f"Left out by the design ({sweep.manifest['design']['kind']}): {left_out:,} runs of all combinations, "
            f"about {left_out * mean / 3600:,.1f} {unit}."
        )
    return lines


def lines(root: Path, sweep: Sweep) -> list[str]:
    """The same for a terminal, with an empty line behind it."""
    sentences = [line for sentence in said(root, sweep) for line in text.wrap(sentence)]
    return [*sentences, ""] if sentences else []


TAKEN = "taken over"
PHASES = ("evaluate", "generate")  # whose first results runs share


def saved(root: Path, sweep: Sweep, found: list[tuple[str, int, Timed]]) -> list[Saved]:
    """Each kind, also where it is nothing. `found` is what `clock.timed` gives."""
    times = {run: weight * of.seconds for run, weight, of in found}
    cells: dict[str, list[float]] = defaultdict(list)
    for run in sweep.manifest["runs"]:
        if times[run["run"]]:
            cells[run.get("cell", "")].append(times[run["run"]])
    evaluations, rollouts = (
        [weight * of.spared[phase] for _, weight, of in found if of.spared.get(phase)] for phase in PHASES
    )
    again = [seconds for alias in sweep.manifest.get("aliases", []) for seconds in cells[alias["cell"]]]
    earlier = _taken_over(root, sweep, times)
    starts, warm = _warm(root, found)
    seeds, unused = _not_added(sweep, cells)
    pruned = _not_made(root, sweep, times)
    return [
        Saved(f"first evaluations shared by {text.plural(len(evaluations), 'run')}", sum(evaluations)),
        Saved(f"first rollouts shared by {text.plural(len(rollouts), 'run')}", sum(rollouts)),
        Saved(f"{text.plural(len(again), 'run')} of places that coincide", sum(again)),
        Saved(f"{TAKEN} from other sweeps, {text.plural(len(earlier), 'run')},", sum(earlier)),
        Saved(f"{text.plural(starts, 'start')} in warm workers", warm),
        Saved(f"{text.plural(seeds, 'seed')} that `stop` did not add", unused),
        Saved(f"steps of {text.plural(len(pruned), 'pruned run')}", sum(pruned)),
    ]


def _taken_over(root: Path, sweep: Sweep, times: dict[str, float]) -> list[float]:
    begun = sweep.manifest.get("begun", 0.0)
    ended = {run: read_json(root / "runs" / run / "status.json") for run in times}
    return [seconds for run, seconds in times.items() if seconds and ended[run].get("time", math.inf) < begun]


def _warm(root: Path, found: list[tuple[str, int, Timed]]) -> tuple[int, float]:
    """(starts after the first in their process, seconds that they took less than first ones)."""
    by_process: dict[tuple[Any, Any], list[tuple[float, float]]] = defaultdict(list)
    for run, weight, of in found:
        for note in Run(root / "runs" / run).notes() if of.starts else ():
            if note["event"] == "begin" and note.get("attempt") in of.starts:
                seconds = weight * of.starts[note["attempt"]]
                by_process[note.get("host"), note.get("pid")].append((note["time"], seconds))
    ordered = [[seconds for _, seconds in sorted(starts)] for starts in by_process.values()]
    first, later = [starts[0] for starts in ordered], [seconds for starts in ordered for seconds in starts[1:]]
    if not later:
        return 0, 0.0
    return len(later), max(0.0, len(later) * math.fsum(first) / len(first) - math.fsum(later))


def _not_added(sweep: Sweep, cells: dict[str, list[float]]) -> tuple[int, float]:
    """Nothing before the last run has ended: what is not added yet may still be."""
    stop = sweep.manifest.get("stop")
    if not stop or any(entry.state in ("new", "running", "stopped", "stale") for entry in sweep.missing):
        return 0, 0.0
    unused = {cell: stop["max_seeds"] - wanted for cell, wanted in stop["wanted"].items() if cells[cell]}
    seconds = (number * math.fsum(cells[cell]) / len(cells[cell]) for cell, number in unused.items())
    return sum(unused.values()), math.fsum(seconds)


def _not_made(root: Path, sweep: Sweep, times: dict[str, float]) -> list[float]:
    found = []
    for run in sweep.manifest["runs"]:
        status = read_json(root / "runs" / run["run"] / "status.json")
        if status.get("state") == "pruned" and status.get("step"):
            found.append(times[run["run"]] * (status["steps"] / status["step"] - 1))
    return found


def not_run(sweep: Sweep) -> int:
    """Runs of all combinations less those of an `oat`, fractional or sampled design; 0 for others.

    Nor where axes are conditional: not every combination of levels is one of the grid then.
    """
    design, axes = sweep.manifest.get("design", {}), sweep.manifest["axes"]
    cells, labels = {run["cell"] for run in sweep.manifest["runs"]}, [run["labels"] for run in sweep.manifest["runs"]]
    if design.get("kind") not in ("oat", "sample", "fractional") or any(not axes.keys() <= at.keys() for at in labels):
        return 0
    if design["kind"] == "fractional":
        strata = math.prod(len(axes[axis]) for axis in design["within"])
        return (design["of"] - design["runs"]) * strata * len(sweep.manifest["seeds"])
    return max(0, math.prod(map(len, axes.values())) - len(cells)) * len(sweep.manifest["seeds"])
