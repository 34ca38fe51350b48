"""Looking after the runs of a sweep with `prune`, beside those who train them: who falls behind is asked to stop.

    runs/<id>/metrics/   -> curves of the endpoint's metric -> `prune_rules.py` -> runs/<id>/prune.json  (the request)
                                                                                   sweeps/<name>/pruned.jsonl  (the log)

A request is a file, as that of `cancel` is: whoever trains the run stops at its next step with a checkpoint, and a kill
of anybody at any moment loses nothing. Which runs are behind follows from the run folders alone. A run that is in the
log and has no request any more was taken back by `retry`, and is never asked again. Leaves out: stopping (`worker.py`).
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import store
from harness.sweep import columns, prune_rules, worker
from harness.sweep.prune import Prune, is_kept, stratum

EVERY = 2.0  # seconds between looks, or ten times what one takes
LOG = "pruned.jsonl"


@dataclass(frozen=True)
class Member:
    """One run of a group as it stands; `curve` holds the evaluations that may be compared on."""

    run: dict[str, Any]  # of the manifest
    state: str
    sizes: tuple[int, ...]  # of its metrics files
    curve: prune_rules.Curve

    @property
    def id(self) -> str:
        return str(self.run["run"])


@dataclass
class Pruning:
    """`look` never raises: pruning saves time, and must cost nobody a run."""

    root: Path
    name: str
    say: Callable[[str], None]
    manifest: dict[str, Any] = field(default_factory=dict)
    written: int = 0  # when the manifest was, that was read
    groups: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    seen: dict[str, Member] = field(default_factory=dict)
    asked: dict[str, list[Member]] = field(default_factory=dict)  # group -> as it stood when it was asked about
    next: float = 0.0
    trouble: str = ""

    def look(self, held: Callable[[], Iterable[str]]) -> None:
        """Asks about the groups of the runs that `held` names: those that the caller's workers train."""
        begun = time.monotonic()
        if begun < self.next:
            return
        try:
            self._read_manifest()
            if self.manifest.get("prune"):
                import optuna  # noqa: F401 (seconds, once: not part of what a look takes)

                begun = time.monotonic()
                self._look(held)
        except Exception as error:  # whatever it is, training goes on, and the next look may do better
            if str(error) != self.trouble:
                self.trouble = str(error)
                self.say(f"nothing is pruned for now: {type(error).__name__}: {error}")
        now = time.monotonic()
        self.next = now + max(EVERY, 10 * (now - begun))

    def _look(self, held: Callable[[], Iterable[str]]) -> None:
        ids = set(held())
        for key, runs in self.groups.items():
            if any(run["run"] in ids for run in runs):
                self._ask(key, [self._see(run) for run in runs])

    def _ask(self, key: str, members: list[Member]) -> None:
        if self.asked.get(key) == members:
            return
        known = logged(self.root, self.name)
        for line in requests(self.root, members):  # one that was killed before it could tell, or another sweep's
            if line["run"] not in known:
                self._log(line)
                known.add(line["run"])
        for line in decisions(self.manifest, members, known):
            store.write_atomic(self.root / "runs" / line["run"] / worker.PRUNE, store.dump_json(line))
            self._log(line)
            self.say(f"pruned {line['run']}: {line['reason']}")
        self.asked[key] = members

    def _log(self, line: dict[str, Any]) -> None:
        with open(self.root / "sweeps" / self.name / LOG, "a") as log:
            log.write(store.dump_json(line) + "\n")

    def _read_manifest(self) -> None:
        """Anew where it has been written since: a search adds runs."""
        file = self.root / "sweeps" / self.name / "manifest.json"
        written = file.stat().st_mtime_ns
        if written != self.written:
            self.manifest, self.written = store.read_json(file), written
            self.groups = grouped(self.manifest)

    def _see(self, run: dict[str, Any]) -> Member:
        """Reads again what has changed; a run that has ended stays as it was seen."""
        seen = self.seen.get(run["run"])
        if seen and seen.state in store.FINISHED:
            return seen
        folder = store.Run(self.root / "runs" / run["run"])
        state, sizes = folder.state(), tuple(file.stat().st_size for file in _files(folder))  # before they are read
        metric, first = self.manifest["endpoint"]["metric"], self.manifest["prune"]["after"]
        curve = seen.curve if seen and seen.sizes == sizes else read_curve(folder, metric, first)
        self.seen[run["run"]] = Member(run, state, sizes, curve)
        return self.seen[run["run"]]


def grouped(manifest: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Runs that are compared: of one stratum, by median and halving also of one seed.

    A search's trials are compared with those of their own arm alone: they choose its setting, and judge no arm.
    """
    if not manifest.get("prune"):
        return {}
    axes, by_seed = manifest["axes"], manifest["prune"]["rule"] != "wilcoxon"
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in manifest["runs"]:
        trial = bool(run.get("trial"))
        place: Any = sorted((a, v) for a, v in run["labels"].items() if a in axes) if trial else ()
        place = place or stratum(run["labels"], manifest["baseline"])
        found[json.dumps([trial, place, run["seed"] if by_seed else None])].append(run)
    return dict(found)


def decisions(manifest: Mapping[str, Any], members: list[Member], spared: set[str]) -> Iterator[dict[str, Any]]:
    """{run, step, value, rule, reason} for each run of a group that is behind by the sweep's rule."""
    knobs, goal = Prune(**manifest["prune"]), manifest["endpoint"]["goal"]
    if knobs.rule == "wilcoxon":
        yield from _of_cells(manifest, members, spared, knobs)
        return
    for mine in members:
        if mine.state != "running" or mine.id in spared or _kept(manifest, mine):
            continue
        others = [other for other in members if other is not mine]
        if knobs.rule == "median":
            finished = [other.curve for other in others if other.state == "done"]
            reason = prune_rules.median(mine.curve, finished, knobs, goal)
        else:
            reason = prune_rules.halving(mine.curve, [other.curve for other in others], knobs, goal)
        if reason:
            yield _line(mine, knobs.rule, reason)


def _of_cells(
    manifest: Mapping[str, Any], members: list[Member], spared: set[str], knobs: Prune
) -> Iterator[dict[str, Any]]:
    """All replicates of a cell that is behind, also those that have not begun: its arm gets no verdict any more.

    A cell is left alone once one of its runs has been pruned and taken back.
    """
    cells: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        cells[member.run["cell"]].append(member)
    pairs = {
        _named(manifest, runs[0].run): {
            (member.run["seed"], step): value for member in runs for step, value in member.curve.items()
        }
        for runs in cells.values()
    }
    for (name, mine), runs in zip(pairs.items(), cells.values(), strict=True):
        working = any(member.state == "running" for member in runs)
        if not working or _kept(manifest, runs[0]) or any(member.id in spared for member in runs):
            continue
        others = {other: theirs for other, theirs in pairs.items() if other != name}
        if reason := prune_rules.wilcoxon(mine, others, knobs, manifest["endpoint"]["goal"]):
            yield from (_line(member, "wilcoxon", reason) for member in runs if member.state not in store.ENDED)


def _named(manifest: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """A cell by all that its labels say, those of an included cell or a trial among them."""
    axes = list(dict.fromkeys([*manifest["axes"], *run["labels"]]))
    return columns.line(run["labels"], axes, manifest["baseline"]) or str(run["cell"])


def _kept(manifest: Mapping[str, Any], member: Member) -> bool:
    if member.run.get("trial"):
        return False
    return is_kept(member.run["labels"], manifest["baseline"], manifest["control"])


def _line(member: Member, rule: str, reason: str) -> dict[str, Any]:
    step = max(member.curve, default=0)
    return {"run": member.id, "step": step, "value": member.curve.get(step), "rule": rule, "reason": reason}


def logged(root: Path, name: str) -> set[str]:
    """The runs that the sweep's log names."""
    file = root / "sweeps" / name / LOG
    return {line["run"] for line in store.read_lines(file)} if file.exists() else set()


def requests(root: Path, members: Iterable[Member]) -> Iterator[dict[str, Any]]:
    """Those that lie in the members' folders."""
    asked = (store.read_json(root / "runs" / member.id / worker.PRUNE) for member in members)
    return (line for line in asked if line)


def read_curve(run: store.Run, metric: str, first: int) -> dict[int, float]:
    """step -> the metric, at evaluations from step `first` on that are finite; a later attempt cuts an earlier one.

    An evaluation is a line that holds an eval/ metric. A line that is just being written is not read.
    """
    found: dict[int, float] = {}
    key = json.dumps(metric).encode()
    for file in _files(run):
        lines = file.read_bytes().split(b"\n")[:-1]
        begin = json.loads(lines[0])["step"] if lines else math.inf
        found = {step: value for step, value in found.items() if step < begin}
        for line in lines:
            if key in line and b'"eval/' in line:
                record = json.loads(line)
                value = record["m"].get(metric)
                if record["step"] >= first and value is not None and math.isfinite(value):
                    found[record["step"]] = float(value)
    return found


def _files(run: store.Run) -> list[Path]:
    return sorted((run.path / "metrics").glob("a*.jsonl"))
