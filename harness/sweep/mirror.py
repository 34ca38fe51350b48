"""Run folders -> MLflow: one experiment per sweep, flat runs, axes as params. A mirror, never the record.

One process per sweep reads what is new in metrics/ and sends it in batches under the record's own timestamps, so
that a batch sent twice is stored once; a step that a resumed attempt repeats is sent once. How far it got stands in
sweeps/<name>/mirror.json, moved on only after a batch was accepted; which MLflow run is whose in runs/<id>/mlflow.json.
What MLflow has lost is sent anew. Leaves out: finding one's way in MLflow (`tracking.py`), reading anything back.

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
from harness.sweep import tracking

BATCH = 990  # metrics per call; MLflow's limit is 1000
EVERY = 5.0  # seconds between passes
ENDINGS = {
    "done": "FINISHED",
    "failed": "FAILED",
    "diverged": "FAILED",
    "stale": "KILLED",
    "stopped": "KILLED",
    "cancelled": "KILLED",
    "pruned": "KILLED",
}
# A dead server must cost seconds (MLflow's own patience is four minutes); the rest keeps it quiet.
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


def main(root: Path, name: str, follow: bool, until_eof: bool = False, rebuild: bool = False) -> int:
    """One pass, or passes until a signal or (`until_eof`) the end of stdin, and a last one. 0, or 1 when incomplete.

    Beside another mirror of the sweep it waits for its turn (`follow`) or, after some seconds, leaves it the work.
    `rebuild` sends all.
    """
    stop, begun = threading.Event(), time.monotonic()
    if follow:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    if until_eof:
        threading.Thread(target=_await_end_of_stdin, args=(stop,), daemon=True).start()
    while True:
        told = stop.is_set()
        with _alone(root / "sweeps" / name / "mirror.lock") as alone:
            if alone:
                if rebuild:
                    _state_file(root, name).unlink(missing_ok=True)
                return _passes(root, name, follow, stop)
        if not follow and time.monotonic() - begun < EVERY:
            stop.wait(0.2)  # one that is about to end, or a process just forked from one
            continue
        if not follow:
            print(f"another mirror of '{name}' is at work")
            return int(rebuild)  # what was asked for is not done
        if told:
            return 0
        stop.wait(EVERY)


def _passes(root: Path, name: str, follow: bool, stop: threading.Event) -> int:
    said = ""
    while True:
        last, failed = not follow or stop.is_set(), False
        try:
            deliver(root, name)
        except Exception as error:  # MLflow raises whatever its backend does; the record is safe in runs/
            failed, line = True, f"MLflow copy of '{name}' is behind: {_first_line(error)}"
            if line != said:
                print(line, flush=True)
            said = line
        if last or (failed and stop.is_set()):  # another pass at once would wait for a dead server again
            return int(failed)
        stop.wait(EVERY)


def _await_end_of_stdin(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def is_current(root: Path, name: str) -> bool:
    """Whether a pass would have nothing to send; read from files, without MLflow."""
    known = _known(root, name)["runs"]
    for item in store.read_json(root / "sweeps" / name / "manifest.json").get("runs", []):
        run, seen = store.Run(root / "runs" / item["run"]), known.get(item["run"])
        if _is_news(run.state(), _sizes(run), seen):
            return False
    return True


def _known(root: Path, name: str) -> dict[str, Any]:
    """How far the copy got, as far as files tell: nowhere on another server or without the database's file."""
    state, file = store.read_json(_state_file(root, name)), tracking.database(tracking.tracking_uri(root))
    if state.get("uri") != tracking.address(root) or (file and not file.exists()):
        return {"uri": tracking.address(root), "experiment": "", "runs": {}}
    return state


def _is_news(state: str, sizes: dict[str, int], seen: dict[str, Any] | None) -> bool:
    """Sizes, not offsets: a torn last line that stays torn is nothing new."""
    return state != "new" if seen is None else (state, sizes) != (seen["state"], seen.get("sizes"))


def _sizes(run: store.Run) -> dict[str, int]:
    return {file.stem: file.stat().st_size for file in (run.path / "metrics").glob("a*.jsonl")}


def deliver(root: Path, name: str) -> int:
    """Sends all that is new; the number of metric values sent. Raises what MLflow raises, with its state saved."""
    if is_current(root, name):
        return 0
    manifest = store.read_json(root / "sweeps" / name / "manifest.json")
    state = _known(root, name)  # before the client makes the database's file
    for key, value in PATIENCE.items():
        os.environ.setdefault(key, value)
    client = tracking.connect(root)
    experiment = tracking.experiment(client, root, manifest)
    born = f"{experiment.experiment_id}@{experiment.creation_time}"  # an emptied database gives the same number again
    if state["experiment"] != born:
        state |= {"experiment": born, "runs": {}}
    target = tracking.Target(client, tracking.address(root), str(experiment.experiment_id), manifest)
    try:
        return sum(
            _deliver_run(target, store.Run(root / "runs" / item["run"]), item, state["runs"])
            for item in manifest["runs"]
        )
    finally:
        store.write_atomic(_state_file(root, name), store.dump_json(state))


def _deliver_run(target: tracking.Target, run: store.Run, item: dict[str, Any], known: dict[str, Any]) -> int:
    from mlflow.exceptions import MlflowException

    now, sizes = run.state(), _sizes(run)  # before the metrics: what comes meanwhile is for the next pass
    if not _is_news(now, sizes, known.get(run.id)):
        return 0
    if run.id in known:
        try:
            return _send(target.client, run, known[run.id], now, sizes)
        except MlflowException as error:
            may_be_gone = error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
            if not may_be_gone or tracking.is_there(target, known[run.id]["mlflow"]):
                raise
    # new to MLflow, or no longer there
    id = tracking.find_or_create(target, item, run)
    known[run.id] = {"mlflow": id, "offsets": {}, "sizes": {}, "step": -1, "state": "new"}
    return _send(target.client, run, known[run.id], now, sizes)


def _send(client: Any, run: store.Run, seen: dict[str, Any], now: str, sizes: dict[str, int]) -> int:
    from mlflow.entities import Metric as Entity

    sent = 0
    for metrics, offsets, step in _new_batches(run, seen):
        client.log_batch(seen["mlflow"], metrics=[Entity(*metric) for metric in metrics], synchronous=True)
        seen["offsets"], seen["step"] = seen["offsets"] | offsets, step
        sent += len(metrics)
    if now != seen["state"]:
        client.set_tag(seen["mlflow"], "state", now)
        if now in ENDINGS:
            ended = store.read_json(run.path / "status.json").get("time", time.time())
            client.set_terminated(seen["mlflow"], ENDINGS[now], int(ended * 1000))
        else:
            client.update_run(seen["mlflow"], status="RUNNING")
    seen["state"], seen["sizes"] = now, sizes
    return sent


Metric = tuple[str, float, int, int]  # name, value, timestamp in ms, step


def _new_batches(run: store.Run, seen: dict[str, Any]) -> Iterator[tuple[list[Metric], dict[str, int], int]]:
    """(metrics, offsets after them, last step) for every batch not yet accepted, attempts in order."""
    step = seen["step"]
    batch: list[Metric] = []
    offsets: dict[str, int] = {}
    for file in sorted((run.path / "metrics").glob("a*.jsonl")):
        offset = seen["offsets"].get(file.stem, 0)
        with open(file, "rb") as stream:
            stream.seek(offset)
            lines = stream.readlines()
        if not lines:
            continue
        # read after the metrics, since a step's timing is written first: its timestamp is the same every time
        times = {line["step"]: line for line in _lines(run.path / "timing" / file.name)}
        for line in lines:
            if not line.endswith(b"\n"):
                break  # a torn write: read again next time
            offset += len(line)
            offsets[file.stem] = offset
            record = json.loads(line)
            if record["step"] <= step:
                continue  # a resumed attempt repeats it; the values are the same
            found = _metrics(record, times.get(record["step"], {}))
            if batch and len(batch) + len(found) > BATCH:
                # offsets up to the line before: this line opens the next batch
                yield batch, offsets | {file.stem: offset - len(line)}, step
                batch = []
            step = record["step"]
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


def _state_file(root: Path, name: str) -> Path:
    return root / "sweeps" / name / "mirror.json"


def _first_line(error: Exception) -> str:
    """Without the tower of exceptions that MLflow names after a request that failed."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].partition(" with exception ")[0]


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    with open(path, "w") as lock:
        alone = True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = False
        except OSError as error:
            print(f"{path} cannot be locked ({error.strerror}): let only one mirror of a sweep work", flush=True)
        yield alone
