"""Searches that are killed and searches with several controllers: no trial is lost, none is made twice."""

import contextlib
import json
import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.sweep.conftest import Harness

TRAIN = {"HARNESS_TRAIN": "tests.sweep.searched_train:train"}
KILLS = 20


@pytest.fixture
def spec(write: Any, bare_model: Path) -> Path:
    """Two arms of nine trials, two fresh seeds: 18 runs in three rounds, then four."""
    text = f"""question: which arm is better at its own best setting?
base: {{model: hub_folder, model.path: {bare_model}, train.epochs: 1, train.steps: 2, evaluate.every: 2}}
axes:
  advantage: {{key: tricks.advantage, values: [group_z, batch_z]}}
  lr: {{key: train.lr, values: [1e-5, 3e-5, 1e-4, 3e-4, 1e-3]}}
  updates: {{key: train.updates_per_rollout, values: [1, 2, 4, 8]}}
design: {{kind: search, trials: 9, at_once: 3, within: [advantage]}}
seeds: 2
baseline: {{advantage: group_z}}
"""
    path: Path = write(text, "lr.yaml")
    return path


def studies(harness: Harness) -> Any:
    return json.loads((harness.root / "sweeps/lr/manifest.json").read_text())["search"]["studies"]


def check(harness: Harness) -> None:
    """The budget is spent once: 18 cells, each trained to its end by one attempt that was not cut off."""
    cells = [trial["cell"] for study in studies(harness) for trial in study["trials"]]
    assert [len(study["trials"]) for study in studies(harness)] == [9, 9] and len(set(cells)) == 18
    runs = {path.name: path for path in (harness.root / "runs").iterdir()}
    assert len(runs) == 18 + 4
    ends = Counter(json.loads((path / "status.json").read_text())["state"] for path in runs.values())
    assert ends == {"done": 22}
    assert all(len(list((path / "metrics").glob("a*.jsonl"))) == 1 for path in runs.values())


def test_a_search_killed_twenty_times_makes_the_trials_of_one_left_alone(spec: Path, tmp_path: Path) -> None:
    alone = Harness(tmp_path / "alone")
    assert alone("sweep", str(spec), "--no-mirror", **TRAIN)[0] == 0
    check(alone)
    dice, kills, searches = random.Random(7), 0, 0
    while kills < KILLS:  # a fast machine may end a search before its last kill: then the next one gets the rest
        killed = Harness(tmp_path / f"killed{searches}")
        killed.root.mkdir()
        kills, searches = kills + killed_often(killed, spec, dice, KILLS - kills), searches + 1
        assert killed("sweep", str(spec), "--no-mirror", **TRAIN)[0] == 0
        assert studies(killed) == studies(alone)
        check(killed)


def killed_often(harness: Harness, spec: Path, dice: random.Random, most: int) -> int:
    """Starts the search and kills its controller at random instants until it ends by itself; the number of kills."""
    (harness.root / "slow").write_text("0.3")
    for kills in range(most):
        process = harness.start("sweep", str(spec), "--no-mirror", "--workers", "2", **TRAIN)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.5, 1.6))
        if process.poll() is not None:
            return kills
        os.kill(process.pid, signal.SIGKILL)  # its workers see that it is gone, and leave
        process.communicate()
    (harness.root / "slow").unlink()
    return most


def test_four_controllers_at_once_make_no_trial_twice(spec: Path, tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    started = [harness.start("sweep", str(spec), "--no-mirror", "--workers", "1", **TRAIN) for _ in range(4)]
    said = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 4, said
    check(harness)
    assert Counter(harness.trained()) == dict.fromkeys(harness.trained(), 1)
