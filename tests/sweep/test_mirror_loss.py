"""An MLflow that is down, goes down, or has lost what it was given: the sweep does not notice, and all arrives once."""

import itertools
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import store
from harness.sweep import mirror, tracking
from tests.sweep.conftest import Harness
from tests.sweep.mlflow_side import Server, Sweep, wait_until


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Sweep(tmp_path)


EMPTIED = ("metrics", "latest_metrics", "params", "tags", "runs", "experiment_tags", "experiments")


@pytest.mark.parametrize(
    ("loss", "rebuild"),
    [(loss, True) for loss in ("nothing", "file", "experiment")]
    + [(loss, False) for loss in ("file", "rows", "experiment", "run", "run's row")],
)
def test_what_mlflow_lost_is_sent_anew(sweep: Sweep, loss: str, rebuild: bool) -> None:
    sweep.write(1, 0, range(4)).write_status("done", step=4)
    sweep.write(0, 0, range(3)).write_status("stopped", step=3)
    sweep.deliver()
    [(run,)] = sweep.query("select run_uuid from tags where key = 'run_id' and value = 'c0-s0'")
    client = tracking.connect(sweep.root)
    if loss == "file":
        (sweep.root / "mlflow.db").unlink()
    elif loss == "rows":  # as a server shows an emptied database: the experiment gets the same number again
        sweep.query(*(f"delete from {table}" for table in EMPTIED))
    elif loss == "experiment":
        client.delete_experiment(client.get_experiment_by_name("clip").experiment_id)
    elif loss == "run":
        client.delete_run(run)
    elif loss == "run's row":
        tables = ("metrics", "latest_metrics", "params", "tags", "runs")
        sweep.query(*(f"delete from {table} where run_uuid = '{run}'" for table in tables))
    if not rebuild:
        sweep.write(0, 1, range(3, 5)).write_status("done", step=5)  # news, so that it asks MLflow at all
    assert mirror.main(sweep.root, "clip", follow=False, rebuild=rebuild) == 0
    if loss == "run":  # the deleted one stays deleted
        sweep.query(f"delete from tags where run_uuid = '{run}'", f"delete from runs where run_uuid = '{run}'")
    assert [step for step, _, _ in sweep.accuracy(0)] == ([0, 1, 2] if rebuild else [0, 1, 2, 3, 4])
    assert [step for step, _, _ in sweep.accuracy(1)] == [0, 1, 2, 3]
    assert (sweep.status(0), sweep.status(1)) == ("KILLED" if rebuild else "FINISHED", "FINISHED")
    found = sweep.query("select name, lifecycle_stage from experiments where name = 'clip'")
    assert found == [("clip", "active")]
    assert sweep.query("select count(*) from runs where lifecycle_stage = 'active'") == [(2,)]
    assert mirror.is_current(sweep.root, "clip")


def test_another_server_gets_everything(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep.write(0, 0, range(3)).write_status("done", step=3)
    sweep.deliver()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{sweep.root}/second.db")
    tracking.connect(sweep.root)  # an empty one, but there
    assert sweep.deliver() == 3 * 2
    with sqlite3.connect(sweep.root / "second.db") as connection:
        assert connection.execute("select count(*) from metrics").fetchall() == [(6,)]
    (sweep.root / "second.db").unlink()  # noticed although there is no news
    assert sweep.deliver() == 3 * 2


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
    assert capsys.readouterr().out == ""
    assert len(sweep.accuracy(0)) == 3


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


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.start()
    yield server
    server.stop()


def test_a_server_that_comes_and_goes_costs_the_sweep_nothing(
    harness: Harness, small_spec: Callable[..., Path], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three arms, two seeds, steps 0 to 5 of 0.8 s on two workers: some 15 s, and no server for a part of them."""
    (harness.root / "slow").write_text("0.8")
    wait_until(server.answers, 60)
    sweep = harness.start("sweep", str(small_spec), "--name", "up", "--workers", "2", MLFLOW_TRACKING_URI=server.uri)
    wait_until((harness.root / "sweeps/up/mirror.json").exists, 40)  # something has arrived
    server.stop()
    stopped = time.time()
    assert sweep.poll() is None
    time.sleep(3)
    server.start()
    output, _ = sweep.communicate(timeout=90)
    ended = time.time()
    assert sweep.returncode == 0, output
    runs = [store.Run(path) for path in sorted((harness.root / "runs").iterdir())]
    times = [[line["time"] for line in run.read("timing")] for run in runs]
    assert len(runs) == 6
    assert any(stopped < moment < stopped + 3 for run in times for moment in run)  # trained without a server
    gaps = [after - before for run in times for before, after in itertools.pairwise(run)]
    assert max(gaps) < 0.8 + 5  # a wait for the dead server would be 10 s
    assert ended - max(run[-1] for run in times) < 20, output
    wait_until(server.answers, 60)
    assert harness("mirror", "up", MLFLOW_TRACKING_URI=server.uri) == (0, "")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    client = tracking.connect(harness.root)
    first = [_held_once(client, run, recorded, server.uri) for run, recorded in zip(runs, times, strict=True)]
    # the server starts again without its database
    server.stop()
    (server.folder / "server.db").unlink()
    server.start()
    wait_until(server.answers, 60)
    assert harness("mirror", "up", "--rebuild", MLFLOW_TRACKING_URI=server.uri) == (0, "")
    second = [_held_once(client, run, recorded, server.uri) for run, recorded in zip(runs, times, strict=True)]
    assert not set(first) & set(second)


def _held_once(client: Any, run: store.Run, recorded: list[float], uri: str) -> str:
    """The id of the MLflow run that holds every step of the run once."""
    known = json.loads((run.path / "mlflow.json").read_text())["up"]
    assert known["uri"] == uri
    assert client.get_run(known["run"]).info.status == "FINISHED"
    stamps = [int(moment * 1000) for moment in recorded]
    for key, values in {"train/accuracy": [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], "seconds/update": [0.5] * 6}.items():
        history = client.get_metric_history(known["run"], key)
        found = [(metric.step, metric.value, metric.timestamp) for metric in history]
        assert found == list(zip(range(6), values, stamps, strict=True))
    return str(known["run"])
