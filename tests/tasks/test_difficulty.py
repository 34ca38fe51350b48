"""The pass-count view: counts, shares and bars by hand, from files and from the records of runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.data import difficulty
from harness.data.difficulty import View
from harness.sweep.cli import main


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_counts_of_a_file(tmp_path: Path) -> None:
    view = difficulty.of_file(write(tmp_path / "q.jsonl", [{"right": n} for n in (0, 0, 8, 4)]))
    assert view == View("q.jsonl", (2, 0, 0, 0, 1, 0, 0, 0, 1))
    assert view.samples == 8
    assert view.pass_rate == pytest.approx(12 / 32)
    assert view.learnable == 0.25
    assert view.share(0) == 0.5


def test_samples_may_be_more_than_the_largest_count(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", [{"n": 1}, {"n": 0}])
    assert difficulty.of_file(path, "n", 4).prompts == (1, 1, 0, 0, 0)


@pytest.mark.parametrize(
    ("rows", "samples", "message"),
    [
        ([{"right": 1}, {"rigth": 1}], 0, r"q.jsonl:2: no field 'right'; did you mean 'rigth'\?"),
        ([{"right": 0.5}], 0, r"q.jsonl:1: field 'right' takes the number of right responses, not 0.5"),
        ([{"right": 5}], 4, r"q.jsonl:1: 5 right of 4 responses"),
        ([{"right": 0}], 0, r"every count is 0; say of how many with --samples"),
        ([], 0, "no rows"),
    ],
)
def test_a_file_that_has_no_counts_is_named(tmp_path: Path, rows: Any, samples: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        difficulty.of_file(write(tmp_path / "q.jsonl", rows), "right", samples)


def test_bars_are_in_eighths_of_a_character() -> None:
    assert difficulty.bar(1.0) == "█" * 40
    assert difficulty.bar(0.5) == "█" * 20
    assert difficulty.bar(0.0) == ""
    assert difficulty.bar(9 / 320) == "█▏"


def test_lines_of_a_view() -> None:
    assert difficulty.lines(View("easy", (1, 2, 1))) == [
        "easy: 4 prompts, pass rate 50.0 %, both right and wrong 50.0 %",
        f"    0/2 {'█' * 10:<40}  25.0 %  1",
        f"    1/2 {'█' * 20:<40}  50.0 %  2",
        f"    2/2 {'█' * 10:<40}  25.0 %  1",
    ]


def test_only_first_steps_count_and_runs_of_one_name_add_up(tmp_path: Path) -> None:
    labels = {"model": "small_base", "data": "easy"}
    runs = [{"run": f"r{i}", "labels": labels | {"eps": str(i)}} for i in range(2)]
    runs.append({"run": "r2", "labels": labels | {"data": "hard"}})
    write(tmp_path / "runs/r0/counts/a001.jsonl", [{"step": 0, "groups": [1, 0, 3]}, {"step": 1, "groups": [9, 9, 9]}])
    write(tmp_path / "runs/r1/counts/a001.jsonl", [{"step": 0, "groups": [0, 2, 2]}])
    manifest = {"name": "mine", "runs": runs}
    assert difficulty.of_sweep(tmp_path, manifest, 1) == [View("small_base, easy", (1, 2, 5))]
    with pytest.raises(ValueError, match="mine: no run has recorded pass counts"):
        difficulty.of_sweep(tmp_path, manifest, 0)


def test_the_command_shows_files_and_sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "q.jsonl", [{"right": n} for n in (0, 1)])
    manifest = {"name": "mine", "runs": [{"run": "r", "labels": {"data": "easy"}}]}
    write(tmp_path / "sweeps/mine/manifest.json", [manifest])
    write(tmp_path / "runs/r/counts/a001.jsonl", [{"step": 0, "groups": [3, 1]}])
    assert main(["--root", str(tmp_path), "data", "difficulty", str(path), "mine"]) == 0
    out = capsys.readouterr().out
    assert "q.jsonl: 2 prompts, pass rate 50.0 %" in out
    assert "easy: 4 prompts, pass rate 25.0 %" in out
    assert main(["--root", str(tmp_path), "data", "difficulty", "min"]) == 2
    assert "'min' is neither a file nor a sweep; did you mean 'mine'?" in capsys.readouterr().err
