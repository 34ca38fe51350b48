"""A training that writes one evaluation, of a known function of its settings: best at lr 1e-3 and 4 updates.

    accuracy = .6 - .1 · |log10(lr / 1e-3)| - .05 · [updates ≠ 4] + .02 · [advantage = batch_z] + .001 · (seed mod 3)

Files in the root: `fail` and `diverge` hold limits, and a learning rate above one of them fails or diverges; `slow`
holds seconds that a run takes.
"""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

from harness import store


def accuracy(rate: float, updates: int, advantage: str, seed: int) -> float:
    worse = 0.1 * abs(math.log10(rate / 1e-3)) + 0.05 * (updates != 4)
    return 0.6 - worse + 0.02 * (advantage == "batch_z") + 0.001 * (seed % 3)


def train(run: store.Run, stop: Callable[[], bool]) -> None:
    config, root = run.config(), run.path.parents[1]
    identity, attempt = config.identity, run.next_attempt()
    rate, steps = identity.train.lr, identity.train.steps
    with open(root / "started.txt", "a") as log:
        log.write(f"{run.id}\n")
    time.sleep(_limit(root / "slow", 0.0))
    if stop():
        run.write_status("stopped", step=0, steps=steps, attempt=attempt)
        return
    if rate > _limit(root / "fail", math.inf):
        raise ZeroDivisionError("this learning rate fails")
    file = run.attempt_file("metrics", attempt)
    file.parent.mkdir(exist_ok=True)
    store.write_atomic(run.path / "provenance.json", store.dump_json({"commit": "c0ffee"}))
    score = accuracy(rate, identity.train.updates_per_rollout, identity.tricks.advantage.name, config.seed)
    lines = [{"step": step, "m": {"eval/accuracy": score}} for step in (0, steps)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    state: store.State = "diverged" if rate > _limit(root / "diverge", math.inf) else "done"
    run.write_status(state, step=steps, steps=steps, attempt=attempt, accuracy=score)


def _limit(file: Path, otherwise: float) -> float:
    return float(file.read_text()) if file.exists() else otherwise
