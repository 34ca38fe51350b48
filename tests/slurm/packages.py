"""Debian's Slurm packages, installed where they are missing: daemons off, no manual pages indexed.

Not here: other distributions, other versions, an installation without root.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
POLICY = Path("/usr/sbin/policy-rc.d")
MANUALS = Path("/var/lib/man-db/auto-update")


def install() -> str | None:
    """None where every package is there in the end, else why not, in one line."""
    if os.geteuid() != 0:
        return "not root"
    if not shutil.which("apt-get"):
        return "no apt-get on this machine"
    wanted = _missing()
    if not wanted:
        return None
    with _quiet():
        failure = _apt("install", "-y", "--no-install-recommends", *wanted)
        if failure and not _apt("update"):
            failure = _apt("install", "-y", "--no-install-recommends", *wanted)
    return f"apt-get cannot install {' '.join(wanted)}: {failure}" if failure else None


def _missing() -> list[str]:
    asked = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *PACKAGES]
    lines = subprocess.run(asked, capture_output=True, text=True).stdout.splitlines()
    return [name for name in PACKAGES if f"{name} installed" not in lines]


def _apt(*words: str) -> str | None:
    """None, or the last line of what apt-get complained about."""
    # another worker may be installing the same packages
    command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *words]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    except subprocess.TimeoutExpired:
        return "no end after 300 s"
    lines = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
    return lines[-1] if done.returncode else None


@contextmanager
def _quiet() -> Iterator[None]:
    """Packages start no service and man-db rebuilds no index (most of the installation's time); both undone."""
    refuse, index = not POLICY.exists(), MANUALS.exists()
    if refuse:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    if index:
        MANUALS.unlink()
    try:
        yield
    finally:
        if refuse:
            POLICY.unlink()
        if index:
            MANUALS.touch()
