"""Run folders -> MLflow: one experiment per sweep, flat runs, axes as params. A mirror, never the record.

One process per sweep reads what is new in metrics/ and sends it in batches under the record's own timestamps, so
that a batch sent twice is stored once; a step that a resumed attempt repeats is sent once. How far it got stands in
sweeps/<name>/mirror.json, moved on only after a batch was accepted. Leaves out: reading anything back.

    python -m harness mirror NAME            MLFLOW_TRACKING_URI, or sqlite:///ROOT/mlflow.db
"""

import contextlib
import fcntl
import json
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import store

BATCH = 990  # metrics per call; MLflow's limit is 1000
EVERY = 5.0  # seconds between passes
ENDINGS = {"done": "FINISHED", "failed": "FAILED", "diverged": "FAILED", "stale": "KILLED", "stopped": "KILLED"}
# A dead server must cost seconds; MLflow's own patience is four minutes.
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


def main(root: Path, name: str, follow: bool, until_eof: bool = False) -> int:
    """One pass, or passes until a signal or (`until_eof`) the end of stdin, and a last one. 0, or 1 when incomplete."""
    stop = threading.Event()
    if follow:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    if until_eof:
        threading.Thread(target=_await_end_of_stdin, args=(stop,), daemon=True).start()
    with _alone(root / "sweeps" / name / "mirror.lock") as alone:
        if not alone:
            print(f"another mirror of '{name}' is at work")
            return 0
        said, complete = "", False
        while True:
            last = not follow or stop.is_set()
            try:
                complete = True
                deliver(root, name)
            except Exception as error:  # MLflow raises whatever its backend does; the record is safe in runs/
                complete, line = False, f"MLflow copy of '{name}' is behind: {_first_line(error)}"
                if line != said:
                    print(line, flush=True)
                said = line
            if last:
                return 0 if complete else 1
            stop.wait(EVERY)


def _await_end_of_stdin(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def tracking_uri(root: Path) -> str:
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{root.resolve()}/mlflow.db"


def is_current(root: Path, name: str) -> bool:
    """Whether a pass would have nothing to send; read from files, without MLflow."""
    known = store.read_json(_state_file(root, name)).get("runs", {})
    for item in store.read_json(root / "sweeps" / name / "manifest.json").get("runs", []):
        run, seen = store.Run(root / "runs" / item["run"]), known.get(item["run"], {})
        if run.state() == "new" and not seen:
            continue
        sizes = {file.stem: file.stat().st_size for file in (run.path / "metrics").glob("a*.jsonl")}
        if sizes != seen.get("offsets", {}) or run.state() != seen.get("state"):
            return False
    return True


def deliver(root: Path, name: str) -> int:
    """Sends all that is new; the number of metric values sent. Raises what MLflow raises, with its state saved."""
    if is_current(root, name):
        return 0
    manifest = store.read_json(root / "sweeps" / name / "manifest.json")
    state = store.read_json(_state_file(root, name)) or {"uri": "", "experiment": "", "runs": {}}
    client = _client(root)
    if state["uri"] != tracking_uri(root):  # another server knows nothing yet
        state = {"uri": tracking_uri(root), "experiment": "", "runs": {}}
    state["experiment"] = _experiment(client, root, manifest)
    sent = 0
    try:
        for item in manifest["runs"]:
            sent += _deliver_run(client, root, manifest, item, state)
    finally:
        store.write_atomic(_state_file(root, name), store.dump_json(state))
    return sent


def _deliver_run(client: Any, root: Path, manifest: dict[str, Any], item: dict[str, Any], state: dict[str, Any]) -> int:
    run = store.Run(root / "runs" / item["run"])
    now = run.state()  # before the metrics: a run that ends meanwhile is finished by the next pass
    seen = state["runs"].get(run.id, {"offsets": {}, "step": -1, "state": "new", "mlflow": ""})
    if now == "new" and not seen["mlflow"]:
        return 0
    batches = list(_new_batches(run, seen))
    if not batches and now == seen["state"]:
        return 0
    if not seen["mlflow"]:
        seen["mlflow"] = _find_or_create(client, state["experiment"], manifest, item, run)
        state["runs"][run.id] = seen
    sent = 0
    for metrics, offsets, step in batches:
        client.log_batch(seen["mlflow"], metrics=_entities(metrics), synchronous=True)
        seen["offsets"], seen["step"] = seen["offsets"] | offsets, step
        sent += len(metrics)
    if now != seen["state"]:
        client.set_tag(seen["mlflow"], "state", now)
        if now in ENDINGS:
            ended = store.read_json(run.path / "status.json").get("time", time.time())
            client.set_terminated(seen["mlflow"], ENDINGS[now], int(ended * 1000))
        else:
            client.update_run(seen["mlflow"], status="RUNNING")
        seen["state"] = now
    return sent


Metric = tuple[str, float, int, int]  # name, value, timestamp in ms, step


def _new_batches(run: store.Run, seen: dict[str, Any]) -> Iterator[tuple[list[Metric], dict[str, int], int]]:
    """(metrics, offsets after them, last step) for every batch not yet accepted, attempts in order."""
    step = seen["step"]
    batch: list[Metric] = []
    offsets: dict[str, int] = {}
    for file in sorted((run.path / "metrics").glob("a*.jsonl")):
        offset = seen["offsets"].get(file.stem, 0)
        if file.stat().st_size == offset:
            continue
        times = {line["step"]: line for line in _lines(run.path / "timing" / file.name)}
        with open(file, "rb") as stream:
            stream.seek(offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    break  # a torn write: read again next time
                offset += len(line)
                offsets[file.stem] = offset
                record = json.loads(line)
                if record["step"] <= step:
                    continue  # a resumed attempt repeats it; the values are the same
                step = record["step"]
                found = _metrics(record, times.get(step, {}))
                if batch and len(batch) + len(found) > BATCH:
                    # offsets up to the line before: this line opens the next batch
                    yield batch, offsets | {file.stem: offset - len(line)}, batch[-1][3]
                    batch = []
                batch += found
    if batch or offsets:
        yield batch, offsets, step


def _lines(file: Path) -> list[dict[str, Any]]:
    return list(store.read_lines(file)) if file.exists() else []


def _metrics(record: dict[str, Any], timing: dict[str, Any]) -> list[Metric]:
    """Values that are not finite are left out and flagged: MLflow would turn an infinity into 1.8e308."""
    step, stamp = int(record["step"]), int(timing.get("time", 0.0) * 1000)
    seconds = {f"seconds/{phase}": value for phase, value in timing.get("seconds", {}).items()}
    found: list[Metric] = []
    bad = 0.0
    for name, value in (record["m"] | seconds).items():
        if value is None or isinstance(value, str):
            continue
        if math.isfinite(value):
            found.append((re.sub(r"[^\w\-./ :]", "_", name), float(value), stamp, step))
        else:
            bad = 1.0
    if bad:
        found.append(("health/nonfinite", bad, stamp, step))
    return found


def _entities(metrics: list[Metric]) -> list[Any]:
    from mlflow.entities import Metric as Entity

    return [Entity(*metric) for metric in metrics]


def _client(root: Path) -> Any:
    """Its first call makes the database, under a lock: parallel first starts would break a fresh sqlite file."""
    for key, value in PATIENCE.items():
        os.environ.setdefault(key, value)
    import logging

    from mlflow.tracking import MlflowClient

    for noisy in ("alembic", "mlflow"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    with open(root / "sweeps" / ".mlflow.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        client = MlflowClient(tracking_uri(root))
        client.search_experiments(max_results=1)
    return client


def _experiment(client: Any, root: Path, manifest: dict[str, Any]) -> str:
    found = client.get_experiment_by_name(manifest["name"])
    if found is None:
        tags = {
            "question": manifest["question"],
            "source": manifest["source"],
            "mlflow.note.content": manifest["question"],
        }
        return str(client.create_experiment(manifest["name"], (root / "mlruns").resolve().as_uri(), tags))
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _find_or_create(
    client: Any, experiment: str, manifest: dict[str, Any], item: dict[str, Any], run: store.Run
) -> str:
    """The MLflow run of a run: by its tag, since MLflow lets nobody choose ids; else a new one."""
    from mlflow.entities import Param

    found = client.search_runs([experiment], f"tags.run_id = '{run.id}'", max_results=1)
    if found:
        return str(found[0].info.run_id)
    first = next(iter(_lines(run.path / "timing" / "a000.jsonl")), {})
    started = first.get("time") or store.read_json(run.path / "status.json").get("time", time.time())
    commit = store.read_json(run.path / "provenance.json").get("commit", "")
    label = " ".join([*item["labels"].values(), f"s{item['seed']}"])
    tags = {
        "sweep": manifest["name"],
        "cell": item["cell"],
        "seed": str(item["seed"]),
        "run_id": run.id,
        "commit": commit,
        "folder": str(run.path),
    }
    made = client.create_run(experiment, int(started * 1000), tags, label)
    params = [Param(axis, value) for axis, value in item["labels"].items()] + [Param("seed", str(item["seed"]))]
    client.log_batch(made.info.run_id, params=params)
    return str(made.info.run_id)


def _state_file(root: Path, name: str) -> Path:
    return root / "sweeps" / name / "mirror.json"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
