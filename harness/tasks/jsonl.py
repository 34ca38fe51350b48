"""Questions and answers from a JSON-lines file: any data set whose rows hold a question and an answer field.

Leaves out: building, deduplicating or downloading data sets.
"""

import json
import re
from pathlib import Path

import numpy as np

from harness.config import JsonlData
from harness.tasks import Problem
from harness.tricks import nearest


def problems(data: JsonlData) -> list[Problem]:
    """The file's rows as problems; `size` > 0 draws that many without replacement by `seed`.

    `answer_pattern` is a regular expression whose first group is the answer within the answer field.

    Raises FileNotFoundError for a missing file, ValueError naming file, line and field for a row that does not fit.
    """
    path = Path(data.path)
    if not path.is_file():
        raise FileNotFoundError(f"data.path: no file '{data.path}'; give a JSON-lines file with data.path=FILE")
    rows = [_row(path, number, line, data) for number, line in _lines(path)]
    if not rows:
        raise ValueError(f"{path}: no rows")
    if 0 < data.size < len(rows):
        chosen = np.random.default_rng(data.seed).choice(len(rows), data.size, replace=False)
        rows = [rows[i] for i in sorted(chosen)]
    return [Problem(i, prompt, answer) for i, (prompt, answer) in enumerate(rows)]


def _lines(path: Path) -> list[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _row(path: Path, number: int, line: str, data: JsonlData) -> tuple[str, str]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{number}: not JSON: {error.msg}") from None
    for field in (data.question, data.answer):
        if not isinstance(row, dict) or field not in row:
            has = ", ".join(row) if isinstance(row, dict) else "no fields"
            raise ValueError(f"{path}:{number}: no field '{field}'{nearest(field, row)} (the row has {has})")
    found = re.search(data.answer_pattern, str(row[data.answer]))
    if not found:
        raise ValueError(f"{path}:{number}: data.answer_pattern {data.answer_pattern!r} finds no answer in the row")
    answer = (found.group(1) if found.re.groups else found.group(0)).strip()
    return data.template.replace("{question}", str(row[data.question])), answer
