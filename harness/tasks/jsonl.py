"""Questions and answers from a JSON-lines or Parquet file: any data set whose rows hold a question and an answer.

Leaves out: building, deduplicating or downloading data sets (`harness.data`).
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from harness.config import JsonlData
from harness.tasks import Problem, rows


def problems(data: JsonlData) -> list[Problem]:
    """The file's rows as problems; `size` > 0 draws that many without replacement by `seed`.

    `answer_pattern` is a regular expression whose first group is the answer within the answer field.

    Raises FileNotFoundError for a missing file, ValueError naming file, line and field for a row that does not fit.
    """
    path = Path(data.path)
    if not path.is_file():
        raise FileNotFoundError(
            f"data.path: no file '{data.path}'; give a JSON-lines or Parquet file with data.path=FILE "
            "(the paper's data: python -m harness data prepare)"
        )
    found = [_row(place, row, data) for place, row in rows.read(path, (data.question, data.answer))]
    if not found:
        raise ValueError(f"{path}: no rows")
    if 0 < data.size < len(found):
        chosen = np.random.default_rng(data.seed).choice(len(found), data.size, replace=False)
        found = [found[i] for i in sorted(chosen)]
    return [Problem(i, prompt, answer) for i, (prompt, answer) in enumerate(found)]


def _row(place: str, row: Any, data: JsonlData) -> tuple[str, str]:
    question, answer = (rows.field(place, row, name) for name in (data.question, data.answer))
    found = re.search(data.answer_pattern, str(answer))
    if not found:
        raise ValueError(f"{place}: data.answer_pattern {data.answer_pattern!r} finds no answer in the row")
    text = (found.group(1) if found.re.groups else found.group(0)).strip()
    return data.template.replace("{question}", str(question)), text
