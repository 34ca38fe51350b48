"""One run looked at: found by the beginning of its id, its steps in lines, and how it differs from another."""

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness import config, store
from harness.sweep import look
from harness.sweep.cli import main
from tests.sweep.test_identity import TREE


def _run(root: Path, seed: int = 0, **changes: object) -> store.Run:
    tree = json.loads(json.dumps(TREE))
    for key, value in changes.items():
        config.set_key(tree, key.replace("__", "."), value)
    identity, runtime, *_ = config.build(tree)
    return store.create_run(root, config.RunConfig(identity=identity, runtime=runtime, seed=seed))


def _record(run: store.Run, attempt: int, steps: list[int], accuracy: float) -> None:
    for kind in ("metrics", "timing"):
        (run.path / kind).mkdir(exist_ok=True)
        with open(run.attempt_file(kind, attempt), "a") as file:
            for step in steps:
                line = {"m": {"train/accuracy": accuracy, "clip/high": 0.0125, "policy/entropy": None}}
                line = line if kind == "metrics" else {"seconds": {"generate": 0.5, "update": 0.25 + step}}
                file.write(store.dump_json({"step": step} | line) + "\n")


def _printed(show: Callable[[Console], None]) -> str:
    console = Console(file=io.StringIO(), width=100)
    show(console)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_run_is_found_by_folder_id_or_beginning(tmp_path: Path) -> None:
    one, two = _run(tmp_path), _run(tmp_path, seed=1)
    assert look.find(tmp_path, str(one.path)) == one
    assert look.find(tmp_path, one.id) == look.find(tmp_path, f"runs/{one.id}") == one
    assert look.find(tmp_path, two.id[:-1] + "1") == two
    with pytest.raises(ValueError, match=rf"'{one.id[:6]}' is the beginning of 2 runs: {one.id}, {two.id}; give more"):
        look.find(tmp_path, one.id[:6])
    with pytest.raises(ValueError, match=rf"no run '{one.id[:-1]}7' .*did you mean '{one.id[:-2]}"):
        look.find(tmp_path, one.id[:-1] + "7")
    with pytest.raises(ValueError, match="no run 'x' in"):
        look.find(tmp_path / "empty", "x")


def test_why_lists_what_differs_and_apart_what_changes_no_id(tmp_path: Path) -> None:
    one = _run(tmp_path)
    other = _run(tmp_path, seed=3, tricks__surrogate__high=0.32, runtime__threads=4)
    text = _printed(lambda console: look.why(one, other, console))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert rows == [
        "what they are",
        f"key {one.id} {other.id}",
        "tricks.surrogate.high 0.28 0.32",
        "seed 0 3",
        "how they are run (no part of their ids)",
        f"key {one.id} {other.id}",
        "runtime.threads 1 4",
    ]
    assert "the same run" in _printed(lambda console: look.why(one, one, console))


def test_logs_show_the_curve_that_stands_and_the_end(tmp_path: Path) -> None:
    run = _run(tmp_path)
    _record(run, 0, [0, 1, 2], accuracy=0.25)
    _record(run, 1, [2, 3], accuracy=0.5)
    run.write_status("failed", error="ValueError: no")
    (run.path / "error.txt").write_text("Traceback\nValueError: no\n")
    assert _printed(lambda console: look.logs(run, console, False)).splitlines() == [
        "step    0    0.75 s  accuracy 0.250  clip high 1.25%",
        "step    1    1.75 s  accuracy 0.250  clip high 1.25%",
        "step    2    2.75 s  accuracy 0.500  clip high 1.25%",
        "step    3    3.75 s  accuracy 0.500  clip high 1.25%",
        f"{run.id}: failed after 2 attempts",
        "Traceback",
        "ValueError: no",
    ]


def test_a_followed_run_is_shown_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(tmp_path)
    monkeypatch.setattr(look, "POLL", 0.01)
    _record(run, 0, [0], accuracy=0.25)
    run.write_status("running", step=1)

    def finish() -> None:
        _record(run, 0, [1, 2], accuracy=0.75)
        run.write_status("done", step=2)

    threading.Timer(0.2, finish).start()
    lines = _printed(lambda console: look.logs(run, console, True)).splitlines()
    assert [line.split()[1] for line in lines[:3]] == ["0", "1", "2"]
    assert lines[3:] == [f"{run.id}: done"]


def test_status_as_json_is_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _run(tmp_path)
    run.write_status("done", step=4, accuracy=0.5)
    entry = {"run": run.id, "cell": run.id[:16], "seed": 0, "labels": {"eps": "0.2"}}
    manifest = {"question": "does it?", "axes": {"eps": ["0.2"]}, "baseline": {}, "runs": [entry]}
    folder = tmp_path / "sweeps" / "clip"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert main(["--root", str(tmp_path), "status", "clip", "--json"]) == 0
    (sweep,) = json.loads(capsys.readouterr().out)
    assert (sweep["sweep"], sweep["question"]) == ("clip", "does it?")
    (shown,) = sweep["runs"]
    assert shown["status"].items() >= {"state": "done", "step": 4, "accuracy": 0.5}.items()
    assert {key: shown[key] for key in entry} == entry
