"""Desired state on Slurm: how many tasks, in which arrays, under which limits; ten thousand runs on a virtual clock.

The far side is fake, ours is real: plan, orders, claims, the worker's loop. Leaves out: a real Slurm (tests/slurm).
"""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import config, scheduler, store
from harness.sweep import slurm
from tests.sweep.conftest import REPOSITORY, Harness

Write = Callable[..., Path]


def launcher(**given: Any) -> config.Launcher:
    return config.Launcher(kind="slurm", **given)


def test_how_many_tasks() -> None:
    assert slurm.tasks_wanted(100, 1, launcher(max_concurrent=8)) == 8  # each pulls until nothing is left
    assert slurm.tasks_wanted(5, 1, launcher(max_concurrent=8)) == 5
    assert slurm.tasks_wanted(5, 4, launcher(max_concurrent=8)) == 2  # four workers in each
    assert slurm.tasks_wanted(100, 1, launcher(max_concurrent=8, runs_per_task=3)) == 34  # ceil(100 / 3)


def test_arrays_stay_under_the_limit_and_share_the_throttle() -> None:
    assert slurm.arrays(8, 1001, 8) == [(8, 8)]
    assert slurm.arrays(25, 10, 7) == [(9, 3), (8, 2), (8, 2)]
    assert slurm.arrays(3, 1, 2) == [(1, 1), (1, 1), (1, 1)]
    for tasks, most, at_once in ((10_000, 1001, 256), (1001, 1001, 5), (1002, 1001, 5)):
        made = slurm.arrays(tasks, most, at_once)
        assert sum(size for size, _ in made) == tasks
        assert max(size for size, _ in made) <= most
        assert sum(throttle for _, throttle in made) == at_once


def test_what_squeue_says() -> None:
    text = (
        "71|3|rates.a.b|RUNNING|None|n4\n71|4|rates.a.b|PENDING|Priority|\n72|N/A|other|COMPLETING|None|n1\nrubbish\n"
    )
    tasks = scheduler.parse(text)
    assert [(task.id, task.state, task.reason, task.node, task.is_live) for task in tasks] == [
        ("71_3", "RUNNING", "None", "n4", True),
        ("71_4", "PENDING", "Priority", "", True),
        ("72", "COMPLETING", "None", "n1", False),
    ]


@pytest.mark.parametrize(
    "rates, steps, nodes, runs_per_task, tasks",
    [(100, 20, 256, 0, 256), (20, 10, 64, 7, 143)],  # ceil(1,000 / 7)
)
def test_thousands_of_runs_on_nodes_that_fail(
    bare_model: Path, tmp_path: Path, rates: int, steps: int, nodes: int, runs_per_task: int, tasks: int
) -> None:
    numbers = map(str, (rates, steps, nodes, runs_per_task))
    done = subprocess.run(
        [sys.executable, "-m", "tests.sweep.simulate", str(tmp_path), str(bare_model), *numbers],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    print(told)
    runs = 5 * rates * steps
    assert told["runs"] == runs
    assert told["first"] == tasks
    assert told["finished"] == told["distinct"] == runs  # each once, none missing
    assert told["left"] == told["orders"] == 0
    assert nodes // 2 < told["busiest"] <= nodes
    assert told["preempted"] > 10 and told["nodes lost"] >= 1
    assert told["questions"] < told["preempted"] + told["nodes lost"] + 10 * (1 + len(told["again"]))
    ideal = runs * 62 / nodes  # exp(4 + .5^2 / 2) = 62 seconds a run
    assert ideal < told["seconds"] < 2 * ideal


@pytest.fixture
def sbatch(tmp_path: Path) -> Iterator[Callable[[], list[str]]]:
    """sbatch, squeue, scontrol and srun on PATH: arrays of ten at most, five submissions at most, nothing runs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    scripts = {
        "srun": "exit 0",
        "squeue": f'cat "{folder}/queue" 2>/dev/null; exit 0',
        "scontrol": 'echo "MaxArraySize            = 10"',
        "sbatch": f"""grep -o 'array=.*' "$1" >> "{folder}/arrays"
n=$(wc -l < "{folder}/arrays")
if [ "$n" -gt 5 ]; then echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2; exit 1; fi
echo "Submitted batch job $n" """,
    }
    for name, text in scripts.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{before}"
    yield lambda: (folder / "arrays").read_text().split() if (folder / "arrays").exists() else []
    os.environ["PATH"] = before


def rates(number: int, bare_model: Path, write: Write) -> Path:
    return write(
        f"question: q?\nbase: {{model: hub_folder, model.path: {bare_model}, launcher: slurm}}\n"
        f"axes: {{train.lr: [{', '.join(f'{i}e-6' for i in range(1, number + 1))}]}}\n",
        "many.yaml",
    )


def test_chunks_reach_sbatch(
    harness: Harness, bare_model: Path, write: Write, sbatch: Callable[[], list[str]], tmp_path: Path
) -> None:
    path = rates(25, bare_model, write)
    words = ("--no-mirror", "launcher.runs_per_task=1", "launcher.max_concurrent=7")
    harness.environment["PATH"] = os.environ["PATH"]
    code, output = harness("sweep", str(path), *words)
    assert code == 0, output
    assert "25 tasks wanted, 0 in the queue, 25 to submit" in output
    assert sbatch() == ["array=0-8%3", "array=0-7%2", "array=0-7%2"]
    name = next(iter(store.read_json(next(harness.root.glob("sweeps/*/slurm/jobs.json")))))
    (tmp_path / "bin" / "queue").write_text("".join(f"1|{i}|{name}|PENDING|Priority|\n" for i in range(25)))
    code, output = harness("sweep", str(path), *words)
    assert "25 in the queue, 0 to submit" in output
    assert len(sbatch()) == 3


def test_a_submit_limit_says_what_was_taken(
    harness: Harness, bare_model: Path, write: Write, sbatch: Callable[[], list[str]]
) -> None:
    harness.environment["PATH"] = os.environ["PATH"]
    words = ("--no-mirror", "launcher.runs_per_task=1")
    code, output = harness("sweep", str(rates(60, bare_model, write)), *words)
    assert code == 2
    assert "QOSMaxSubmitJobPerUserLimit" in output
    assert "submitted before it: 1, 2, 3, 4, 5" in output


def test_a_scheduler_that_does_not_answer_is_asked_nothing_more(
    harness: Harness, bare_model: Path, write: Write, sbatch: Callable[[], list[str]], tmp_path: Path
) -> None:
    harness.environment["PATH"] = os.environ["PATH"]
    squeue = tmp_path / "bin" / "squeue"
    squeue.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2\nexit 1\n")
    code, output = harness("sweep", str(rates(3, bare_model, write)), "--no-mirror")
    assert code == 2
    assert "Slurm does not answer" in output
    assert sbatch() == []


def test_a_dry_run_shows_the_script_and_writes_nothing(
    harness: Harness, bare_model: Path, write: Write, sbatch: Callable[[], list[str]]
) -> None:
    harness.environment["PATH"] = os.environ["PATH"]
    words = ("launcher.partition=gpu", "launcher.minutes=90", "launcher.warning=300", "runtime.gpus=2")
    code, output = harness("sweep", "--dry-run", str(rates(3, bare_model, write)), *words, "runtime.mem_gb=40.0")
    assert code == 0, output
    for line in (
        "#SBATCH --partition=gpu",
        "#SBATCH --time=90",
        "#SBATCH --signal=USR2@300",
        "#SBATCH --gpus-per-node=2",
        "#SBATCH --mem=40GB",
        "#SBATCH --requeue",
        "#SBATCH --array=0-2%3",
    ):
        assert line in output, output
    assert not (harness.root / "sweeps").exists()
    assert not sbatch()


@pytest.mark.parametrize(
    "words, message",
    [
        ("launcher.setup=[rm -rf /]", "ends in a shell script, which no spec may write"),
        ("launcher.extra=[nice=1]", "ends in a shell script, which no spec may write"),
        ('launcher.partition="gpu\\nrm -rf /"', "should match pattern"),
        ("launcher.partition=$(reboot)", "should match pattern"),
        ("launcher.account='a b'", "should match pattern"),
        ("launcher.max_concurrent=0", "greater than 0"),
    ],
)
def test_a_spec_cannot_write_shell(harness: Harness, bare_model: Path, write: Write, words: str, message: str) -> None:
    code, output = harness("plan", str(rates(3, bare_model, write)), words)
    assert code == 2
    assert message in output
