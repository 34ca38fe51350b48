"""Grading of real response texts, and rows that do not fit."""

import json
from pathlib import Path

import pytest

from harness.config import JsonlData
from harness.tasks import grading, jsonl, load

RESPONSES = [
    (r"so the total is \boxed{72}.", "72", "right"),
    (r"first \boxed{11}, no: \boxed{12}", "12", "right"),  # the last box counts
    (r"\boxed{\frac{1}{2}}", "0.5", "right"),  # nested braces; math-verify compares
    (r"\boxed{\frac{1}{3}}", r"\frac{2}{6}", "right"),
    ("She has 3 + 4 = 7 left.\n#### 7", "7", "right"),
    ("#### 1,234", "1234", "right"),
    ("#### $1,234.00", "1234", "right"),
    ("The answer is 12 or maybe 13", "12", "wrong"),  # the last number counts
    ("-5", "5", "wrong"),
    ("I do not know", "5", "unparsable"),
    ("", "5", "unparsable"),
    (r"\boxed{72", "72", "right"),  # an unclosed box: the last number is taken
]


@pytest.mark.parametrize(("text", "answer", "outcome"), RESPONSES)
def test_grade(text: str, answer: str, outcome: str) -> None:
    assert grading.grade(text, answer) == outcome


def _file(tmp_path: Path, *rows: object) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_rows_become_problems(tmp_path: Path) -> None:
    path = _file(tmp_path, {"question": "1 + 1?", "answer": "It is 2.\n#### 2"}, {"question": "3?", "answer": "#### 3"})
    data = JsonlData(path=str(path), answer_pattern=r"####\s*(.+)$", template="Q: {question}\nA:")
    found = load(data).problems
    assert [(p.id, p.prompt, p.answer) for p in found] == [(0, "Q: 1 + 1?\nA:", "2"), (1, "Q: 3?\nA:", "3")]


def test_a_size_draws_by_seed(tmp_path: Path) -> None:
    path = _file(tmp_path, *({"question": str(i), "answer": str(i)} for i in range(50)))
    drawn = [[p.prompt for p in jsonl.problems(JsonlData(path=str(path), size=10, seed=s))] for s in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 10


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["{not json"], r"questions.jsonl:1: not JSON"),
        ([{"question": "a", "answer": "1"}, {"questoin": "b", "answer": "2"}], r":2: no field 'question'.*'questoin'"),
        ([{"question": "a", "answer": "no number"}], r"answer_pattern .* finds no answer"),
        ([], "no rows"),
    ],
)
def test_a_row_that_does_not_fit_names_its_place(tmp_path: Path, rows: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jsonl.problems(JsonlData(path=str(_file(tmp_path, *rows)), answer_pattern=r"(\d+)"))


def test_a_missing_file_says_how_to_give_one() -> None:
    with pytest.raises(FileNotFoundError, match=r"data\.path=FILE"):
        jsonl.problems(JsonlData(path="nowhere.jsonl"))
