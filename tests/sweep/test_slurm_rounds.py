"""A sweep in rounds on Slurm goes on by itself: one job waits for a round's arrays and types the command again.

The far side is fake: a cluster on a virtual clock, whose rounds are judged from what the staged training records, and
an sbatch that keeps the scripts. Leaves out: a real Slurm (tests/slurm/test_rounds.py), what a round is (test_stop.py).
"""

import contextlib
import json
import random
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import scheduler, store
from harness.sweep import cancel, cli, commands, slurm, slurm_rounds, status
from harness.sweep import plan as plans
from tests.sweep import staged_train
from tests.sweep.fake_cluster import FakeCluster
from tests.sweep.simulate import Executor, in_place_of_this_machine

Type = Callable[..., tuple[int, str]]


@pytest.fixture
def staged(tmp_path: Path, bare_model: Path) -> Path:
    """Two arms against a baseline, on Slurm: one much better, one alike with noise; at most three rounds."""
    path = tmp_path / "staged.yaml"
    path.write_text(
        f"""question: does the learning rate matter?
base: {{model: hub_folder, model.path: {bare_model}, launcher: slurm, train.steps: 2, evaluate.every: 2}}
axes: {{train.lr: [1e-4, 2e-4, 3e-4]}}
seeds: 3
stop: {{when: decided, max_seeds: 6, step: 2, futility: null}}
baseline: {{train.lr: 1e-4}}
"""
    )
    return path


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Type:
    """A command in this process -> (exit status, what it printed), of a root beside the spec."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def typed(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = cli.main(["--root", str(tmp_path / "root"), *words])
        out, err = capsys.readouterr()
        return code, out + err

    return typed


class Single:
    """submitit's executor of one job, as far as `slurm_rounds` uses it."""

    def __init__(self, cluster: FakeCluster, root: Path, name: str, options: dict[str, str]) -> None:
        self.cluster, self.root, self.name = cluster, root, name
        self.after = tuple(options["dependency"].removeprefix("afterany:").split(":"))

    def update_parameters(self, **given: object) -> None:
        pass

    def submit(self, what: slurm_rounds.Next) -> SimpleNamespace:
        def call() -> None:
            with contextlib.suppress(SystemExit):
                what()

        return SimpleNamespace(job_id=self.cluster.submit_after(self.name, self.root, self.after, call))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """Four nodes that train as `staged_train` does; `_analyse` only notes that it was called."""

    def train(run: store.Run) -> None:
        try:
            staged_train.train(run, lambda: False)
        except ZeroDivisionError as error:
            run.write_status("failed", error=str(error))

    made = FakeCluster(4, random.Random(0), train=train)

    def array(plan: plans.Plan, order: slurm.Order, code: Path, throttle: int) -> Executor:
        return Executor(made, order.name, throttle, list(plan.states))

    def single(plan: plans.Plan, name: str, code: Path, minutes: int, cpus: int, **options: str) -> Single:
        return Single(made, plan.root, name, options)

    monkeypatch.setattr(slurm, "_executor", array)
    monkeypatch.setattr(slurm, "bare_executor", single)
    monkeypatch.setattr(commands, "_analyse", lambda root, name: print(f"the verdict of {name}"))
    with in_place_of_this_machine(made):
        yield made


def end(cluster: FakeCluster) -> None:
    cluster.run(until=lambda: False)
    assert not [job.id for job in cluster.jobs.values() if job.state in ("PENDING", "RUNNING")]


def going_on(cluster: FakeCluster) -> list[tuple[str, ...]]:
    """What each job that went on with the sweep had waited for."""
    return [job.after for job in cluster.jobs.values() if slurm_rounds.is_next(job.name)]


def arrays(cluster: FakeCluster) -> list[str]:
    return [array for array in cluster.throttles if f"{array}_0" in cluster.jobs]


def seeds(root: Path) -> dict[str, int]:
    """lr -> seeds that the manifest has."""
    manifest = store.read_json(root / "sweeps/staged/manifest.json")
    return dict(Counter(run["labels"]["train.lr"] for run in manifest["runs"]))


def test_all_rounds_follow_from_one_command(
    cluster: FakeCluster, staged: Path, typed: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = typed("sweep", str(staged), "--no-mirror")
    assert code == 0 and "adds seeds where nothing is decided yet" in said
    end(cluster)
    assert seeds(tmp_path / "root") == {"1e-4": 6, "2e-4": 3, "3e-4": 6}  # as the same spec has them without Slurm
    assert len(cluster.finished) == len(set(cluster.finished)) == 15
    first, second, third = arrays(cluster)
    assert going_on(cluster) == [(first,), (second,), (third,)]  # the last one has the verdict
    assert capsys.readouterr().out.count("the verdict of staged") == 1


def test_the_same_command_by_hand_in_between_submits_nothing_twice(
    cluster: FakeCluster, staged: Path, typed: Type, tmp_path: Path
) -> None:
    said: list[str] = []

    def by_hand() -> None:
        said.append(typed("sweep", str(staged), "--no-mirror")[1])
        if len(cluster.finished) < 15 and len(said) < 60:
            cluster.at(20, by_hand)

    by_hand()
    end(cluster)
    assert len(said) > 10
    assert sum("submitted" in text for text in said) >= 1
    assert any("when these runs have ended, job 10" in text for text in said)
    assert seeds(tmp_path / "root") == {"1e-4": 6, "2e-4": 3, "3e-4": 6}
    assert len(cluster.finished) == len(set(cluster.finished)) == 15
    assert len(arrays(cluster)) == len(going_on(cluster)) == 3


def test_a_job_that_starts_too_early_waits_again(cluster: FakeCluster, staged: Path, typed: Type) -> None:
    typed("sweep", str(staged), "--no-mirror")
    (first,) = arrays(cluster)

    def end_by_hand() -> None:
        for job in list(cluster.jobs.values()):
            if job.id.startswith(f"{first}_"):
                cluster.interrupt(job, saves=True)
                job.state = "CANCELLED"
        typed("sweep", str(staged), "--no-mirror")  # a new array, and the job still waits for the old one

    cluster.at(30, end_by_hand)
    end(cluster)
    _, second, third, fourth = arrays(cluster)
    assert going_on(cluster) == [(first,), (second,), (third,), (fourth,)]
    assert len(set(cluster.finished)) == 15


def test_a_failed_run_holds_the_rounds_up_until_retry(
    cluster: FakeCluster, staged: Path, typed: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "fail").write_text("3e-4")
    typed("sweep", str(staged), "--no-mirror")
    end(cluster)
    said = capsys.readouterr().out
    assert "3 runs failed: `python -m harness status staged --failed` says why" in said
    assert "goes on with: python -m harness" in said
    assert len(going_on(cluster)) == 1 and set(seeds(root).values()) == {3}
    (root / "fail").unlink()
    typed("retry", "staged", "--failed", "--no-mirror")
    end(cluster)
    assert seeds(root) == {"1e-4": 6, "2e-4": 3, "3e-4": 6}


def test_tasks_that_end_no_run_are_not_submitted_for_ever(cluster: FakeCluster, staged: Path, typed: Type) -> None:
    typed("sweep", str(staged), "--no-mirror")

    def full_disk() -> None:
        """Every task leaves before it has trained anything."""
        for job in list(cluster.jobs.values()):
            if job.state == "RUNNING" and not job.call:
                cluster.interrupt(job, saves=True)
                job.state = "FAILED"
        if [job for job in cluster.jobs.values() if job.state in ("PENDING", "RUNNING")]:
            cluster.at(15, full_disk)

    cluster.at(15, full_disk)
    end(cluster)
    assert not cluster.finished
    assert len(arrays(cluster)) == 4 and len(going_on(cluster)) == 3  # one by hand, three in vain


def test_a_sweep_that_has_left_slurm_is_not_trained_in_the_small_job(
    cluster: FakeCluster, staged: Path, typed: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("sweep", str(staged), "--no-mirror")
    file = tmp_path / "root/sweeps/staged/manifest.json"
    store.write_atomic(file, json.dumps(store.read_json(file) | {"launcher": "local"}))
    end(cluster)
    assert "has been taken off Slurm by a later `sweep`" in capsys.readouterr().out
    assert len(cluster.finished) == 9 and len(arrays(cluster)) == 1


class Sbatch:
    """sbatch, squeue, scancel, scontrol and srun on PATH: scripts are kept, nothing runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        scripts = {
            "srun": "exit 0",
            "squeue": f'cat "{folder}/queue" 2>/dev/null; exit 0',
            "scontrol": 'echo "MaxArraySize = 1001"',
            "scancel": f'echo "$@" >> "{folder}/cancelled"',
            "sbatch": f"""if [ -e "{folder}/refuse" ] && grep -q dependency "$1"
then echo "sbatch: error: Access/permission denied" >&2; exit 1; fi
n=$(($(ls "{folder}" | grep -c script-) + 15)); cp "$1" "{folder}/script-$n"; echo "Submitted batch job $n" """,
        }
        folder.mkdir()
        for name, text in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod((folder / name).stat().st_mode | stat.S_IXUSR)

    def scripts(self) -> dict[str, str]:
        return {file.name.removeprefix("script-"): file.read_text() for file in sorted(self.folder.glob("script-*"))}


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sbatch:
    made = Sbatch(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(made.folder), prepend=":")
    return made


def test_the_job_is_small_waits_for_the_arrays_and_is_seen_and_cancelled(
    sbatch: Sbatch, staged: Path, typed: Type, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    words = ("launcher.partition=gpu", "launcher.account=me", "launcher.qos=long", "runtime.gpus=2", "--no-mirror")
    code, said = typed("sweep", str(staged), *words)
    assert code == 0, said
    assert "when these runs have ended, job 16 adds seeds where nothing is decided yet; it writes to" in said
    array, following = sbatch.scripts()["15"], sbatch.scripts()["16"]
    assert "#SBATCH --gpus-per-node=2" in array and "dependency" not in array
    for line in ("dependency=afterany:15", "cpus-per-task=1", "mem=4GB", "time=60", "partition=gpu", "account=me"):
        assert f"#SBATCH --{line}\n" in following, following
    assert "#SBATCH --qos=long\n" in following and "gpus" not in following and "array" not in following
    pickled = next((root / "sweeps/staged/slurm").glob("16_submitted.pkl")).read_bytes()
    assert b"--no-mirror" in pickled
    train, goes_on = list(store.read_json(root / "sweeps/staged/slurm/jobs.json"))
    queued = [f"15|{i}|{train}|{'PENDING|Priority|' if i else 'RUNNING|None|n1'}" for i in range(8)]
    (sbatch.folder / "queue").write_text("\n".join([*queued, f"16|N/A|{goes_on}|PENDING|Dependency|"]))
    assert status.queue(root, "staged") == (
        "tasks in Slurm: 1 running, 7 pending (priority); next round: job 16 waits for 15"
    )
    code, said = typed("sweep", str(staged), *words)
    assert "when these runs have ended, job 16 goes on" in said and list(sbatch.scripts()) == ["15", "16"]
    assert cancel.sweep(root, "staged") == ["9 tasks cancelled in Slurm; those that train save a checkpoint first"]
    asked = (sbatch.folder / "cancelled").read_text().splitlines()
    assert asked == [f"--me --name={goes_on}", f"--me --name={train}"]  # what waits goes before what it waits for


@pytest.mark.parametrize("why", ["the site says no", "sbatch says no"])
def test_where_no_job_may_submit_jobs_the_user_is_told_to(sbatch: Sbatch, staged: Path, typed: Type, why: str) -> None:
    words = ("launcher.continues=false",) if why == "the site says no" else ()
    (sbatch.folder / "refuse").touch()
    code, said = typed("sweep", str(staged), "--no-mirror", *words)
    assert code == 0, said
    assert "when these runs have ended, the same command adds seeds where nothing is decided yet" in said
    assert ("Access/permission denied" in said) == (why == "sbatch says no")
    assert list(sbatch.scripts()) == ["15"]


def test_a_sweep_without_rounds_has_no_such_job(sbatch: Sbatch, staged: Path, typed: Type) -> None:
    code, said = typed("sweep", str(staged), "stop=null", "--no-mirror")
    assert code == 0 and "when these runs have ended" not in said
    assert list(sbatch.scripts()) == ["15"]


def test_a_sweep_is_followed_until_no_job_adds_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sweeps/staged"
    (folder / "slurm").mkdir(parents=True)
    one: dict[str, Any] = {"runs": [{"run": "a"}]}
    two: dict[str, Any] = {"runs": [{"run": "a"}, {"run": "b"}]}
    store.write_atomic(folder / "slurm/jobs.json", store.dump_json({"staged.0.next": []}))
    store.write_atomic(folder / "manifest.json", store.dump_json(one))
    queue = [["RUNNING"], ["RUNNING"], []]

    def tasks(names: list[str]) -> list[scheduler.Task]:
        if len(queue) == 1:
            store.write_atomic(folder / "manifest.json", store.dump_json(two))
        return [scheduler.Task("17", names[0], state, "", "") for state in queue.pop(0)]

    monkeypatch.setattr(scheduler, "tasks", tasks)
    monkeypatch.setattr(slurm_rounds, "LOOK", 0.0)
    assert slurm_rounds.adds_runs(folder, one) and queue == []
    queue.append([])
    assert not slurm_rounds.adds_runs(folder, two)
