"""A training for sweeps with `prune`: evaluations every second step, at a height that the learning rate says.

A run whose rate stands in the root's file `hold` waits at step HELD, with its evaluation written, until it is told to
stop; a supervisor can take as long as it likes to look. Rates in the file `stuck` wait there from the start, unheard.
"""

import json
import time
from collections.abc import Callable

from harness import store

HEIGHT = {1e-4: 0.5, 2e-4: 0.6, 3e-4: 0.1}
HELD = 5


def train(run: store.Run, stop: Callable[[], bool]) -> None:
    config, root = run.config(), run.path.parents[1]
    rate, steps, attempt = config.identity.train.lr, config.identity.train.steps, run.next_attempt()
    with open(root / "started.txt", "a") as log:
        log.write(f"{run.id}\n")
    file = run.attempt_file("metrics", attempt)
    file.parent.mkdir(exist_ok=True)
    store.write_atomic(run.path / "provenance.json", store.dump_json({"commit": "c0ffee"}))
    first = store.read_json(run.path / "saved.json").get("step", 0)
    hold = [float(word) for word in (root / "hold").read_text().split()] if (root / "hold").exists() else []
    with open(file, "a") as metrics:
        for step in range(first, steps + 1):
            run.write_status("running", step=step, steps=steps, attempt=attempt)
            end = time.monotonic() + 60
            while step == HELD and rate in hold and not stop() and time.monotonic() < end:
                time.sleep(0.05)
            if stop():
                store.write_atomic(run.path / "saved.json", store.dump_json({"step": step}))
                run.write_status("stopped", step=step, steps=steps, attempt=attempt)
                return
            values = {"eval/accuracy": HEIGHT[rate] + 0.01 * step / steps} if step % 2 == 0 else {"policy/entropy": 1.0}
            metrics.write(json.dumps({"step": step, "m": values}) + "\n")
            metrics.flush()
    run.write_status("done", step=steps, steps=steps, attempt=attempt, accuracy=HEIGHT[rate])
