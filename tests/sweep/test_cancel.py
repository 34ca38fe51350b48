"""cancel, retry and --prune: what stops, what stays stopped, what comes back."""

import time
from collections.abc import Callable
from pathlib import Path

from harness import store
from tests.sweep.conftest import Harness
from tests.sweep.test_life import SWEEP, states, wait_for


def test_cancelling_a_sweep_saves_and_the_same_command_goes_on(harness: Harness, small_spec: Path) -> None:
    (harness.root / "slow").write_text("0.5")
    process = harness.start(*SWEEP, str(small_spec))
    wait_for(lambda: len(harness.trained()) == 2)
    code, output = harness("cancel", "rates")
    assert code == 0
    assert f"process {process.pid} told to stop" in output
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert "stopped" in states(harness.root)
    assert harness("cancel", "rates") == (0, "nothing of 'rates' is running or queued\n")
    (harness.root / "slow").unlink()
    assert harness(*SWEEP, "rates")[0] == 0
    assert set(states(harness.root)) == {"done"}


def test_a_cancelled_run_stops_for_good_until_retried(harness: Harness, small_spec: Path) -> None:
    (harness.root / "slow").write_text("0.3")
    process = harness.start(*SWEEP, str(small_spec))
    wait_for(lambda: len(harness.trained()) == 2)
    running = harness.trained()[0]
    code, output = harness("cancel", "rates", running)
    assert (code, output) == (0, f"{running}: stops at its next step\n")
    (harness.root / "slow").write_text("0")
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1, output
    assert states(harness.root) == ["cancelled"] + ["done"] * 5
    assert "5 done, 1 cancelled, 0 to do" in harness("plan", "rates")[1]
    assert harness("cancel", "rates", running)[1] == f"{running}: cancelled already\n"
    assert harness("status")[1].count("1 cancelled") == 1
    code, output = harness("retry", "rates", running, "--no-mirror")
    assert code == 0, output
    assert set(states(harness.root)) == {"done"}
    steps = [record["step"] for record in store.Run(harness.root / "runs" / running).read("metrics")]
    assert steps == [0, 1, 2, 3, 4, 5]


def test_retry_says_what_it_takes(harness: Harness, small_spec: Path) -> None:
    harness(*SWEEP, str(small_spec), "seeds=1", "--name", "rates")
    code, output = harness("retry", "rates")
    assert code == 2
    assert "retry takes runs, or --failed" in output
    code, output = harness("retry", "rates", "--failed", "--no-mirror")
    assert code == 0
    assert "0 runs to train again" in output


def test_prune_cancels_what_left_the_spec_and_no_more(
    harness: Harness, small_spec: Path, write: Callable[..., Path]
) -> None:
    """Of three arms one is done, one is also wanted by another sweep, and one has begun and is wanted by nobody."""
    (harness.root / "slow").write_text("0.5")
    process = harness.start("sweep", "--no-mirror", "--workers", "3", str(small_spec), "--name", "rates", "seeds=1")
    wait_for(lambda: len(harness.trained()) == 3)
    harness("cancel", "rates")
    process.communicate(timeout=20)
    runs = {store.Run(path).config().identity.train.lr: store.Run(path) for path in (harness.root / "runs").iterdir()}
    runs[1e-4].write_status("done", step=5, steps=5)
    (harness.root / "slow").unlink()
    other = write(small_spec.read_text().replace("[1e-4, 2e-4, 3e-4]", "[1e-4, 2e-4]"), "other.yaml")
    harness("plan", str(other))
    assert harness("sweep", "--no-mirror", str(other), "seeds=1", "--name", "other", HARNESS_TRAIN="none:x")[0] == 2
    small_spec.write_text(small_spec.read_text().replace("[1e-4, 2e-4, 3e-4]", "[1e-4]"))
    assert harness("sweep", "--no-mirror", str(small_spec), "--name", "rates", "seeds=1")[0] == 0
    assert {rate: run.state() for rate, run in runs.items()} == {1e-4: "done", 2e-4: "stopped", 3e-4: "stopped"}
    manifest = harness.root / "sweeps/rates/manifest.json"  # as it was when it still wanted all three
    told = store.read_json(manifest)
    told["runs"] += [dict(told["runs"][0], run=run.id) for rate, run in runs.items() if rate != 1e-4]
    store.write_atomic(manifest, store.dump_json(told))
    code, output = harness("sweep", "--no-mirror", str(small_spec), "--name", "rates", "seeds=1", "--prune")
    assert code == 0
    assert f"{runs[3e-4].id}: cancelled" in output
    assert {rate: run.state() for rate, run in runs.items()} == {1e-4: "done", 2e-4: "stopped", 3e-4: "cancelled"}


def test_following_a_sweep_ends_with_it(harness: Harness, small_spec: Path) -> None:
    (harness.root / "slow").write_text("0.5")  # the third run goes on while `status` starts, on a busy machine too
    process = harness.start(*SWEEP, str(small_spec), "seeds=1", "--name", "rates")
    wait_for(lambda: len(harness.trained()) == 2)
    started = time.monotonic()
    code, output = harness("status", "rates", "-f")
    assert code == 0
    assert time.monotonic() - started > 0.3
    assert output.count(" done ") >= 1
    assert "[3/3]" in output
    process.communicate(timeout=20)
