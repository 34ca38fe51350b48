"""Run folders in a real MLflow database: delivered once, whatever happens in between."""

import errno
import fcntl
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness import store
from harness.sweep import mirror, tracking
from tests.sweep.conftest import REPOSITORY, Harness
from tests.sweep.mlflow_side import Sweep, wait_until


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Sweep(tmp_path)


def test_one_experiment_flat_runs_params_and_tags(sweep: Sweep) -> None:
    sweep.write(0, 0, range(3)).write_status("done", step=3)
    sweep.deliver()
    assert ("clip",) in sweep.query("select name from experiments")
    assert sweep.query("select name, status from runs") == [("0.20 small_base s0", "FINISHED")]
    params = dict(sweep.query("select key, value from params"))
    assert params == {"eps_high": "0.20", "model": "small_base", "seed": "0"}
    tags = dict(sweep.query("select key, value from tags"))
    expected = {"sweep": "clip", "cell": "c0", "seed": "0", "run_id": "c0-s0", "commit": "c0ffee", "state": "done"}
    assert expected.items() <= tags.items()
    assert "mlflow.parentRunId" not in tags
    assert sweep.accuracy(0) == [(s, s / 10, (1_800_000_000 + s) * 1000) for s in range(3)]
    assert ("seconds/update",) in sweep.query("select distinct key from metrics")


def test_nothing_is_stored_twice(sweep: Sweep) -> None:
    sweep.write(0, 0, range(40), **{f"m/{i}": float(i) for i in range(30)}).write_status("running", step=40)
    assert sweep.deliver() == 40 * 32  # more than one batch
    assert mirror.is_current(sweep.root, "clip")
    assert sweep.deliver() == 0
    before = sweep.query("select count(*) from metrics")
    (sweep.root / "sweeps/clip/mirror.json").unlink()  # as if killed between sending and noting it
    assert sweep.deliver() == 40 * 32
    assert sweep.query("select count(*) from metrics") == before == [(40 * 32,)]
    assert sweep.query("select count(*) from runs") == [(1,)]


def test_it_goes_on_where_it_stopped_and_waits_for_whole_lines(sweep: Sweep) -> None:
    run = sweep.write(0, 0, range(3))
    run.write_status("running", step=3)
    sweep.deliver()
    with open(run.attempt_file("metrics", 0), "a") as file:
        file.write('{"step": 3, "m": {"train/acc')
    assert sweep.deliver() == 0
    with open(run.attempt_file("metrics", 0), "a") as file:
        file.write('uracy": 0.3}}\n')
    assert sweep.deliver() == 1
    assert [step for step, _, _ in sweep.accuracy(0)] == [0, 1, 2, 3]


def test_a_line_that_stays_torn_is_no_reason_to_ask_mlflow_again(sweep: Sweep) -> None:
    run = sweep.write(0, 0, range(3))
    with open(run.attempt_file("metrics", 0), "a") as file:
        file.write('{"step": 3, "m": {"train/acc')  # killed here
    sweep.write(0, 1, range(2, 5)).write_status("done", step=5)
    sweep.deliver()
    assert [step for step, _, _ in sweep.accuracy(0)] == [0, 1, 2, 3, 4]
    assert mirror.is_current(sweep.root, "clip")


def test_a_step_written_during_the_pass_gets_its_own_time(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep.write(0, 0, range(3)).write_status("done", step=3)
    read, late = mirror._lines, iter([range(3, 4)])

    def read_while_training_goes_on(file: Path) -> list[dict[str, Any]]:
        lines = read(file)
        for steps in late:
            sweep.write(0, 0, steps)
        return lines

    monkeypatch.setattr(mirror, "_lines", read_while_training_goes_on)
    sweep.deliver()
    sweep.deliver()
    assert [stamp // 1000 - 1_800_000_000 for _, _, stamp in sweep.accuracy(0)] == [0, 1, 2, 3]


def test_a_resumed_attempt_repeats_no_step(sweep: Sweep) -> None:
    sweep.write(0, 0, range(5)).write_status("running", step=5)
    sweep.deliver()
    sweep.write(0, 1, range(3, 8)).write_status("done", step=8)  # from the checkpoint before step 3
    sweep.deliver()
    assert [step for step, _, _ in sweep.accuracy(0)] == list(range(8))
    assert sweep.accuracy(0)[4][2] == (1_800_000_000 + 4) * 1000  # the first time it was recorded
    # the same when both attempts are there from the start
    sweep.write(1, 0, range(5))
    sweep.write(1, 1, range(3, 8)).write_status("done", step=8)
    sweep.deliver()
    assert [step for step, _, _ in sweep.accuracy(1)] == list(range(8))


@pytest.mark.parametrize(
    ("state", "ending"),
    [
        ("running", "KILLED"),  # without a claim: its worker is dead
        ("stopped", "KILLED"),
        ("cancelled", "KILLED"),
        ("failed", "FAILED"),
        ("diverged", "FAILED"),
    ],
)
def test_dead_runs_are_closed_and_live_again(sweep: Sweep, state: store.State, ending: str) -> None:
    run = sweep.write(0, 0, range(2))
    run.write_status(state, step=2)
    sweep.deliver()
    assert sweep.status(0) == ending
    owned = run.claim()
    assert owned
    owned.write_status("running", step=2)
    sweep.write(0, 1, range(2, 3))
    sweep.deliver()
    assert sweep.status(0) == "RUNNING"
    owned.write_status("done", step=3)
    owned.release()
    sweep.deliver()
    assert sweep.status(0) == "FINISHED"
    assert sweep.query("select count(*) from runs") == [(1,)]


def test_a_run_remembers_its_mlflow_run_in_every_sweep(sweep: Sweep) -> None:
    run = sweep.write(0, 0, range(3))
    run.write_status("done", step=3)
    other = Sweep(sweep.root, "other")
    sweep.deliver()
    other.deliver()
    made = dict(
        sweep.query("select e.name, r.run_uuid from runs r join experiments e on e.experiment_id = r.experiment_id")
    )
    uri = f"sqlite:///{sweep.root}/mlflow.db"
    expected = {name: {"uri": uri, "run": made[name]} for name in ("clip", "other")}
    assert json.loads((run.path / "mlflow.json").read_text()) == expected
    # found by what the folder says although the tag is gone, and by the tag although the folder says nothing
    sweep.query("delete from tags where key = 'run_id'")
    assert mirror.main(sweep.root, "clip", follow=False, rebuild=True) == 0
    assert sweep.query("select count(*) from runs") == [(2,)]
    sweep.query(f"insert into tags (key, value, run_uuid) values ('run_id', 'c0-s0', '{made['clip']}')")
    (run.path / "mlflow.json").write_text('{"clip": {"uri": "http://elsewhere", "run": "0"}}')
    assert mirror.main(sweep.root, "clip", follow=False, rebuild=True) == 0
    assert sweep.query("select count(*) from runs") == [(2,)]
    assert json.loads((run.path / "mlflow.json").read_text()) == {"clip": expected["clip"]}


def test_no_password_is_written_down(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:secret@host:5432/runs")
    assert tracking.address(sweep.root) == "postgresql://host:5432/runs"


def test_values_and_names_that_mlflow_would_spoil(sweep: Sweep) -> None:
    metrics = {"grad/norm": float("inf"), "length/correct": None, "pass@1 %": 0.5, "flag": True}
    sweep.write(0, 0, range(1), **metrics).write_status("done", step=1)
    sweep.deliver()
    stored = dict(sweep.query("select key, value from metrics"))
    assert stored == {
        "train/accuracy": 0.0,
        "pass_1 _": 0.5,
        "flag": 1.0,
        "seconds/update": 0.5,
        "health/nonfinite": 1.0,
    }


def test_two_mirrors_of_one_sweep_do_not_meet(sweep: Sweep, harness: Harness) -> None:
    sweep.write(0, 0, range(3)).write_status("done", step=3)
    with mirror._alone(sweep.root / "sweeps/clip/mirror.lock") as first:
        assert first
        assert harness("mirror", "clip") == (0, "another mirror of 'clip' is at work\n")
        following = harness.start("mirror", "clip", "--follow")
        told = harness.start("mirror", "clip", "--follow")
        time.sleep(2)
        told.send_signal(signal.SIGTERM)  # the other has it in hand
        assert told.wait(10) == 0
        assert following.poll() is None
        assert not (sweep.root / "mlflow.db").exists()
    wait_until(lambda: mirror.is_current(sweep.root, "clip"), 40)  # its turn has come
    assert len(sweep.accuracy(0)) == 3
    sweep.write(0, 0, range(3, 5))
    following.send_signal(signal.SIGTERM)
    assert following.wait(20) == 0
    assert len(sweep.accuracy(0)) == 5


def test_mlflow_is_imported_only_with_the_lock_and_with_news(sweep: Sweep) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from harness.sweep import mirror\n"
        f"root = Path({str(sweep.root)!r})\n"
        "seen = []\n"
        "mirror.main(root, 'clip', False)\n"  # no run has begun
        "seen.append('mlflow' in sys.modules)\n"
        "(root / 'runs/c0-s0').mkdir(parents=True)\n"
        "(root / 'runs/c0-s0/status.json').write_text('{\"state\": \"done\"}')\n"
        "with mirror._alone(root / 'sweeps/clip/mirror.lock'):\n"
        "    mirror.main(root, 'clip', False)\n"
        "seen.append('mlflow' in sys.modules)\n"
        "print(seen)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.stdout.splitlines() == ["another mirror of 'clip' is at work", "[False, False]"], done.stderr


def test_without_locks_it_goes_on_with_one_warning(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    sweep.write(0, 0, range(3)).write_status("done", step=3)
    assert mirror.main(sweep.root, "clip", follow=False) == 0
    assert len(sweep.accuracy(0)) == 3
    [line] = capsys.readouterr().out.splitlines()
    assert "cannot be locked (No locks available)" in line
