"""Making a scale's data: one YAML per set, evaluation questions kept out, a manifest that adds up, the same bytes."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.config import JsonlData
from harness.data import prepare, sources
from harness.sweep.cli import main
from harness.tasks import grading, load

SHARED = Path(__file__).parents[3] / "shared" / "data"
DOCS = Path(__file__).parents[2] / "docs" / "data.md"


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One evaluation set and one training set of each draw."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "exam.yaml").write_text("kind: benchmark\nquestion: problem\nanswer: solution\nread: boxed\nrows: 2\n")
    (folder / "simple.yaml").write_text("kind: training\nsize: 3\n")
    text = "kind: training\ndifficulty: level\nsize: 4\ntrue_false_share: 0.25\ndraw: "
    (folder / "medium.yaml").write_text(text + "easiest\n")
    (folder / "hard.yaml").write_text(text + "proportional\n")
    return folder


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    exam = [{"problem": "In the exam?", "solution": r"so \boxed{7}"}, {"problem": "And this?", "solution": ""}]
    deep = [
        {"question": "in the exam", "answer": "7", "level": 1.0},
        {"question": "a", "answer": "True", "level": 1.5},
        {"question": "b", "answer": "False", "level": 2.0},
        {"question": "c", "answer": "3", "level": 2.5},
        {"question": "d", "answer": "4", "level": 3.0},
        {"question": "e", "answer": "5", "level": 9.0},
        {"question": "f", "answer": "6", "level": 9.5},
        {"question": "g", "answer": "7", "level": -1.0},
    ]
    easy = [{"question": f"{i} + 1", "answer": str(i + 1)} for i in range(10)]
    found = {
        "exam": write(tmp_path / "exam.jsonl", exam),
        "simple": write(tmp_path / "simple.jsonl", easy),
        "medium": write(tmp_path / "deep.jsonl", deep),
        "hard": tmp_path / "deep.jsonl",
    }
    return [f"{role}={path}" for role, path in found.items()]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_sets_are_drawn_as_their_files_say(tmp_path: Path, folder: Path, given: list[str]) -> None:
    made = prepare.prepare(tmp_path / "out", given, folder=folder)["sets"]
    assert rows(tmp_path / "out/exam.jsonl") == [{"question": "In the exam?", "answer": "7"}]
    assert [row["question"] for row in rows(tmp_path / "out/medium.jsonl")] == ["a", "c", "d", "e"]
    assert made["medium"]["dropped"] == {
        "in evaluation set exam": 1,
        "no difficulty above 0": 1,
        "true/false answer beyond the share": 1,
        "not drawn": 1,
    }
    assert made["medium"]["mean_difficulty"] == 4.0  # of 1.5, 2.5, 3, 9
    assert made["medium"]["true_false_rows"] == 1
    assert made["exam"]["dropped"] == {"no question or no answer": 1}
    assert made["simple"]["dropped"] == {"not drawn": 7}


def test_the_manifest_adds_up_and_names_what_is_on_disk(tmp_path: Path, folder: Path, given: list[str]) -> None:
    out = tmp_path / "out"
    manifest = prepare.prepare(out, given, seed=5, folder=folder)
    assert json.loads((out / "manifest.json").read_text()) == manifest
    assert sorted(manifest["sets"]) == ["exam", "hard", "medium", "simple"]
    for role, entry in manifest["sets"].items():
        assert entry["rows"] + sum(entry["dropped"].values()) == entry["read"]
        data = (out / entry["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"], role
        assert data.count(b"\n") == entry["rows"]
    deep = hashlib.sha256((tmp_path / "deep.jsonl").read_bytes()).hexdigest()
    assert manifest["sets"]["hard"]["sources"] == {"deep.jsonl": deep}


def test_the_same_seed_gives_the_same_bytes_and_another_set_changes_none(
    tmp_path: Path, folder: Path, given: list[str]
) -> None:
    def hashes(seed: int, without: tuple[str, ...] = ()) -> dict[str, str]:
        made = prepare.prepare(tmp_path / "out", given, without, seed, folder)
        return {role: entry["sha256"] for role, entry in made["sets"].items()}

    first = hashes(1)
    assert hashes(1) == first
    assert hashes(2)["simple"] != first["simple"]
    assert hashes(1, ("hard",)) == {role: value for role, value in first.items() if role != "hard"}


def test_a_set_left_out_is_said_to_be_unchecked(tmp_path: Path, folder: Path, given: list[str]) -> None:
    manifest = prepare.prepare(tmp_path / "out", given, ["exam"], folder=folder)
    assert manifest["not_deduplicated_against"] == ["exam"]
    assert rows(tmp_path / "out/medium.jsonl")[0]["question"] == "in the exam"
    assert "may hold questions of exam" in prepare.lines(manifest)[-1]


def test_one_set_can_be_made_alone(tmp_path: Path, folder: Path, given: list[str]) -> None:
    whole = prepare.prepare(tmp_path / "whole", given, folder=folder)["sets"]
    one = prepare.prepare(tmp_path / "one", given, folder=folder, only=["hard", "exam"])
    assert one["sets"] == {role: whole[role] for role in ("exam", "hard")}
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["exam.jsonl", "hard.jsonl", "manifest.json"]
    lone = prepare.prepare(tmp_path / "lone", given, folder=folder, only=["hard"])
    assert lone["not_deduplicated_against"] == ["exam"]
    with pytest.raises(ValueError, match=r"no data set 'hrad'; did you mean 'hard'\?"):
        prepare.prepare(tmp_path / "two", given, folder=folder, only=["hrad"])


def test_every_missing_source_is_named_before_anything_is_written(
    tmp_path: Path, folder: Path, given: list[str]
) -> None:
    with pytest.raises(FileNotFoundError, match=r"exam: no file 'nowhere.jsonl'\n  hard: no file and no hub"):
        prepare.prepare(tmp_path / "out", ["exam=nowhere.jsonl", *given[1:3]], folder=folder)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("medum=x.jsonl", r"no data set 'medum'; did you mean 'medium'\?"),
        ("medium", r"--source medium: takes ROLE=FILE"),
    ],
)
def test_a_wrong_source_is_named(tmp_path: Path, folder: Path, word: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare.prepare(tmp_path / "out", [word], folder=folder)


def test_a_hub_repository_is_read_by_its_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked = []

    def snapshot(hub: str, repo_type: str, allow_patterns: str) -> str:
        asked.append((hub, repo_type, allow_patterns))
        (tmp_path / "data").mkdir()
        write(tmp_path / "data" / "train.jsonl", [{"question": "a", "answer": 1}])
        write(tmp_path / "other.jsonl", [{"question": "b", "answer": 2}])
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    source = sources.Source(kind="training", hub="some/where", files="data/*.jsonl")
    assert sources.items(source, sources.place(source, None)) == [sources.Item("a", "1")]
    assert asked == [("some/where", "dataset", "data/*.jsonl")]


def test_a_hub_that_cannot_be_reached_is_a_missing_source(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def offline(*args: Any, **kwargs: Any) -> str:
        raise ConnectionError

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(FileNotFoundError, match="hub repository 'some/where': ConnectionError"):
        sources.place(sources.Source(kind="training"), "some/where")


@pytest.mark.parametrize(
    ("value", "read", "answer"),
    [
        (27.0, "as_is", "27.0"),
        (r"so \boxed{\frac{1}{2}}.", "boxed", r"\frac{1}{2}"),
        ("1/2", "boxed", "1/2"),  # a field that holds the answer alone
        (r"\boxed{1", "boxed", ""),
        ("3 + 4\n#### 1,007", "hashes", "1,007"),
        ("no mark", "hashes", ""),
        (["$2$", "$3$"], "first", "$2$"),
        ("['$2 n$']", "first", "$2 n$"),
        ([], "first", ""),
        (None, "as_is", ""),
    ],
)
def test_how_an_answer_stands_in_its_field(tmp_path: Path, value: object, read: Any, answer: str) -> None:
    path = write(tmp_path / "q.jsonl", [{"question": "a", "answer": value}])
    assert sources.items(sources.Source(kind="benchmark", read=read), [path]) == [sources.Item("a", answer)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: benchmark\nanswr: x\n", r"mine.yaml: answr: no such key; did you mean 'answer'\?"),
        ("kind: training\ndraw: easiest\n", r"mine.yaml: .*draw: easiest needs `difficulty`"),
        ("hub: a/b\n", r"mine.yaml: kind: Field required"),
    ],
)
def test_a_wrong_source_file_names_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        sources.load(tmp_path)


def test_every_set_of_the_paper_has_a_source_and_every_source_a_comment() -> None:
    known = sources.load(sources.FOLDER)
    training = {role: (s.draw, s.size) for role, s in known.items() if s.kind == "training"}
    assert training == {"easy": ("random", 5000), "medium": ("easiest", 5000), "hard": ("proportional", 5000)}
    rows = {role: s.rows for role, s in known.items() if s.kind == "benchmark"}
    six = {"math500": 500, "olympiadbench": 675, "minerva_math": 272, "amc23": 40, "aime24": 30, "aime25": 30}
    assert rows == six | {"gsm8k": 1319}
    for role in known:
        assert (sources.FOLDER / f"{role}.yaml").read_text().startswith("# "), role


def test_the_page_adds_a_benchmark_and_a_training_set_with_one_file_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The YAML of docs/data.md as it stands there, through the command that stands there."""
    blocks = re.findall(r"```yaml\n# experiments/data/source/(\w+)\.yaml\n(.*?)```", DOCS.read_text(), re.S)
    assert [role for role, _ in blocks] == ["exam", "drills"]
    folder = tmp_path / "source"
    folder.mkdir()
    for role, text in blocks:
        (folder / f"{role}.yaml").write_text(text)
    write(tmp_path / "exam.jsonl", [{"task": {"text": "2 + 2?"}, "key": r"It is \boxed{4}"}])
    write(tmp_path / "drills.jsonl", [{"question": f"{i} + {i}?", "answer": 2 * i, "grade": i + 1} for i in range(5)])
    monkeypatch.setattr(sources, "FOLDER", folder)
    monkeypatch.chdir(tmp_path)
    words = re.search(r"harness (data prepare .*exam=.*)", DOCS.read_text())
    assert words
    assert main(words.group(1).split()) == 0
    task = load(JsonlData(path=str(tmp_path / "data/paper/exam.jsonl")))
    assert [(p.prompt, p.answer) for p in task.problems] == [("2 + 2?", "4")]
    kept = [row["question"] for row in rows(tmp_path / "data/paper/drills.jsonl")]
    assert kept == ["0 + 0?", "1 + 1?", "3 + 3?"]  # 2 + 2 is in the exam
    assert "1 in evaluation set exam" in capsys.readouterr().out


@pytest.mark.skipif(not SHARED.exists(), reason="needs the benchmark files beside the checkout")
@pytest.mark.parametrize(
    ("role", "name", "malformed"),
    [
        ("math500", "math500_test", 0),
        ("olympiadbench", "olympiadbench_test", 2),
        ("minerva_math", "minerva_math_test", 0),
        ("gsm8k", "gsm8k_openai_test", 0),
    ],
)
def test_every_reference_answer_of_a_benchmark_grades_itself_right(role: str, name: str, malformed: int) -> None:
    """At once as text, in less than 5 ms a pair; and all but the malformed by mathematics, without looking at text."""
    import time

    source = sources.load(sources.FOLDER)[role]
    golds = [item.answer for item in sources.items(source, [SHARED / f"{name}.jsonl"])]
    assert len(golds) == source.rows
    start = time.process_time()
    assert [g for g in golds if grading.grade(f"Therefore \\boxed{{{g}}}.", g) != "right"] == []
    assert (time.process_time() - start) / len(golds) < 0.005
    assert grading.readable(golds).count(False) == malformed
