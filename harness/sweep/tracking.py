"""Where the copy goes: the MLflow at an address, a sweep's experiment in it and the MLflow run of every run.

MLflow lets nobody choose a run's id and keeps no tag unique, so which MLflow run is whose stands in
runs/<id>/mlflow.json. Leaves out: what is sent (`mirror.py`).
"""

import contextlib
import fcntl
import logging
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import store


def tracking_uri(root: Path) -> str:
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{root.resolve()}/mlflow.db"


def address(root: Path) -> str:
    """The tracking URI as it may stand in a file: without user and password."""
    return re.sub(r"(?<=://)[^/@]*@", "", tracking_uri(root))


def database(uri: str) -> Path | None:
    """The file behind an sqlite address."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]) if uri.startswith("sqlite:///") else None


@dataclass(frozen=True)
class Target:
    """A sweep's experiment in MLflow."""

    client: Any
    address: str
    experiment: str
    manifest: dict[str, Any]


_opened: dict[str, tuple[int, str]] = {}  # sqlite address -> (the file's inode, the address as MLflow last got it)


def connect(root: Path) -> Any:
    """Its first call makes the database, under a lock: parallel first starts would break a fresh sqlite file."""
    from mlflow.tracking import MlflowClient

    for noisy in ("alembic", "mlflow"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    uri = tracking_uri(root)
    file, (inode, spelling) = database(uri), _opened.get(uri, (0, uri))
    with open(root / "sweeps" / ".mlflow.lock", "w") as lock:
        with contextlib.suppress(OSError):  # no locks on this file system, as the mirror has said
            fcntl.flock(lock, fcntl.LOCK_EX)
        if file and inode and not (file.exists() and file.stat().st_ino == inode):
            # MLflow holds a connection per address, here to a deleted file; spelt otherwise it opens the new one
            spelling = "/./".join(spelling.rsplit("/", 1))
        client = MlflowClient(spelling)
        client.search_experiments(max_results=1)
        if file:
            _opened[uri] = (file.stat().st_ino, spelling)
    return client


def experiment(client: Any, root: Path, manifest: dict[str, Any]) -> Any:
    found = client.get_experiment_by_name(manifest["name"])
    if found is None:
        tags = {
            "question": manifest["question"],
            "source": manifest["source"],
            "mlflow.note.content": manifest["question"],
        }
        made = client.create_experiment(manifest["name"], (root / "mlruns").resolve().as_uri(), tags)
        return client.get_experiment(made)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found


def find_or_create(target: Target, item: dict[str, Any], run: store.Run) -> str:
    """The MLflow run of a run: what its folder remembers, else by its tag (nobody may choose ids), else a new one."""
    from mlflow.entities import Param

    client, name = target.client, target.manifest["name"]
    remembered = store.read_json(run.path / "mlflow.json")
    last = remembered.get(name, {})
    if last.get("uri") == target.address and is_there(target, last["run"]):
        return str(last["run"])
    found = client.search_runs([target.experiment], f"tags.run_id = '{run.id}'", max_results=1)
    if found:
        made = found[0]
    else:
        timing = run.attempt_file("timing", 0)
        first = next(store.read_lines(timing), {}) if timing.exists() else {}
        started = first.get("time") or store.read_json(run.path / "status.json").get("time", time.time())
        tags = {
            "sweep": name,
            "cell": item["cell"],
            "seed": str(item["seed"]),
            "run_id": run.id,
            "commit": store.read_json(run.path / "provenance.json").get("commit", ""),
            "folder": str(run.path),
        }
        label = " ".join([*item["labels"].values(), f"s{item['seed']}"])
        made = client.create_run(target.experiment, int(started * 1000), tags, label)
    if not made.data.params:  # new, or a death came between its making and this
        values = item["labels"] | {"seed": str(item["seed"])}
        client.log_batch(made.info.run_id, params=[Param(key, value) for key, value in values.items()])
    remembered[name] = {"uri": target.address, "run": str(made.info.run_id)}
    store.write_atomic(run.path / "mlflow.json", store.dump_json(remembered))
    return str(made.info.run_id)


def is_there(target: Target, id: str) -> bool:
    from mlflow.exceptions import MlflowException

    try:
        info = target.client.get_run(id).info
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return False
        raise
    return bool(info.lifecycle_stage == "active" and info.experiment_id == target.experiment)
