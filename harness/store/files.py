"""Files that a kill, a full disk or a power cut cannot spoil: atomic text, JSON, JSON lines.

Leaves out: which files a run has (`store.py`).
"""

import contextlib
import errno
import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# What ails the storage, not the run: full, over quota, gone away, read only.
STORAGE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EROFS)


def write_atomic(path: Path, text: str) -> None:
    """Readers see the old text or the new one, never a part; the new one survives a power cut."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write under; what stands there takes the path's place at the end; nothing is left after an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def append(descriptor: int, text: str) -> None:
    """One write. Raises OSError (ENOSPC) where the system took only a part: the line is torn and the attempt over."""
    data = text.encode()
    if os.write(descriptor, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def dump_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file; empty where the file is absent or torn."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a JSON-lines file; a torn last one (a kill in the middle of a write) is passed over.

    Says so on stderr. Raises ValueError naming file and line for any other that is no JSON.
    """
    with open(file, "rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("torn")
                value = json.loads(line)
            except ValueError:
                if lines.read(1):
                    raise ValueError(f"{file}:{number}: not a line of JSON: {line[:80]!r}") from None
                print(f"warning: {file}:{number}: a torn last line is passed over", file=sys.stderr)
                return
            yield value
