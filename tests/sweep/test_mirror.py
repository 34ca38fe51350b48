"""Run folders in a real MLflow database: delivered once, whatever happens in between."""

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import store
from harness.sweep import mirror
from tests.sweep.conftest import Harness

Rows = list[tuple[Any, ...]]


class Sweep:
    """A sweep of hand-made run folders."""

    def __init__(self, root: Path) -> None:
        self.root = root
        runs = [
            {"run": f"c{i}-s0", "cell": f"c{i}", "seed": 0, "labels": {"eps_high": label, "model": "small_base"}}
            for i, label in enumerate(("0.20", "0.28"))
        ]
        manifest = {"name": "clip", "question": "does it?", "source": "paper", "runs": runs}
        (root / "sweeps/clip").mkdir(parents=True)
        (root / "sweeps/clip/manifest.json").write_text(json.dumps(manifest))

    def write(self, index: int, attempt: int, steps: range, **metrics: Any) -> store.Run:
        run = store.Run(self.root / "runs" / f"c{index}-s0")
        for kind in ("metrics", "timing"):
            (run.path / kind).mkdir(parents=True, exist_ok=True)
        (run.path / "provenance.json").write_text('{"commit": "c0ffee"}')
        with (
            open(run.attempt_file("metrics", attempt), "a") as values,
            open(run.attempt_file("timing", attempt), "a") as timing,
        ):
            for step in steps:
                stamp = 1_800_000_000 + 100 * attempt + step
                record = {"train/accuracy": step / 10} | metrics
                timing.write(json.dumps({"step": step, "time": stamp, "seconds": {"update": 0.5}}) + "\n")
                values.write(json.dumps({"step": step, "m": record}) + "\n")
        return run

    def deliver(self) -> int:
        return mirror.deliver(self.root, "clip")

    def query(self, text: str) -> Rows:
        with sqlite3.connect(self.root / "mlflow.db") as connection:
            return connection.execute(text).fetchall()

    def accuracy(self, index: int) -> Rows:
        """(step, value, timestamp) in order of step."""
        return self.query(
            "select m.step, m.value, m.timestamp from metrics m join tags t on t.run_uuid = m.run_uuid "
            f"where t.key = 'run_id' and t.value = 'c{index}-s0' and m.key = 'train/accuracy' order by m.step"
        )

    def status(self, index: int) -> str:
        text = f"select status from runs r join tags t using (run_uuid) where t.value = 'c{index}-s0'"
        return str(self.query(text)[0][0])


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


def test_dead_runs_are_closed_and_live_again(sweep: Sweep) -> None:
    run = sweep.write(0, 0, range(2))
    run.write_status("running", step=2)  # without a claim: its worker is dead
    sweep.write(1, 0, range(2)).write_status("failed", error="no")
    sweep.deliver()
    assert (sweep.status(0), sweep.status(1)) == ("KILLED", "FAILED")
    token = run.claim()
    assert token
    sweep.write(0, 1, range(2, 3))
    sweep.deliver()
    assert sweep.status(0) == "RUNNING"
    run.write_status("done", step=3)
    run.release(token)
    sweep.deliver()
    assert sweep.status(0) == "FINISHED"
    assert sweep.query("select count(*) from runs") == [(2,)]


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


def test_a_dead_server_costs_seconds_and_nothing_else(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep.write(0, 0, range(3)).write_status("done", step=3)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    started = time.monotonic()
    assert mirror.main(sweep.root, "clip", follow=False) == 1
    assert time.monotonic() - started < 30
    assert capsys.readouterr().out.count("MLflow copy of 'clip' is behind") == 1
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert mirror.main(sweep.root, "clip", follow=False) == 0
    assert len(sweep.accuracy(0)) == 3


def test_two_mirrors_of_one_sweep_do_not_meet(sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    with mirror._alone(sweep.root / "sweeps/clip/mirror.lock") as first:
        assert first
        assert mirror.main(sweep.root, "clip", follow=False) == 0
    assert "another mirror" in capsys.readouterr().out


def test_a_sweep_feeds_its_mirror_and_survives_without(harness: Harness, small_spec: Callable[..., Path]) -> None:
    code, output = harness("sweep", str(small_spec), "seeds=1", "--name", "up")
    assert code == 0, output
    with sqlite3.connect(harness.root / "mlflow.db") as connection:
        assert connection.execute("select status, count(*) from runs group by status").fetchall() == [("FINISHED", 3)]
        assert connection.execute("select count(*) from metrics where key = 'train/accuracy'").fetchall() == [(18,)]
    code, output = harness(
        "sweep", str(small_spec), "seeds=2", "--name", "down", MLFLOW_TRACKING_URI="http://127.0.0.1:9"
    )
    assert code == 0
    assert "MLflow copy of 'down' is behind" in output
    assert "catches up" in output
