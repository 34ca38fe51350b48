"""Files under a kill, a full disk, a damage; claims among contenders, ghosts and clocks."""

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness import scheduler, store
from harness.store import claims, files


def test_a_torn_last_line_is_passed_over_with_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a000.jsonl"
    file.write_text('{"step": 0}\n{"step": 1}\n{"step": 2, "m": {"ac')
    assert [line["step"] for line in files.read_lines(file)] == [0, 1]
    assert f"{file}:3: a torn last line is passed over" in capsys.readouterr().err
    file.write_bytes(b'{"step": 0}\n' + b"\0" * 40)  # what a power cut leaves
    assert list(files.read_lines(file)) == [{"step": 0}]


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a000.jsonl"
    file.write_text('{"step": 0}\n{"st\n{"step": 2}\n')
    with pytest.raises(ValueError, match=r"a000.jsonl:2: not a line of JSON"):
        list(files.read_lines(file))


def test_a_write_that_the_disk_takes_half_of_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.open(tmp_path / "x", os.O_CREAT | os.O_WRONLY)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:5]))
    with pytest.raises(OSError) as caught:
        files.append(descriptor, '{"step": 1}\n')
    assert caught.value.errno == errno.ENOSPC


def test_a_full_disk_leaves_the_old_text_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "status.json"
    files.write_atomic(file, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        files.write_atomic(file, "new")
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["status.json"]


def held_by(file: Path, age: float = 0.0, **owner: Any) -> None:
    """A claim of somebody else."""
    file.write_text(json.dumps({"host": "elsewhere", "pid": 1, "started": "1", "token": "theirs"} | owner))
    os.utime(file, (time.time() - age, time.time() - age))


def test_one_of_many_contenders_gets_a_dead_claim(tmp_path: Path) -> None:
    """Twenty processes at once, on a claim that nobody has touched for an hour."""
    file = tmp_path / "claim"
    held_by(file, age=3600)
    code = "import sys, time; from pathlib import Path; from harness.store import claims; time.sleep(0.2);"
    code += " print(bool(claims.take(Path(sys.argv[1])))); sys.stdout.flush(); time.sleep(3)"
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE, text=True) for _ in range(20)
    ]
    answers = [process.communicate()[0].strip() for process in processes]
    assert answers.count("True") == 1


@pytest.mark.parametrize(
    "age, owner, live",
    [
        (10, {}, True),
        (170, {}, True),  # a shared filesystem may show a time that is a minute old
        (200, {}, False),
        (200, {"job": "7_1", "restart": 0}, True),  # Slurm says that it runs: its node may hang, it is not dead
        (200, {"job": "7_9", "restart": 0}, False),
        (10, {"job": "7_2", "restart": 0}, False),  # an earlier incarnation of the one who asks: a ghost
        (10, {"job": "7_2", "restart": 1}, True),  # itself, another worker of it
        (10, {"job": "7_2", "restart": 2}, True),  # a later one: then the one who asks is the ghost
    ],
)
def test_who_is_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: float, owner: dict[str, Any], live: bool
) -> None:
    """Asked by task 2 of array 7 in its second incarnation, where squeue lists tasks 1 and 2 as running."""
    for name, value in {"JOB_ID": "70", "ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": "2", "RESTART_COUNT": "1"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setattr(scheduler, "ask", lambda *command: "7|1|a|RUNNING|None|n1\n7|2|a|RUNNING|None|n2\n")
    monkeypatch.setattr(scheduler, "KNOWN_FOR", -1.0)
    file = tmp_path / "claim"
    held_by(file, age, **owner)
    assert claims.is_live(file) is live
    assert (claims.take(file) is None) is live


def test_a_claim_of_this_host_dies_with_its_process(tmp_path: Path) -> None:
    file = tmp_path / "claim"
    code = "import sys; from pathlib import Path; from harness.store import claims; claims.take(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
    assert not claims.is_live(file)
    taken = claims.take(file)
    assert taken and taken[1]["token"] != taken[0]
    assert claims.is_live(file)
    assert claims.take(file) is None


def test_no_answer_from_slurm_is_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "SECONDS", 0.2)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "squeue").write_text("#!/bin/sh\nexec sleep 5\n")
    (folder / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    started = time.monotonic()
    assert scheduler.state("71_3") is None
    assert scheduler.tasks(["a"]) is None
    assert time.monotonic() - started < 3
    (folder / "squeue").write_text("#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n")
    assert scheduler.state("71_3") == ""


def test_a_lost_run_takes_no_status(tmp_path: Path) -> None:
    run = store.Run(tmp_path / "r")
    run.path.mkdir()
    mine = run.claim()
    assert mine
    mine.write_status("running", step=1)
    held_by(run.path / "claim")
    with pytest.raises(store.ClaimLost):
        mine.write_status("done")
    with pytest.raises(store.ClaimLost):
        mine.guard()
    mine.release()
    assert run.owner()["token"] == "theirs"
    assert store.read_json(run.path / "status.json")["state"] == "running"
