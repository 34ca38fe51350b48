"""One run folder and one sweep folder: status, attempts, provenance, resume point.

    runs/<cell>-s<seed>/   config.yaml  provenance.json  status.json  claim  attempts.jsonl  error.txt
                           metrics/a000.jsonl  evals/a000.jsonl  samples/a000.jsonl  timing/a000.jsonl
                           checkpoint/step_000020/
    sweeps/<name>/         manifest.json (every run)  slurm/  code/  cache/  figures/  verdict.json  report.html

A run is written only by the owner of its claim (`claims.py`); whoever lost it learns so at the next step or status
and stops. Each attempt appends to files of its own, one line per write; when curves are read, a later attempt cuts
everything from its first step. Leaves out: what is in the records (`harness.core.record`) and who runs them
(`harness.sweep`).
"""

import contextlib
import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from harness.config import RunConfig
from harness.store import claims
from harness.store.files import append, dump_json, read_json, read_lines, write_atomic

# libyaml's forms read and write a configuration in 1 ms instead of 8
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

SNAPSHOT = "snapshot.json"  # beside the package, where it is a copy made for a submission

State = Literal["new", "running", "stopped", "done", "failed", "diverged", "cancelled", "pruned", "stale"]
FINISHED: tuple[State, ...] = ("done", "diverged")  # a diverged run is a result
SETTLED: tuple[State, ...] = (*FINISHED, "pruned")  # of which nothing more is waited for
ENDED: tuple[State, ...] = (*SETTLED, "failed", "cancelled")  # nothing trains it on, until `retry`


class ClaimLost(Exception):
    """Another process owns the run by now: this one must write nothing more into it."""


def create_run(root: Path, config: RunConfig) -> "Run":
    """The folder of a run, made on first call. Later calls renew config.yaml where runtime or paths have changed.

    The identity is the same by construction, so a resumed run may take new micro-batches or a moved model.
    """
    run = Run(root / "runs" / config.run_id)
    file = run.path / "config.yaml"
    text = f"{_cell_text(config)}seed: {config.seed}\n"
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        run.path.mkdir(parents=True, exist_ok=True)
        write_atomic(file, text)
    return run


_last: tuple[RunConfig, str] | None = None  # seeds of one cell share all but a line, and are made one after another


def _cell_text(config: RunConfig) -> str:
    """config.yaml without the seed."""
    global _last
    if _last is None or _last[0].identity is not config.identity or _last[0].runtime is not config.runtime:
        tree = config.model_dump(mode="json", exclude={"seed"})
        _last = config, yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return _last[1]


@dataclass(frozen=True)
class Run:
    """One run's folder; with a token, as its owner."""

    path: Path
    token: str = ""

    @property
    def id(self) -> str:
        return self.path.name

    def config(self) -> RunConfig:
        """Raises FileNotFoundError (with the cure) where the folder holds no run."""
        file = self.path / "config.yaml"
        if not file.exists():
            raise FileNotFoundError(f"{self.path}: no run here (config.yaml is missing); `plan SPEC` lists run folders")
        return RunConfig.model_validate(yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader))

    def status(self) -> dict[str, Any]:
        """The last status written, with `state` corrected by what the claim says now.

        running, but nobody alive holds the claim -> stale (its worker died).
        """
        status = read_json(self.path / "status.json") or {"state": "new"}
        if status["state"] == "running" and not claims.is_live(self._claim):
            status["state"] = "stale"
        return status

    def state(self) -> State:
        return self.status()["state"]

    def write_status(self, state: State, **fields: Any) -> None:
        """Raises ClaimLost where the run is another's by now."""
        self.guard()
        write_atomic(self.path / "status.json", dump_json(fields | {"state": state, "time": time.time()}))

    # -- ownership ---------------------------------------------------------------------------------------------

    @property
    def _claim(self) -> Path:
        return self.path / "claim"

    def claim(self, session: str = "") -> "Run | None":
        """The run as its owner, or None where another live process owns it (`claims.take`).

        Where it belonged to a dead worker of the same pool (`session`), the death is noted.
        """
        taken = claims.take(self._claim, session)
        if taken is None:
            return None
        mine = replace(self, token=taken[0])
        if session and taken[1].get("session") == session:
            mine.note("died", session=session, pid=taken[1].get("pid"), reached=self.reached())
        return mine

    def deaths(self, session: str) -> list[dict[str, Any]]:
        """Of workers of one pool while they had this run, since any attempt got farther than all before it."""
        died = [note for note in self.notes() if note["event"] == "died" and session and note["session"] == session]
        reached = self.reached() if died else -1
        return [note for note in died if note["reached"] == reached]

    def reached(self) -> int:
        """The last step that any attempt has recorded; -1 before the first."""
        return max(
            (line["step"] for file in self.path.glob("metrics/a*.jsonl") for line in read_lines(file)), default=-1
        )

    def is_held(self) -> bool:
        """Whether a live process owns it."""
        return claims.is_live(self._claim)

    @contextlib.contextmanager
    def owned(self, session: str = "") -> "Iterator[Run | None]":
        """The run as its owner until the block ends; None where another live process owns it."""
        mine = self.claim(session)
        try:
            yield mine
        finally:
            if mine:
                mine.release()

    def owner(self) -> dict[str, Any]:
        """What the claim file says: host, pid, started, token, session; job and restart in Slurm."""
        return read_json(self._claim)

    def guard(self) -> None:
        """Raises ClaimLost where the run was claimed by this one and is another's by now."""
        if self.token and not claims.owns(self._claim, self.token):
            raise ClaimLost(self.id)

    def heartbeat(self) -> None:
        claims.beat(self._claim)

    def release(self) -> None:
        claims.release(self._claim, self.token)

    # -- attempts ----------------------------------------------------------------------------------------------

    def next_attempt(self) -> int:
        return len(list((self.path / "metrics").glob("a*.jsonl")))

    def attempt_file(self, kind: str, attempt: int) -> Path:
        return self.path / kind / f"a{attempt:03d}.jsonl"

    def note(self, event: str, **fields: Any) -> None:
        """Appends a line to attempts.jsonl: who began, how it ended, who died."""
        descriptor = os.open(self.path / "attempts.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            append(descriptor, dump_json(fields | {"event": event, "time": time.time()}) + "\n")
        finally:
            os.close(descriptor)

    def notes(self) -> list[dict[str, Any]]:
        file = self.path / "attempts.jsonl"
        return list(read_lines(file)) if file.exists() else []

    def saved_step(self) -> int:
        """The step that the newest checkpoint precedes; 0 where there is none."""
        return max((int(path.name.removeprefix("step_")) for path in self.path.glob("checkpoint/step_*")), default=0)

    def seconds(self) -> float:
        """Seconds that the run's steps took, over all attempts, repeated ones included."""
        return float(sum(self.phases().values()))

    def phases(self) -> dict[str, float]:
        """The same by phase (generate, update, …), in order of their first appearance."""
        found: dict[str, float] = {}
        for file in sorted((self.path / "timing").glob("a*.jsonl")):
            for line in read_lines(file):
                for phase, seconds in line.get("seconds", {}).items():
                    found[phase] = found.get(phase, 0.0) + seconds
        return found

    def read(self, kind: str) -> list[dict[str, Any]]:
        """The records of all attempts as one curve: a later attempt cuts everything from its first step."""
        records: list[dict[str, Any]] = []
        for file in sorted((self.path / kind).glob("a*.jsonl")):
            lines = list(read_lines(file))
            if lines:
                records = [record for record in records if record["step"] < lines[0]["step"]] + lines
        return records


def provenance() -> dict[str, Any]:
    """Commit, uncommitted diff, command and versions: beside the identity, never in it."""
    from importlib.metadata import PackageNotFoundError, version

    packages = {}
    for name in ("torch", "transformers", "numpy", "safetensors", "pydantic"):
        with contextlib.suppress(PackageNotFoundError):
            packages[name] = version(name)
    return code() | {
        "command": sys.argv,
        "python": sys.version.split()[0],
        "packages": packages,
        "host": os.uname().nodename,
    }


@functools.cache
def code() -> dict[str, Any]:
    """{commit, diff} of the code that runs: a snapshot says what it was made from, a checkout is asked once."""
    root = Path(__file__).resolve().parents[2]
    if taken := read_json(root / SNAPSHOT):
        return {key: taken[key] for key in ("commit", "diff")}
    return {"commit": _git(root, "rev-parse", "HEAD"), "diff": _git(root, "diff", "HEAD")}


@functools.cache
def roots() -> tuple[Path, ...]:
    """Where relative paths of a configuration begin: the repository, or a snapshot and what it was taken from."""
    root = Path(__file__).resolve().parents[2]
    origin = read_json(root / SNAPSHOT).get("taken_from")
    return (root, Path(origin)) if origin else (root,)


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
