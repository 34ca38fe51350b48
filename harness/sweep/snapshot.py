"""The code of a submission: a copy of the package, so that jobs run what was submitted even if the checkout moves on.

sweeps/<name>/code/<digest>/ holds harness/ and snapshot.json (commit, diff, where it was taken); equal code is
copied once. Leaves out: packages from outside, which the virtual environment holds.
"""

import hashlib
import os
import shutil
import uuid
from pathlib import Path

from harness import store
from harness.sweep.keys import REPOSITORY

PACKAGE = Path(__file__).resolve().parents[1]
NOT_CODE = ("__pycache__", ".*", "*.pyc")


def place(folder: Path) -> Path:
    """Where the snapshot of the present code stands or would stand, below a sweep's folder."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*")):
        if file.is_file() and not any(file.match(pattern) for pattern in NOT_CODE) and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(PACKAGE)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return folder / "code" / digest.hexdigest()[:12]


def take(folder: Path) -> Path:
    """The snapshot's folder, made by rename on first call."""
    final = place(folder).resolve()
    if (final / store.SNAPSHOT).exists():
        return final
    temporary = final.with_name(f".{uuid.uuid4().hex[:8]}")
    shutil.copytree(PACKAGE, temporary / PACKAGE.name, ignore=shutil.ignore_patterns(*NOT_CODE))
    told = store.code() | {"taken_from": str(REPOSITORY)}
    store.write_atomic(temporary / store.SNAPSHOT, store.dump_json(told))
    try:
        os.rename(temporary, final)
    except OSError:  # another submission of the same code was faster
        shutil.rmtree(temporary)
    return final
