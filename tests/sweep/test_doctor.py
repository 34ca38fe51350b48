"""`doctor` with programs and a server that stand in for Slurm, a GPU and MLflow."""

import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.sweep import doctor
from harness.sweep.cli import main

Program = Callable[[str, str], None]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A program on the path, with nothing else there but the shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return make


def test_a_good_folder_is_left_as_it_was(tmp_path: Path) -> None:
    root = tmp_path / "new"
    assert doctor.folder(root).state == "ok"
    assert list(root.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    found = doctor.folder(tmp_path / "file")
    assert found.state == "bad" and "give another with --root DIR" in found.text
    assert main(["--root", str(tmp_path / "file" / "x"), "doctor"]) == 1
    assert "cannot be written" in capsys.readouterr().out


def test_little_room_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for gib, state in ((1.5, "bad"), (3.0, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, gib=gib: SimpleNamespace(free=gib * 2**30))
        assert doctor.disk(tmp_path).state == state
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1.5 * 2**30))
    assert doctor.disk(tmp_path).text.startswith("1.5 GiB free")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.versions().state == "ok"
    monkeypatch.setattr(doctor, "PACKAGES", ("torch", "no-such-package"))
    assert doctor.versions() == doctor.Finding(
        "packages", "bad", "not installed: no-such-package; pip install -c constraints.txt -e ."
    )


def test_slurm_is_absent_ok_or_silent(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.slurm().state == "absent"
    program("sbatch", "exit 0")
    program("scontrol", "echo 'Slurmctld(primary) at vm is UP'")
    assert doctor.slurm() == doctor.Finding("Slurm", "ok", "Slurmctld(primary) at vm is UP")
    program("scontrol", "echo 'Slurmctld(primary) at vm is DOWN'; exit 1")
    assert doctor.slurm().state == "bad"
    monkeypatch.setattr(doctor, "SECONDS", 0.1)
    program("scontrol", "while true; do :; done")
    assert "does not answer" in doctor.slurm().text


def test_gpus_are_listed(program: Program) -> None:
    assert doctor.gpu().state == "absent"
    program("nvidia-smi", "echo 'NVIDIA H200'; echo 'NVIDIA H200'")
    assert doctor.gpu() == doctor.Finding("GPU", "ok", "NVIDIA H200, NVIDIA H200")


def test_a_tracking_server_has_to_listen_and_a_file_has_not() -> None:
    assert doctor.tracking("sqlite:////r/mlflow.db").text == "MLflow in sqlite:////r/mlflow.db, no server needed"
    assert doctor.tracking("sqlite:////elsewhere.db").state == "ok"
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert doctor.tracking(address) == doctor.Finding("tracking", "ok", f"{address} answers")
    gone = doctor.tracking(address)
    assert gone.state == "bad" and "Connection refused" in gone.text
