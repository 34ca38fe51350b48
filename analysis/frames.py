"""Cached rows of many runs as the columns of a tidy frame: numpy arrays, and text as codes with names.

Leaves out: which runs (`load.py`), the rows of one (`records.py`) and what is kept of them (`cache.py`).
"""

from typing import TYPE_CHECKING, Any

from analysis import cache, records

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from analysis.load import Entry

Rows = dict[str, Any]  # column -> array, or (codes, names) for text


def long(part: cache.Part) -> Rows:
    """One row per metric that a step has."""
    import numpy as np

    table = part.table
    names = [name for name in table.column_names[1:] if table[name].null_count < table.num_rows]
    values = np.empty((table.num_rows, len(names)))
    present = np.empty(values.shape, bool)
    for place, name in enumerate(names):
        column = table[name].combine_chunks()
        values[:, place] = column.to_numpy(zero_copy_only=False)
        present[:, place] = column.is_valid() if column.null_count else True
    kept = slice(None) if present.all() else present.ravel()
    counts = present.sum(axis=1)
    ends = np.concatenate([[0], np.cumsum(counts)])[np.cumsum([0, *part.rows])]
    keys = np.tile(np.arange(len(names), dtype=np.int16), table.num_rows)[kept]
    return {
        "rows": np.diff(ends),
        "step": np.repeat(table["step"].to_numpy(), counts),
        "metric": (keys, [name.removeprefix(records.METRIC) for name in names]),
        "value": values.ravel()[kept],
    }


def answers(part: cache.Part) -> Rows:
    import numpy as np

    table = part.table
    types = {"step": np.int32, "question": np.int32, "sample": np.int16, "right": np.bool_}
    rows: Rows = {"rows": np.array(part.rows, np.int64)}
    for name, kind in types.items():  # no run has been evaluated: there is only the step
        rows[name] = table[name].to_numpy().astype(kind) if name in table.column_names else np.empty(0, kind)
    for name in ("benchmark", "mode"):
        rows[name] = np.empty(0, np.int16), []
        if name in table.column_names:
            column = table[name].combine_chunks()
            used, codes = np.unique(column.indices.to_numpy(), return_inverse=True)
            rows[name] = codes.astype(np.int16), column.dictionary.take(used).to_pylist()
    return rows


def merged(parts: "list[tuple[np.ndarray, list[str]]]") -> "pd.Categorical":
    """Codes and names of each part as one column; its levels are the names in alphabetical order."""
    import numpy as np
    import pandas as pd

    levels = sorted({name for _, names in parts for name in names})
    place = {name: code for code, name in enumerate(levels)}
    codes = [
        codes if names == levels else np.array([place[name] for name in names], np.int16)[codes]
        for codes, names in parts
    ]
    return pd.Categorical.from_codes(np.concatenate(codes), levels)


def per_run(axes: dict[str, list[str]], entries: "list[Entry]", rows: "np.ndarray") -> dict[str, Any]:
    """What is the same in all of a run's `rows`."""
    import numpy as np

    columns: dict[str, Any] = {
        axis: _column([entry.labels[axis] for entry in entries], rows, levels) for axis, levels in axes.items()
    }
    ids, states = [entry.run for entry in entries], [entry.state for entry in entries]
    columns["run"] = _column(ids, rows, ids)
    columns["seed"] = np.repeat(np.array([entry.seed for entry in entries], np.int64), rows)
    columns["state"] = _column(states, rows, list(dict.fromkeys(states)))
    return columns


def _column(per_run: list[str], rows: "np.ndarray", levels: list[str]) -> "pd.Categorical":
    """The run's text repeated for each of its rows, one byte or so a row."""
    import numpy as np
    import pandas as pd

    short = pd.Categorical(per_run, categories=list(dict.fromkeys(levels)))
    return pd.Categorical.from_codes(np.repeat(short.codes, rows), dtype=short.dtype)
