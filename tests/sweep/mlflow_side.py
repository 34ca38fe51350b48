"""Run folders made by hand, and a real MLflow server that can be stopped and started."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from harness import store
from harness.sweep import mirror

Rows = list[tuple[Any, ...]]


class Sweep:
    """A sweep of hand-made run folders."""

    def __init__(self, root: Path, name: str = "clip") -> None:
        self.root, self.name = root, name
        runs = [
            {"run": f"c{i}-s0", "cell": f"c{i}", "seed": 0, "labels": {"eps_high": label, "model": "small_base"}}
            for i, label in enumerate(("0.20", "0.28"))
        ]
        manifest = {"name": name, "question": "does it?", "source": "paper", "runs": runs}
        (root / "sweeps" / name).mkdir(parents=True)
        (root / "sweeps" / name / "manifest.json").write_text(json.dumps(manifest))

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
        return mirror.deliver(self.root, self.name)

    def query(self, *texts: str) -> Rows:
        """What the last statement gives."""
        with sqlite3.connect(self.root / "mlflow.db") as connection:
            return [connection.execute(text).fetchall() for text in texts][-1]

    def accuracy(self, index: int) -> Rows:
        """(step, value, timestamp) in order of step."""
        return self.query(
            "select m.step, m.value, m.timestamp from metrics m join tags t on t.run_uuid = m.run_uuid "
            f"where t.key = 'run_id' and t.value = 'c{index}-s0' and m.key = 'train/accuracy' order by m.step"
        )

    def status(self, index: int) -> str:
        text = f"select status from runs r join tags t using (run_uuid) where t.value = 'c{index}-s0'"
        return str(self.query(text)[0][0])


class Server:
    """`mlflow server` with one worker on a free port, its database in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        database = f"sqlite:///{self.folder}/server.db"
        words = ["--backend-store-uri", database, "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *words],
                cwd=self.folder,
                env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=1):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)  # a crash, its children with it
            self.process.wait()
            self.process = None


def wait_until(true: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.1)
