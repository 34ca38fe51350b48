"""One run folder and one sweep folder: claims, atomic writes, status, provenance, resume point.

    runs/<cell>-s<seed>/   config.yaml  provenance.json  status.json  claim
                           metrics/a000.jsonl  evals/a000.jsonl  samples/a000.jsonl  timing/a000.jsonl
                           checkpoint/step_000020/
    sweeps/<name>/         manifest.json (labels of every run)  figures/  verdict.json  report.md

A run is owned by whoever created its claim file (O_EXCL) and keeps it fresh; a claim that has not been
touched for STALE_AFTER seconds is dead and may be taken over. Each attempt appends to files of its own, one line
per write; when curves are read, a later attempt cuts everything from its first step. Leaves out: what is in
the records (`harness.core.record`) and who runs them (`harness.sweep.launch`).
"""

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from harness.config import RunConfig

STALE_AFTER = 60.0  # seconds without a heartbeat
HEARTBEAT_EVERY = 10.0  # seconds

# libyaml's forms read and write a configuration in 1 ms instead of 8
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

State = Literal["new", "running", "stopped", "done", "failed", "diverged", "stale"]


def write_atomic(path: Path, text: str) -> None:
    """Readers see the old text or the new one, never a part; the new one survives a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def dump_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file; empty where the file is absent or torn."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def create_run(root: Path, config: RunConfig) -> "Run":
    """The folder of a run, made on first call. Later calls renew config.yaml where runtime or paths have changed.

    The identity is the same by construction, so a resumed run may take new micro-batches or a moved model.
    """
    run = Run(root / "runs" / config.run_id)
    file = run.path / "config.yaml"
    text = yaml.dump(config.model_dump(mode="json"), Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        run.path.mkdir(parents=True, exist_ok=True)
        write_atomic(file, text)
    return run


@dataclass(frozen=True)
class Run:
    """One run's folder."""

    path: Path

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

        running, but the claim is gone or not fresh -> stale (its worker died).
        """
        status = read_json(self.path / "status.json") or {"state": "new"}
        if status["state"] == "running" and not self.claim_is_fresh():
            status["state"] = "stale"
        return status

    def state(self) -> State:
        return self.status()["state"]

    def write_status(self, state: State, **fields: Any) -> None:
        previous = read_json(self.path / "status.json")
        kept = {key: previous[key] for key in ("mlflow_run_id",) if key in previous}
        write_atomic(self.path / "status.json", dump_json(kept | fields | {"state": state, "time": time.time()}))

    # -- claims ------------------------------------------------------------------------------------------------

    def claim_is_fresh(self) -> bool:
        try:
            stat = (self.path / "claim").stat()
        except FileNotFoundError:
            return False
        return time.time() - stat.st_mtime < STALE_AFTER and not self._claimant_is_dead()

    def _claimant_is_dead(self) -> bool:
        """True only when the claim names a process of this host (and boot) that no longer exists."""
        claim = read_json(self.path / "claim")
        if claim.get("host") != _host():
            return False
        try:
            return _process_start(int(claim["pid"])) != claim["started"]
        except (KeyError, ValueError):
            return False

    def claim(self, session: str = "") -> str | None:
        """A token when this process now owns the run, None when another live one does.

        `session` names the sweep's launch that the claimant belongs to, so that its deaths can be counted.
        """
        token = uuid.uuid4().hex
        file = self.path / "claim"
        owner = {"host": _host(), "pid": os.getpid(), "started": _process_start(os.getpid())}
        text = dump_json(owner | {"token": token, "session": session})
        for _ in range(2):
            try:
                descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                seen = read_json(file).get("token")
                if self.claim_is_fresh():
                    return None
                self._retire_claim(seen)
                continue
            with os.fdopen(descriptor, "w") as out:
                out.write(text)
            return token
        return None

    def _retire_claim(self, token: str | None) -> None:
        """Moves a dead claim aside by rename, which only one of several contenders can do.

        A contender that comes late may have moved the winner's new claim: it sees another token and puts it back.
        """
        dead = self.path / f".claim.{uuid.uuid4().hex[:8]}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path / "claim", dead)
            if read_json(dead).get("token") != token:
                with contextlib.suppress(FileExistsError):
                    os.link(dead, self.path / "claim")
            dead.unlink()

    def owns(self, token: str) -> bool:
        return read_json(self.path / "claim").get("token") == token

    def heartbeat(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.path / "claim")

    def release(self, token: str) -> None:
        if self.owns(token):
            (self.path / "claim").unlink(missing_ok=True)

    # -- attempts ----------------------------------------------------------------------------------------------

    def next_attempt(self) -> int:
        return len(list((self.path / "metrics").glob("a*.jsonl")))

    def attempt_file(self, kind: str, attempt: int) -> Path:
        return self.path / kind / f"a{attempt:03d}.jsonl"

    def read(self, kind: str) -> list[dict[str, Any]]:
        """The records of all attempts as one curve: a later attempt cuts everything from its first step."""
        records: list[dict[str, Any]] = []
        for file in sorted((self.path / kind).glob("a*.jsonl")):
            lines = list(read_lines(file))
            if lines:
                records = [record for record in records if record["step"] < lines[0]["step"]] + lines
        return records


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a JSON-lines file; a torn last line (a kill in the middle of a write) is skipped."""
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)


def _host() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{os.uname().nodename}/{boot}"


def _process_start(pid: int) -> str:
    """The start time of a live process, so that a reused pid is not taken for its predecessor; '' if none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def provenance() -> dict[str, Any]:
    """Commit, uncommitted diff, command and versions: beside the identity, never in it."""
    from importlib.metadata import PackageNotFoundError, version

    packages = {}
    for name in ("torch", "transformers", "numpy", "safetensors", "pydantic"):
        with contextlib.suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {
        "commit": _git("rev-parse", "HEAD"),
        "diff": _git("diff", "HEAD"),
        "command": sys.argv,
        "python": sys.version.split()[0],
        "packages": packages,
        "host": os.uname().nodename,
    }


@functools.cache
def _git(*arguments: str) -> str:
    """Asked once per process: a worker trains many runs of one commit."""
    here = Path(__file__).resolve().parent
    try:
        done = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
