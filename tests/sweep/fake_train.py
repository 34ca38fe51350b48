"""A training that only writes what the core writes. Files in the root tell it to fail, to die or to dawdle.

slow: seconds per step · fail: learning rates that raise · die: learning rates whose worker is killed at step 3,
as many times as the number behind the colon, by the signal behind a second one.
"""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from harness import store


def train(run: store.Run, stop: Callable[[], bool]) -> None:
    config, root = run.config(), run.path.parents[1]
    steps, rate = config.identity.train.steps, config.identity.train.lr
    with open(root / "started.txt", "a") as log:
        log.write(f"{run.id}\n")
    attempt = run.next_attempt()
    files = {kind: run.attempt_file(kind, attempt) for kind in ("metrics", "timing")}
    for file in files.values():
        file.parent.mkdir(exist_ok=True)
    store.write_atomic(run.path / "provenance.json", store.dump_json({"commit": "c0ffee"}))
    first = store.read_json(run.path / "saved.json").get("step", 0)
    run.write_status("running", step=first, steps=steps, attempt=attempt)
    with open(files["metrics"], "a") as metrics, open(files["timing"], "a") as timing:
        for step in range(first, steps + 1):
            if stop():
                store.write_atomic(run.path / "saved.json", store.dump_json({"step": step}))
                run.write_status("stopped", step=step, steps=steps, attempt=attempt)
                return
            if step == 2:
                store.write_atomic(run.path / "saved.json", store.dump_json({"step": step}))
            if rate in _rates(root / "fail") and step == 1:
                raise ZeroDivisionError("the fake training fails")
            if step == 3:
                _die(root / "die", rate)
            time.sleep(sum(_rates(root / "slow")))
            timing.write(json.dumps({"step": step, "time": time.time(), "seconds": {"update": 0.5}}) + "\n")
            timing.flush()
            metrics.write(json.dumps({"step": step, "m": {"train/accuracy": step / steps}}) + "\n")
            metrics.flush()
            run.write_status("running", step=step, steps=steps, attempt=attempt, accuracy=step / steps)
    run.write_status("done", step=steps, steps=steps, attempt=attempt, accuracy=0.5)


def _rates(file: Path) -> list[float]:
    return [float(word) for word in file.read_text().split()] if file.exists() else []


def _die(file: Path, rate: float) -> None:
    if file.exists():
        who, times, *number = file.read_text().split(":")
        if rate == float(who) and int(times) > 0:
            file.write_text(":".join([who, str(int(times) - 1), *number]))
            os.kill(os.getpid(), int(number[0]) if number else signal.SIGKILL)
