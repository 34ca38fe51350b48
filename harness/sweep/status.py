"""Where a sweep stands: one row per cell with its seeds, what runs now, what failed; live on a terminal.

Reads manifests and status files only. Where stdout is no terminal a live sweep prints one line per event instead.
Leaves out: metrics over time (`analysis`).
"""

import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness import scheduler, store
from harness.store import ENDED, FINISHED
from harness.sweep import columns, hours, slurm_rounds

POLL = 2.0  # seconds between looks at a sweep that is followed
MAX_ROWS = 40  # cells shown; beyond it those at work and failed come first
Statuses = hours.Statuses
MARKS = {"done": "green", "failed": "red", "diverged": "magenta", "running": "cyan", "pruned": "yellow"}


@dataclass
class Row:
    """One cell: its labels, and the statuses of its runs by seed; a chosen setting stands apart from its trial."""

    labels: dict[str, str]
    seeds: dict[int, dict[str, Any]] = field(default_factory=dict)

    def count(self, *states: str) -> int:
        return sum(status["state"] in states for status in self.seeds.values())


def rows(manifest: dict[str, Any], statuses: Statuses) -> list[Row]:
    out: dict[tuple[str, bool], Row] = {}
    for run in manifest["runs"]:
        row = out.setdefault((run["cell"], "trial" in run), Row(run["labels"]))
        row.seeds[run["seed"]] = statuses.get(run["run"], {"state": "new"})
    return list(out.values())


def read_statuses(root: Path, manifest: dict[str, Any]) -> Statuses:
    return {run["run"]: store.Run(root / "runs" / run["run"]).status() for run in manifest["runs"]}


def table(manifest: dict[str, Any], statuses: Statuses, queue: str = "") -> Group:
    """The whole picture: rows, failures, one line of counts, one of hours, and what is in the queue."""
    found = rows(manifest, statuses)
    step = common_step(statuses)
    shown = found
    if len(found) > MAX_ROWS:
        shown = sorted(found, key=lambda row: (-row.count("failed"), -row.count("running")))[:MAX_ROWS]
    axes, baseline = columns.axes(manifest), manifest["baseline"]
    out = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns.names(axes, baseline):
        out.add_column(name)
    out.add_column("done", justify="right")
    out.add_column("seeds")
    out.add_column("accuracy", justify="right")
    if step is not None:
        out.add_column(f"at step {step}", justify="right")
    out.add_column("now")
    for row in shown:
        labels = columns.cells(row.labels, axes, baseline)
        done = f"{row.count(*FINISHED)}/{len(row.seeds)}"
        trimmed = [] if step is None else [_accuracy_at(row, step)]
        out.add_row(*labels, done, _marks(row), _accuracy(row), *trimmed, _now(row))
    parts: list[Any] = [out]
    if len(found) > len(shown):
        parts.append(Text(f"… and {len(found) - len(shown)} more cells", style="dim"))
    parts += [Text(line, style="red") for line in failures(manifest, statuses)[:10]]
    parts += [Text(line, style="yellow") for line in pruned(manifest, statuses)[:10]]
    parts.append(summary(statuses))
    parts += [Text(line, style="dim") for line in (hours.of(manifest, statuses).text(), queue) if line]
    return Group(*parts)


def common_step(statuses: Statuses) -> int | None:
    """The last evaluation that every run with any has reached, so that arms are compared at equal steps.

    None where there is none yet, or where all runs have reached their end. Pruned runs reach no further.
    """
    kept = (status for status in statuses.values() if status["state"] != "pruned")
    reached = [status["evals"][-1][0] for status in kept if status.get("evals")]
    return min(reached) if reached and any(s["state"] not in ENDED for s in statuses.values()) else None


def _accuracy_at(row: Row, step: int) -> str:
    """Of all seeds, or of none: those that a rule left are no sample of them."""
    if row.count("pruned"):
        return ""
    values = [value for s in row.seeds.values() for at, value in s.get("evals", []) if at == step]
    return f"{sum(values) / len(values):.3f}" if values else ""


def _marks(row: Row) -> Text:
    signs = {
        "done": "●",
        "diverged": "◆",
        "failed": "✗",
        "cancelled": "–",
        "pruned": "✂",
        "running": "◐",
        "stale": "◌",
        "stopped": "◌",
    }
    text = Text()
    for _, status in sorted(row.seeds.items()):
        text.append(signs.get(status["state"], "·"), style=MARKS.get(status["state"], "dim"))
    return text


def _accuracy(row: Row) -> str:
    if row.count("pruned"):
        return ""
    values = [s["accuracy"] for s in row.seeds.values() if s["state"] == "done" and s.get("accuracy") is not None]
    return f"{sum(values) / len(values):.3f}" if values else ""


def _now(row: Row) -> str:
    running = [(seed, status) for seed, status in sorted(row.seeds.items()) if status["state"] == "running"]
    return "  ".join(f"s{seed} {_progress(status)}" for seed, status in running)


def _progress(status: dict[str, Any]) -> str:
    text = f"{status.get('step', 0)}/{status.get('steps', '?')}"
    return text + (f" acc {status['accuracy']:.3f}" if status.get("accuracy") is not None else "")


def failures(manifest: dict[str, Any], statuses: Statuses) -> list[str]:
    """One line per failed run: who it is, and its last error line."""
    failed = [run for run in manifest["runs"] if statuses.get(run["run"], {}).get("state") == "failed"]
    return [f"✗ {run['run']}  {_name(manifest, run)}: {statuses[run['run']].get('error', '')}" for run in failed]


def pruned(manifest: dict[str, Any], statuses: Statuses) -> list[str]:
    """One line per pruned run: who it is, how far it came, and why it was stopped."""
    found = [run for run in manifest["runs"] if statuses.get(run["run"], {}).get("state") == "pruned"]
    return [f"✂ {run['run']}  {_name(manifest, run)}: {_pruned(statuses[run['run']])}" for run in found]


def _pruned(status: dict[str, Any]) -> str:
    return f"at step {status.get('step', 0)} of {status.get('steps', '?')}: {status.get('why', '')}"


def _name(manifest: dict[str, Any], run: dict[str, Any]) -> str:
    return f"{columns.line(run['labels'], columns.axes(manifest), manifest['baseline'])} s{run['seed']}"


def summary(statuses: Statuses, left: float | None = None) -> Text:
    named = {"stale": "interrupted", "stopped": "interrupted", "new": "to do"}
    counts = Counter(named.get(status["state"], status["state"]) for status in statuses.values())
    order = ("done", "diverged", "running", "interrupted", "failed", "cancelled", "pruned", "to do")
    text = Text(f"{len(statuses)} runs: ")
    text.append(", ".join(f"{counts[name]} {name}" for name in order if counts[name]))
    if left is not None:
        text.append(f"; about {hours.minutes(left)} left")
    return text


class Progress:
    """Shares of runs trained since the start, for the time that is left."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.first: float | None = None

    def left(self, statuses: Statuses) -> float | None:
        """Seconds until the end at the pace so far; None until there is one."""
        share = sum(_share(status) for status in statuses.values())
        if self.first is None:
            self.first = share
        made, elapsed = share - self.first, time.monotonic() - self.started
        return elapsed * (len(statuses) - share) / made if made > 0.01 and elapsed > 3 else None


def _share(status: dict[str, Any]) -> float:
    if status["state"] in ENDED:
        return 1.0
    return float(status.get("step", 0) / status["steps"]) if status.get("steps") else 0.0


class LiveTable:
    """The table, redrawn in place."""

    def __init__(self, manifest: dict[str, Any], console: Console) -> None:
        self.manifest, self.console, self.progress = manifest, console, Progress()
        self.live = Live(console=console, refresh_per_second=2, transient=False)

    def __enter__(self) -> "LiveTable":
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def update(self, statuses: Statuses) -> None:
        left = self.progress.left(statuses)
        parts = [table(self.manifest, statuses)]
        extra = [Text(f"about {hours.minutes(left)} left", style="dim")] if left else []
        self.live.update(Group(*parts, *extra))

    def say(self, line: str) -> None:
        self.live.console.print(line, style="yellow", highlight=False)


class EventLines:
    """One line when a run starts, ends, fails or is interrupted."""

    def __init__(self, manifest: dict[str, Any], console: Console) -> None:
        self.console, self.progress = console, Progress()
        self.names = {run["run"]: _name(manifest, run) for run in manifest["runs"]}
        self.seen: dict[str, str] = {}

    def __enter__(self) -> "EventLines":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, statuses: Statuses) -> None:
        left = self.progress.left(statuses)
        first = not self.seen
        finished = sum(state in ENDED for state in self.seen.values())
        for id, status in statuses.items():
            state, before = status["state"], self.seen.get(id)
            finished += state in ENDED and before != state
            self.seen[id] = state
            if state == before or (first and state in ENDED) or state == "new":
                continue
            detail = {"failed": status.get("error", ""), "done": _detail(status), "pruned": _pruned(status)}.get(
                state, ""
            )
            ending = f"; {hours.minutes(left)} left" if left and state != "running" else ""
            self.say(f"[{finished}/{len(statuses)}] {state:9} {id}  {self.names[id]}  {detail}{ending}".rstrip())

    def say(self, line: str) -> None:
        self.console.print(f"{time.strftime('%H:%M:%S')} {line}", highlight=False, markup=False, soft_wrap=True)


def _detail(status: dict[str, Any]) -> str:
    return f"accuracy {status['accuracy']:.3f}" if status.get("accuracy") is not None else ""


def display(manifest: dict[str, Any], console: Console, busy: bool) -> LiveTable | EventLines:
    """A live table on a terminal while there is work, event lines elsewhere."""
    return LiveTable(manifest, console) if console.is_terminal and busy else EventLines(manifest, console)


def as_json(root: Path, names: Iterable[str]) -> str:
    """[{sweep, question, runs: [{run, cell, seed, labels, status}]}], for scripts."""
    out = []
    for name in names:
        manifest = store.read_json(root / "sweeps" / name / "manifest.json")
        statuses = read_statuses(root, manifest)
        runs = [run | {"status": statuses[run["run"]]} for run in manifest["runs"]]
        out.append({"sweep": name, "question": manifest["question"], "runs": runs})
    return json.dumps(out, ensure_ascii=False, indent=1)


def show(root: Path, names: Iterable[str], console: Console, failed_only: bool = False) -> None:
    """Prints the state of sweeps, or only the failed runs with their last error line."""
    for name in names:
        manifest = store.read_json(root / "sweeps" / name / "manifest.json")
        statuses = read_statuses(root, manifest)
        if failed_only:
            lines = failures(manifest, statuses) or ["no run failed"]
            for line in lines:
                console.print(line, highlight=False, markup=False, soft_wrap=True)
            continue
        console.print(Text(f"{name}: {manifest['question']}", style="bold"), soft_wrap=True)
        console.print(table(manifest, statuses, queue(root, name)))
        console.print()


def follow(root: Path, name: str, console: Console) -> None:
    """The table (on a terminal) or events until every run of every round has ended; Ctrl-C leaves the sweep alone."""
    folder, goes_on = root / "sweeps" / name, True
    while goes_on:
        manifest = store.read_json(folder / "manifest.json")
        with display(manifest, console, True) as shown:
            shown.update(statuses := read_statuses(root, manifest))
            while not all(status["state"] in ENDED for status in statuses.values()):
                time.sleep(POLL)
                shown.update(statuses := read_statuses(root, manifest))
        goes_on = slurm_rounds.adds_runs(folder, manifest)


def queue(root: Path, name: str) -> str:
    """What Slurm has of a sweep, in one line; '' where it was never submitted."""
    names = list(store.read_json(root / "sweeps" / name / "slurm" / "jobs.json"))
    if not names:
        return ""
    tasks = scheduler.tasks(names)
    if tasks is None:
        return "Slurm does not answer"
    counts = Counter(
        f"{task.state.lower()} ({task.reason})" if task.state == "PENDING" else task.state
        for task in tasks
        if not slurm_rounds.is_next(task.name)
    )
    listed = ", ".join(f"{count} {state.lower()}" for state, count in sorted(counts.items()))
    following = slurm_rounds.waiting(root / "sweeps" / name, tasks)
    if following:
        return f"tasks in Slurm: {listed or 'none'}; {following}"
    return f"tasks in Slurm: {listed or 'none; `sweep` submits what is missing'}"
