"""Grading of real response texts, and rows that do not fit."""

import json
from pathlib import Path

import pytest

from harness.config import JsonlData
from harness.tasks import grading, jsonl, load
from harness.tasks import rows as row_reader

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
    (r"\boxed{}", "72", "unparsable"),
    (r"\boxed{34}", "3,4", "wrong"),  # a pair is no number without its comma
    (r"\boxed{" + "9" * 20_000 + "}", "72", "unparsable"),  # longer than anybody's answer
    (r"\boxed{1}" * 2000, "1", "right"),
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


def test_problems_whose_answer_cannot_be_graded_are_dropped_and_counted(tmp_path: Path) -> None:
    golds = ["2", "t(0,4]", "", "yes", "x+1"]
    path = _file(tmp_path, *({"question": f"q{i}", "answer": gold} for i, gold in enumerate(golds)))
    task = load(JsonlData(path=str(path)))
    assert [(p.id, p.prompt, p.answer) for p in task.problems] == [(0, "q0", "2"), (1, "q3", "yes"), (2, "q4", "x+1")]
    assert task.dropped == 2
    assert task.grade_all(["2", r"\boxed{Yes}", "no idea"], ["2", "yes", "x+1"]) == ["right", "right", "unparsable"]


def test_a_file_without_one_gradable_answer_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, {"question": "q", "answer": ""})
    with pytest.raises(ValueError, match=r"none of its 1 answers can be read; is data\.answer right\?"):
        load(JsonlData(path=str(path)))


def test_parquet_reads_as_json_lines_do(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [{"info": {"question": f"{i}?"}, "answer": i} for i in range(3)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "q.parquet")
    same = _file(tmp_path, *rows)
    read = [jsonl.problems(JsonlData(path=str(p), question="info.question")) for p in (tmp_path / "q.parquet", same)]
    (place, first), *_ = row_reader.read(tmp_path / "q.parquet", ["answer"])
    assert (place, first) == (f"{tmp_path / 'q.parquet'}:1", {"answer": 0})  # the column alone
    assert set(row_reader.read(tmp_path / "q.parquet", ["answr"])[0][1]) == {"info", "answer"}  # all, to name the near
    assert read[0] == read[1]
    assert [p.prompt for p in read[0]] == ["0?", "1?", "2?"]


def test_a_line_separator_inside_of_a_question_does_not_cut_the_row(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "a\u2028b", "answer": "1"}\n', encoding="utf-8")
    assert [p.prompt for p in jsonl.problems(JsonlData(path=str(path)))] == ["a\u2028b"]


def test_another_kind_of_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("question,answer\n")
    with pytest.raises(ValueError, match=r"q\.csv: neither JSON lines nor Parquet"):
        jsonl.problems(JsonlData(path=str(tmp_path / "q.csv")))


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
