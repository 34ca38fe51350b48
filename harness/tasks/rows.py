"""The rows of a JSON-lines or Parquet file, and a field of a row. Leaves out: what the fields mean."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from harness.tricks import nearest

KINDS = (".jsonl", ".json", ".parquet")


def read(path: Path, wanted: Collection[str] = ()) -> list[tuple[str, Any]]:
    """(place, row) of every row, the place as `file:number` counted from 1.

    Of Parquet only the columns of the fields `wanted` are read where it has them all: others may be gigabytes.

    Raises ValueError naming file and line for one that is not JSON, and for another kind of file.
    """
    if path.suffix == ".parquet":
        from pyarrow import parquet  # type: ignore[import-untyped]

        outer = {name.partition(".")[0] for name in wanted}
        columns = sorted(outer) if outer and outer <= set(parquet.read_schema(path).names) else None
        table = parquet.read_table(path, columns=columns)
        return [(f"{path}:{number}", row) for number, row in enumerate(table.to_pylist(), 1)]
    if path.suffix not in KINDS:
        raise ValueError(f"{path}: neither JSON lines nor Parquet (it ends in '{path.suffix}', not {', '.join(KINDS)})")
    lines = path.read_text(encoding="utf-8").split("\n")  # splitlines would also cut at U+2028 inside a string
    return [(f"{path}:{number}", _row(path, number, line)) for number, line in enumerate(lines, 1) if line.strip()]


def _row(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{number}: not JSON: {error.msg}") from None


def field(place: str, row: Any, name: str) -> Any:
    """A row's field; `a.b` is field b within a. Raises ValueError naming the place, with the nearest field."""
    if isinstance(row, dict) and name in row:
        return row[name]
    outer, dot, inner = name.partition(".")
    if dot and isinstance(row, dict) and isinstance(row.get(outer), dict):
        return field(place, row[outer], inner)
    has = ", ".join(map(str, row)) if isinstance(row, dict) else "no fields"
    raise ValueError(
        f"{place}: no field '{name}'{nearest(name, row if isinstance(row, dict) else ())} (the row has {has})"
    )
