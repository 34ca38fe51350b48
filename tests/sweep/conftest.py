"""Specs written to a temporary folder, a model folder without weights, and the command line as a user types it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.sweep import contents, spec
from harness.sweep.expand import expand
from harness.sweep.grid import Expansion

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning without the miniature models: a model's content is its path."""
    monkeypatch.setattr(contents, "model", lambda path: (path, f"content of {path}"))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "spec.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def grid(write: Callable[..., Path], no_weights: None) -> Callable[..., Expansion]:
    """A spec's text and overrides -> its cells."""

    def grid(text: str, *overrides: str) -> Expansion:
        return expand(spec.read(write(f"question: q?\n{text}"), overrides))

    return grid


@pytest.fixture
def problems(write: Callable[..., Path], no_weights: None) -> Callable[..., str]:
    """A faulty spec's text and overrides -> the whole message, with the file's name shortened."""

    def problems(text: str, *overrides: str) -> str:
        path = write(text)
        with pytest.raises(ValueError) as caught:
            expand(spec.read(path, overrides))
        return str(caught.value).replace(str(path), "spec.yaml")

    return problems


@pytest.fixture(scope="session")
def bare_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has a content, for trainings that load nothing."""
    folder = tmp_path_factory.mktemp("bare") / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


class Harness:
    """`python -m harness` on one root, with the training of `fake_train.py`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        self.environment = os.environ | {"HARNESS_TRAIN": "tests.sweep.fake_train:train", "PYTHONPATH": path}

    def start(self, *words: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "harness", "--root", str(self.root), *words],
            env=self.environment | environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # a shell's background job ignores Ctrl-C, and so would everything that it starts
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def __call__(self, *words: str, **environment: str) -> tuple[int, str]:
        """(exit status, everything printed)."""
        process = self.start(*words, **environment)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def trained(self) -> list[str]:
        """Run ids in the order in which a training of theirs was started."""
        log = self.root / "started.txt"
        return log.read_text().split() if log.exists() else []


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


@pytest.fixture
def small_spec(write: Callable[..., Path], bare_model: Path) -> Path:
    """Three arms, two seeds, five steps."""
    return write(
        f"""question: does the learning rate matter?
base: {{model: hub_folder, model.path: {bare_model}, train.steps: 5}}
axes:
  train.lr: [1e-4, 2e-4, 3e-4]
seeds: 2
baseline: {{train.lr: 1e-4}}
""",
        "rates.yaml",
    )
