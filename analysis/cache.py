"""What was read of a sweep's runs, kept as Parquet in sweeps/<name>/cache/: a second look costs a tenth of the first.

Never believed blindly. A file holds some fifty runs, each under the names, sizes and times of its attempt files and
its state; a run for which these differ is read anew, and the file replaced whole. A file that is damaged (checksums),
of another format or about other runs is made anew; where nothing can be written, there is no cache and no complaint.
Deleting the folder costs only time. Leaves out: parsing (`records.py`) and the frames (`load.py`).
"""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import records
from harness.store import replacing

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

FORMAT = 1  # another number makes every older file unread
RUNS_PER_FILE = 50  # few enough that the runs now training sit in one or two files, which are written anew
KEY = b"trick-or-trap"  # in the Parquet file's own metadata

Planned = tuple[Path, str]  # a run's folder and state
Wanted = Callable[[str], bool]  # of a column's name


@dataclass(frozen=True)
class Part:
    """Consecutive runs' rows in one table, `rows` of them for each run."""

    rows: list[int]
    table: "pa.Table"


@dataclass(frozen=True)
class _Kept:
    """A cache file whose description has been checked; `where` has a run's (fingerprint, first row, rows)."""

    file: Any  # pyarrow.parquet.ParquetFile
    where: dict[str, tuple[Any, int, int]]


def parts(runs: list[Planned]) -> list[list[Planned]]:
    """The runs of each cache file, in the manifest's order: neighbours train at the same time."""
    return [runs[start : start + RUNS_PER_FILE] for start in range(0, len(runs), RUNS_PER_FILE)]


def read(folder: Path, kind: str, number: int, runs: list[Planned], wanted: Wanted) -> Part:
    """The wanted columns of one part; from the cache as far as it is true, and with the cache brought up to date."""
    file = folder / f"{kind}-{number:03d}.parquet"
    # taken before reading: what is appended in between makes the next load read the run again
    prints = {run.name: _fingerprint(run, kind, state) for run, state in runs}
    with contextlib.ExitStack() as stack:
        kept = _open(file, kind, stack)
        if kept and [(run, found[0]) for run, found in kept.where.items()] == list(prints.items()):
            table = _take(kept, wanted)
            if table is not None:
                return Part([rows for _, _, rows in kept.where.values()], table)
        old = _by_run(kept) if kept else {}
    none = None, None
    tables = [
        old[run.name][1] if old.get(run.name, none)[0] == prints[run.name] else records.read(run, kind)
        for run, _ in runs
    ]
    rows = [table.num_rows for table in tables]
    whole = _joined(tables)
    _write(file, whole, {"format": FORMAT, "kind": kind, "columns": whole.column_names} | _runs(prints, rows))
    return Part(rows, whole.select([column for column in whole.column_names if column == "step" or wanted(column)]))


def _runs(prints: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    return {"runs": [[run, found, number] for (run, found), number in zip(prints.items(), rows, strict=True)]}


def _fingerprint(run: Path, kind: str, state: str) -> list[Any]:
    """As JSON would give it back."""
    stats = [(entry.name, entry.stat()) for entry in records.files(run, kind)]
    return [state, [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]]


def _joined(tables: "list[pa.Table]") -> "pa.Table":
    """One below the other, columns by name, without those that no run has any more."""
    import pyarrow as pa

    tables = tables or [records.empty()]
    table = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
    rest = sorted(name for name in table.column_names if name != "step" and table[name].null_count < table.num_rows)
    return table.select(["step", *rest]).replace_schema_metadata(None)


def _open(file: Path, kind: str, stack: contextlib.ExitStack) -> _Kept | None:
    """The file, if it is whole and of this format and kind."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        opened = stack.enter_context(parquet.ParquetFile(file, page_checksum_verification=True))
        about = json.loads(opened.metadata.metadata[KEY])
        if (about["format"], about["kind"], about["columns"]) != (FORMAT, kind, opened.schema_arrow.names):
            return None
        where, begin = {}, 0
        for run, found, rows in about["runs"]:
            where[run] = (found, begin, rows)
            begin += rows
        return _Kept(opened, where) if begin == opened.metadata.num_rows else None
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
        return None


def _take(kept: _Kept, wanted: Wanted) -> "pa.Table | None":
    """The wanted columns; None where a page is damaged."""
    import pyarrow as pa

    columns = [name for name in kept.file.schema_arrow.names if name == "step" or wanted(name)]
    try:
        return kept.file.read(columns=columns, use_threads=False).replace_schema_metadata(None)
    except (OSError, pa.ArrowException, ValueError):
        return None


def _by_run(kept: _Kept) -> "dict[str, tuple[Any, pa.Table]]":
    """(fingerprint, rows) of each run; of none where a page is damaged."""
    table = _take(kept, lambda column: True)
    if table is None:
        return {}
    return {run: (found, table.slice(begin, rows)) for run, (found, begin, rows) in kept.where.items()}


def _write(file: Path, table: "pa.Table", about: dict[str, Any]) -> None:
    """Whole or not at all; a folder that takes no file is no error."""
    from pyarrow import parquet

    with contextlib.suppress(OSError):
        file.parent.mkdir(exist_ok=True)
        with replacing(file) as temporary:
            parquet.write_table(
                table.replace_schema_metadata({KEY: json.dumps(about)}),
                temporary,
                compression="lz4",  # constant curves shrink; zstd saves 5 % more and takes twice as long to write
                use_dictionary=[name for name in table.column_names if not name.startswith(records.METRIC)],
                write_statistics=False,
                write_page_checksum=True,
                row_group_size=max(1, table.num_rows),
            )
