"""Who owns a run: a claim file made with O_EXCL, kept fresh by a heartbeat, and fenced.

A claim is dead when its process is gone (same host and boot), when a later incarnation of its own Slurm job asks
(job id and restart count are the lease), or when it has not been touched for STALE_AFTER seconds and Slurm does not
say that its job runs. A dead claim is moved aside by rename, so that one contender of several wins. Whoever lost a
claim finds another token in it and must write nothing more. Leaves out: what is owned (`store.py`).
"""

import contextlib
import os
import time
import uuid
from pathlib import Path
from typing import Any

from harness import scheduler
from harness.store.files import dump_json, read_json

STALE_AFTER = 180.0  # seconds without a heartbeat; a shared filesystem may show a time that is a minute old
HEARTBEAT_EVERY = 10.0  # seconds


def take(file: Path, session: str = "") -> tuple[str, dict[str, Any]] | None:
    """(token, the dead claim that was in the way) when this process now owns the run, None when a live one does.

    `session` names the pool that the claimant belongs to, so that the deaths of its workers can be counted.
    """
    token, retired = uuid.uuid4().hex, {}
    text = dump_json(_owner() | {"token": token, "session": session})
    for _ in range(2):
        try:
            descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            seen = read_json(file)
            if is_live(file):
                return None
            retired = seen if _retire(file, seen.get("token")) else {}
            continue
        with os.fdopen(descriptor, "w") as out:
            out.write(text)
        return token, retired
    return None


def owns(file: Path, token: str) -> bool:
    return read_json(file).get("token") == token


def beat(file: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.utime(file)


def release(file: Path, token: str) -> None:
    if owns(file, token):
        file.unlink(missing_ok=True)


def is_live(file: Path) -> bool:
    try:
        age = time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return False
    claim = read_json(file)
    if _is_superseded(claim) or _process_is_gone(claim):
        return False
    return age < STALE_AFTER or scheduler.is_running(str(claim.get("job", "")))


def _owner() -> dict[str, Any]:
    pid = os.getpid()
    return {"host": host(), "pid": pid, "started": _process_start(pid)} | scheduler.incarnation()


def _is_superseded(claim: dict[str, Any]) -> bool:
    """Whether it belongs to an earlier incarnation of the Slurm job that asks: that one is a ghost by now."""
    mine = scheduler.incarnation()
    return bool(mine) and claim.get("job") == mine["job"] and claim.get("restart", 0) < mine["restart"]


def _process_is_gone(claim: dict[str, Any]) -> bool:
    """True only when the claim names a process of this host (and boot) that no longer exists."""
    if claim.get("host") != host():
        return False
    try:
        return _process_start(int(claim["pid"])) != claim["started"]
    except (KeyError, ValueError):
        return False


def _retire(file: Path, token: str | None) -> bool:
    """Moves a dead claim aside by rename, which only one of several contenders can do: whether it was this one.

    A contender that comes late may have moved the winner's new claim: it sees another token and puts it back.
    """
    dead = file.with_name(f".claim.{uuid.uuid4().hex[:8]}")
    try:
        os.rename(file, dead)
    except FileNotFoundError:
        return False
    mine = read_json(dead).get("token") == token
    if not mine:
        with contextlib.suppress(FileExistsError):
            os.link(dead, file)
    dead.unlink()
    return mine


def host() -> str:
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
