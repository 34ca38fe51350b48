"""A sweep's whole life on a fake training: planned, run, run again, killed, resumed, failed, retried, shared."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import store
from harness.sweep import worker
from tests.sweep.conftest import Harness

Write = Callable[..., Path]
SWEEP = ("sweep", "--no-mirror", "--workers", "2")


def states(root: Path) -> list[str]:
    return sorted(store.Run(path).state() for path in (root / "runs").iterdir())


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_plan_and_dry_run_touch_nothing(harness: Harness, small_spec: Path) -> None:
    for words in (("plan",), ("sweep", "--dry-run")):
        code, output = harness(*words, str(small_spec))
        assert code == 0
        assert "3 cells x 2 seeds = 6 runs" in output
        assert "6 to do" in output
    assert not (harness.root / "runs").exists()
    assert not (harness.root / "sweeps").exists()


def test_run_then_rerun_trains_everything_once(harness: Harness, small_spec: Path) -> None:
    code, output = harness(*SWEEP, str(small_spec))
    assert code == 0, output
    assert len(harness.trained()) == 6
    assert set(states(harness.root)) == {"done"}
    manifest = json.loads((harness.root / "sweeps/rates/manifest.json").read_text())
    assert manifest["axes"] == {"train.lr": ["1e-4", "2e-4", "3e-4"]}
    assert manifest["baseline"] == {"train.lr": "1e-4"}
    assert manifest["seeds"] == [0, 1]
    assert {run["run"] for run in manifest["runs"]} == set(harness.trained())
    assert manifest["runs"][0]["labels"] == {"train.lr": "1e-4"}

    code, output = harness(*SWEEP, "rates")  # by its name
    assert code == 0
    assert "6 done, 0 to do" in output
    assert len(harness.trained()) == 6

    code, output = harness(*SWEEP, str(small_spec), "seeds=3")  # enlarging a sweep trains the difference
    assert code == 0
    assert len(harness.trained()) == 9
    code, output = harness("status")
    assert "9 runs: 9 done" in output


def test_a_failing_run_does_not_end_the_sweep_and_is_retried_only_when_asked(
    harness: Harness, small_spec: Path
) -> None:
    (harness.root / "fail").write_text("2e-4")
    code, output = harness(*SWEEP, str(small_spec))
    assert code == 1
    assert "2 runs failed" in output
    assert states(harness.root) == ["done"] * 4 + ["failed"] * 2
    failed = next(p for p in (harness.root / "runs").iterdir() if store.Run(p).state() == "failed")
    assert "ZeroDivisionError: the fake training fails" in (failed / "error.txt").read_text()
    assert "Traceback" in (failed / "error.txt").read_text()
    code, output = harness("status", "--failed")
    assert output.count("ZeroDivisionError: the fake training fails") == 2
    assert "train.lr=2e-4" in output

    assert harness(*SWEEP, str(small_spec))[0] == 1
    assert len(harness.trained()) == 6
    (harness.root / "fail").unlink()
    code, output = harness("retry", "rates", "--failed", "--no-mirror")
    assert code == 0
    assert "2 runs to train again" in output
    assert len(harness.trained()) == 8
    assert set(states(harness.root)) == {"done"}


def test_a_killed_worker_is_replaced_and_its_run_resumed(harness: Harness, small_spec: Path) -> None:
    (harness.root / "die").write_text("3e-4:1")
    code, output = harness(*SWEEP, str(small_spec))
    assert code == 0, output
    assert "died (killed by signal 9)" in output
    trained = harness.trained()
    assert len(trained) == 7
    twice = next(id for id in trained if trained.count(id) == 2)
    steps = [record["step"] for record in store.Run(harness.root / "runs" / twice).read("metrics")]
    assert steps == [0, 1, 2, 3, 4, 5]
    attempts = sorted(path.name for path in (harness.root / "runs" / twice / "metrics").iterdir())
    assert attempts == ["a000.jsonl", "a001.jsonl"]


def test_a_run_that_keeps_killing_its_worker_is_given_up(harness: Harness, small_spec: Path) -> None:
    (harness.root / "die").write_text("3e-4:99:6")  # SIGABRT, as from a library that gives up
    # one worker: a second may take the run before the crash is noted, which costs it one try more
    code, output = harness("sweep", "--no-mirror", "--workers", "1", str(small_spec), "seeds=1")
    assert code == 1
    assert len(harness.trained()) == 2 + 3  # tried three times, and never got beyond step 2
    assert states(harness.root) == ["done", "done", "failed"]
    code, output = harness("status", "--failed")
    assert "its worker crashed 3 times and got no farther" in output
    (harness.root / "die").unlink()
    name = next((harness.root / "sweeps").glob("rates-*")).name  # an override made the name
    assert harness("retry", name, "--failed", "--no-mirror")[0] == 0


def test_workers_that_cannot_start_end_the_sweep_with_a_reason(harness: Harness, small_spec: Path) -> None:
    code, output = harness(*SWEEP, str(small_spec), HARNESS_TRAIN="no_such_module:train")
    assert code == 1 or code == 2
    assert "no_such_module" in output


def test_ctrl_c_saves_and_the_same_command_goes_on(harness: Harness, small_spec: Path) -> None:
    (harness.root / "slow").write_text("1")  # seconds a step: neither run can end before the signal
    process = harness.start(*SWEEP, str(small_spec))
    wait_for(lambda: len(harness.trained()) == 2)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "python -m harness sweep rates" in output
    assert "stopped" in states(harness.root)
    assert not list((harness.root / "runs").glob("*/claim"))
    (harness.root / "slow").unlink()
    code, output = harness(*SWEEP, "rates")
    assert code == 0
    assert set(states(harness.root)) == {"done"}
    for path in (harness.root / "runs").iterdir():
        assert [record["step"] for record in store.Run(path).read("metrics")] == [0, 1, 2, 3, 4, 5]


def test_killing_the_sweep_itself_stops_its_workers_and_loses_nothing(harness: Harness, small_spec: Path) -> None:
    (harness.root / "slow").write_text("0.2")
    process = harness.start(*SWEEP, str(small_spec))
    wait_for(lambda: len(harness.trained()) == 2)
    process.kill()
    process.communicate()
    wait_for(lambda: not list((harness.root / "runs").glob("*/claim")))
    assert "running" not in states(harness.root)
    (harness.root / "slow").unlink()
    assert harness(*SWEEP, "rates")[0] == 0
    assert set(states(harness.root)) == {"done"}


def test_two_sweeps_at_once_share_the_work(harness: Harness, small_spec: Path) -> None:
    (harness.root / "slow").write_text("0.05")
    both = [harness.start("sweep", "--no-mirror", "--workers", "1", str(small_spec), "--name", name) for name in "ab"]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sorted(harness.trained()) == sorted(set(harness.trained()))
    assert len(harness.trained()) == 6
    assert set(states(harness.root)) == {"done"}


def test_one_run_by_hand(harness: Harness, small_spec: Path) -> None:
    harness(*SWEEP, str(small_spec), "seeds=1")
    folder = next((harness.root / "runs").iterdir())
    assert harness("run", str(folder)) == (0, f"{folder.name}: done\n")
    store.write_atomic(folder / "status.json", "{}")
    assert harness("run", folder.name)[0] == 0  # its id is enough
    assert harness.trained().count(folder.name) == 2
    code, output = harness("run", "runs/nothing")
    assert code == 2
    assert "no such run folder" in output
    code, output = harness("run", str(harness.root / "sweeps"))
    assert code == 2
    assert "config.yaml is missing" in output


def test_a_run_held_by_another_process_is_refused_by_hand(harness: Harness, small_spec: Path) -> None:
    harness(*SWEEP, str(small_spec), "seeds=1")
    run = store.Run(next((harness.root / "runs").iterdir()))
    store.write_atomic(run.path / "status.json", "{}")
    assert run.claim()
    code, output = harness("run", str(run.path))
    assert code == 2
    assert re.search(rf"process {os.getpid()} on \S+ trains it", output)


def test_runtime_settings_reach_a_run_that_was_interrupted(harness: Harness, small_spec: Path) -> None:
    (harness.root / "fail").write_text("1e-4")
    harness(*SWEEP, str(small_spec), "seeds=1", "train.steps=4")
    (harness.root / "fail").unlink()
    name = next((harness.root / "sweeps").glob("rates-*")).name
    code, output = harness("retry", name, "--failed", "--no-mirror", "runtime.micro_batch_rows=7")
    assert code == 0, output
    rows = [store.Run(path).config().runtime.micro_batch_rows for path in (harness.root / "runs").iterdir()]
    assert sorted(rows, key=str) == [7, None, None]


def test_a_lost_claim_stops_the_training(tmp_path: Path) -> None:
    run = store.Run(tmp_path / "runs" / "x")
    run.path.mkdir(parents=True)
    mine = run.claim()
    assert mine
    seen: list[bool] = []

    def train(run: store.Run, stop: Callable[[], bool]) -> None:
        seen.append(stop())
        store.write_atomic(run.path / "claim", '{"token": "of another"}')
        with pytest.raises(store.ClaimLost):
            run.write_status("done")
        seen.append(stop())

    worker.attend(mine, train, lambda: False, worker.Heartbeat())
    assert seen == [False]  # the second question never came back
    assert run.state() == "new"  # what a run is belongs to its new owner
    mine.release()
    assert (run.path / "claim").exists()


def test_a_training_that_ends_without_an_end_is_failed(tmp_path: Path) -> None:
    run = store.Run(tmp_path / "runs" / "x")
    run.path.mkdir(parents=True)
    mine = run.claim()
    assert mine
    worker.attend(mine, lambda run, stop: None, lambda: False, worker.Heartbeat())
    assert run.status()["error"] == "training returned without an end"


def test_names_of_sweeps(harness: Harness, small_spec: Path, write: Write) -> None:
    harness(*SWEEP, str(small_spec), "seeds=1")
    harness(*SWEEP, str(small_spec), "seeds=1", "runtime.threads=2")
    other = harness(*SWEEP, str(small_spec), "seeds=1", "train.steps=2")[1]
    names = sorted(path.name for path in (harness.root / "sweeps").iterdir())
    assert len(names) == 2  # runtime changes no run, so it makes no sweep of its own
    assert all(re.fullmatch(r"rates-[0-9a-f]{6}", name) for name in names), other
    (harness.root / "elsewhere").mkdir()
    copy = harness.root / "elsewhere" / "rates.yaml"
    copy.write_text(small_spec.read_text())
    harness(*SWEEP, str(small_spec), "--name", "mine", "seeds=1")
    code, output = harness(*SWEEP, str(copy), "--name", "mine", "seeds=1")
    assert code == 2
    assert "belongs to" in output and "--name NAME" in output


def test_no_orphans(harness: Harness, small_spec: Path) -> None:
    harness(*SWEEP, str(small_spec), "seeds=1")
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(harness.root) not in listed
