"""A run's attempt files as one Arrow table: metrics a row per step and a column per metric, evals a row per answer.

A clean file is parsed by Arrow, several times as fast as by Python's json; whatever else (a torn last line, spaces
around a null, a step that is no integer) goes line by line through `harness.store.read_lines`, whose warnings and
errors hold. In the metrics table a missing metric is null and a recorded null is NaN. Leaves out: keeping what was
read (`cache.py`), and what the columns mean.
"""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store import read_lines

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

METRIC = "m:"  # before a metric's name, so that none is mistaken for the step


def files(run: Path, kind: str) -> list[os.DirEntry[str]]:
    """The attempts' files of a kind, in the order of the attempts."""
    try:
        with os.scandir(run / kind) as entries:
            found = [entry for entry in entries if entry.name.startswith("a") and entry.name.endswith(".jsonl")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=lambda entry: entry.name)


def read(run: Path, kind: str) -> "pa.Table":
    """All attempts as one table: a later attempt cuts everything from its first step, as in `Run.read`.

    Raises ValueError naming file and line for a line that is no JSON.
    """
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    shape = _wide if kind == "metrics" else _answers
    parts: list[pa.Table] = []
    for entry in files(run, kind):
        table = shape(_lines(Path(entry.path), kind))
        if table.num_rows:
            first = table["step"][0]
            parts = [part.filter(pc.less(part["step"], first)) for part in parts] + [table]
    return pa.concat_tables(parts, promote_options="default") if parts else empty()


def empty() -> "pa.Table":
    """No rows, and only the column that every table has."""
    import pyarrow as pa

    return pa.table({"step": pa.array([], pa.int32())})


def _lines(file: Path, kind: str) -> "pa.Table":
    """The lines as they are: step and m, or step, benchmark, mode and correct."""
    import pyarrow as pa

    data = file.read_bytes()
    # Arrow reads null as missing; what json writes without spaces is told apart here, any other null goes the slow way
    data = data.replace(b'":null', b'":NaN') if kind == "metrics" else data
    if data.endswith(b"\n") and b"null" not in data:
        try:
            table = _parse(data)
            if table.num_rows == data.count(b"\n") and _is_sound(table, kind):
                return table
        except pa.ArrowException:
            pass
    return _slowly(file, kind)


def _parse(data: bytes) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import json

    # one block, since types are inferred from the first one alone
    options = json.ReadOptions(use_threads=False, block_size=len(data))
    return json.read_json(pa.BufferReader(data), read_options=options)


def _is_sound(table: "pa.Table", kind: str) -> bool:
    from pyarrow import types

    kinds = {field.name: field.type for field in table.schema}
    if not types.is_int64(kinds.get("step")):
        return False
    if kind == "metrics":
        m = kinds.get("m")
        return m is not None and types.is_struct(m) and all(_is_number(m.field(i).type) for i in range(m.num_fields))
    whole = {"step", "benchmark", "mode", "correct"} <= set(kinds)
    return whole and str(kinds["correct"]) == "list<item: list<item: int64>>"


def _is_number(kind: "pa.DataType") -> bool:
    from pyarrow import types

    return types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)


def _slowly(file: Path, kind: str) -> "pa.Table":
    """What `_parse` would have found, line by line."""
    import pyarrow as pa

    lines = list(read_lines(file))
    columns: dict[str, Any] = {"step": pa.array([line["step"] for line in lines], pa.int64())}
    if kind == "metrics":
        names = dict.fromkeys(key for line in lines for key in line["m"])
        filled = [{key: math.nan if v is None else v for key, v in line["m"].items()} for line in lines]
        columns["m"] = pa.array(filled, pa.struct([(name, pa.float64()) for name in names]))
    else:
        columns["benchmark"] = pa.array([line["benchmark"] for line in lines], pa.string())
        columns["mode"] = pa.array([line["mode"] for line in lines], pa.string())
        columns["correct"] = pa.array([line["correct"] for line in lines], pa.list_(pa.list_(pa.int64())))
    return pa.table(columns)


def _wide(lines: "pa.Table") -> "pa.Table":
    """step, and a column per metric."""
    import pyarrow as pa

    m = lines["m"].combine_chunks()
    columns = {"step": lines["step"].combine_chunks().cast(pa.int32())}
    for field, column in zip(m.type, m.flatten(), strict=True):
        # by way of int8, since booleans have no cast to floats
        column = column.cast(pa.int8()) if pa.types.is_boolean(field.type) else column
        columns[METRIC + field.name] = column.cast(pa.float64(), safe=False)
    return pa.table(columns)


def _answers(lines: "pa.Table") -> "pa.Table":
    """step, benchmark, mode, question, sample, right: one row per answer that was graded."""
    import numpy as np
    import pyarrow as pa

    correct = lines["correct"].combine_chunks()
    per_question = correct.flatten()
    questions = correct.value_lengths().to_numpy(zero_copy_only=False)
    samples = per_question.value_lengths().to_numpy(zero_copy_only=False)
    line = pa.array(np.repeat(np.repeat(np.arange(len(correct)), questions), samples))
    right = per_question.flatten().to_numpy(zero_copy_only=False) != 0
    texts = {name: lines[name].combine_chunks().dictionary_encode().take(line) for name in ("benchmark", "mode")}
    return pa.table(
        {
            "step": lines["step"].combine_chunks().cast(pa.int32()).take(line),
            **texts,
            "question": pa.array(np.repeat(_count_within(questions), samples).astype(np.int32)),
            "sample": pa.array(_count_within(samples).astype(np.int16)),
            "right": pa.array(right),
        }
    )


def _count_within(lengths: Any) -> Any:
    """0, 1, … within each group: [2, 3] -> [0, 1, 0, 1, 2]."""
    import numpy as np

    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
