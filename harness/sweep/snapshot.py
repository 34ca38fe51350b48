"""The code of a submission: a copy of what jobs read, so that they run what was submitted if the checkout moves on.

sweeps/<name>/code/<digest>/ holds PARTS and snapshot.json (commit, diff, where it was taken); equal code is copied
once. Leaves out: packages from outside, which the virtual environment holds.
"""

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from harness import store
from harness.sweep.keys import REPOSITORY

PARTS = ("harness", "analysis", "experiments", "grid_specs/claims.yaml")  # workers need the first, a next round all
NOT_CODE = ("__pycache__", ".*", "*.pyc")


def place(folder: Path) -> Path:
    """Where the snapshot of the present code stands or would stand, below a sweep's folder."""
    digest = hashlib.sha256()
    for file in _files():
        name = file.relative_to(REPOSITORY)
        digest.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return folder / "code" / digest.hexdigest()[:12]


def take(folder: Path) -> Path:
    """The snapshot's folder, made by rename on first call; one that is taken from a snapshot has its origin."""
    final = place(folder).resolve()
    if (final / store.SNAPSHOT).exists():
        return final
    temporary = final.with_name(f".{uuid.uuid4().hex[:8]}")
    for file in _files():
        copy = temporary / file.relative_to(REPOSITORY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
    told = store.code() | {"taken_from": str(store.roots()[-1])}
    store.write_atomic(temporary / store.SNAPSHOT, store.dump_json(told))
    try:
        os.rename(temporary, final)
    except OSError:  # another submission of the same code was faster
        shutil.rmtree(temporary)
    return final


def _files() -> Iterator[Path]:
    for part in PARTS:
        path = REPOSITORY / part
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            within = file.relative_to(REPOSITORY)
            if file.is_file() and not any(Path(name).match(no) for name in within.parts for no in NOT_CODE):
                yield file
