"""What a run leaves on disk: its folder (`run.py`), who may write there (`claims.py`), whole files (`files.py`)."""

from harness.store import claims
from harness.store.claims import HEARTBEAT_EVERY, STALE_AFTER
from harness.store.files import STORAGE_ERRORS, append, dump_json, read_json, read_lines, replacing, write_atomic
from harness.store.run import (
    ENDED,
    FINISHED,
    SETTLED,
    SNAPSHOT,
    ClaimLost,
    Run,
    State,
    code,
    create_run,
    provenance,
    roots,
)

__all__ = [
    "ENDED",
    "FINISHED",
    "HEARTBEAT_EVERY",
    "SETTLED",
    "SNAPSHOT",
    "STALE_AFTER",
    "STORAGE_ERRORS",
    "ClaimLost",
    "Run",
    "State",
    "append",
    "claims",
    "code",
    "create_run",
    "dump_json",
    "provenance",
    "read_json",
    "read_lines",
    "replacing",
    "roots",
    "write_atomic",
]
