"""The evaluation of a starting point, made once and shared: runs that start from one model measure the same on step 0.

`first_evals/<key>.json` beside `runs/`; the key is a hash of all that determines the numbers: the model, how and on
what it is evaluated, the engine, the seed and RESULT_VERSION. A run that finds the file records what stands there, byte
for byte what it would have computed. Runs that look at the same time may both compute it, and the later file takes the
place of the earlier one as a whole. Deleting the folder costs time and nothing else. How long it took stands there too,
for what it spares the others (timing, not the record). Leaves out: later evaluations, which no two runs share.
"""

import hashlib
import time
from typing import Any

from harness import store
from harness.config import NAMES, RunConfig
from harness.core import evaluate
from harness.core.engines import Engine
from harness.core.evaluate import Benchmark, Evaluation
from harness.core.parallel import from_chief, is_chief
from harness.core.policy import Policy

FOLDER = "first_evals"


def evaluation(
    run: store.Run, config: RunConfig, benchmarks: list[Benchmark], engine: Engine, policy: Policy, step: int
) -> Evaluation:
    """`evaluate.evaluate` on this step; that of step 0 is read where a run from the same start has kept it, or kept."""
    if step:
        return evaluate.evaluate(config, benchmarks, engine, policy, step)
    file = run.path.parents[1] / FOLDER / f"{key(config)}.json"
    found: dict[str, Any] = from_chief(store.read_json(file) if is_chief() else {})  # ranks must not differ in it
    if found:
        return Evaluation(found["metrics"], found["lines"], found.get("seconds", 0.0))
    started = time.perf_counter()
    made = evaluate.evaluate(config, benchmarks, engine, policy, step)
    if is_chief():
        file.parent.mkdir(exist_ok=True)
        kept = {"metrics": made.metrics, "lines": made.lines, "seconds": time.perf_counter() - started}
        store.write_atomic(file, store.dump_json(kept))
    return made


def key(config: RunConfig) -> str:
    """16 hex digits of sha256 over what the evaluation of the starting point follows from.

    Names are left out, a path only where a content stands for it; and how often is evaluated later.
    """
    identity = config.identity
    how = identity.evaluate.model_dump(exclude={"every": True, "benchmarks": True})
    parts = {
        "model": content(identity.model.model_dump()),
        "evaluate": how | {"benchmarks": {n: content(d.model_dump()) for n, d in identity.evaluate.benchmarks.items()}},
        "engine": identity.sampling.engine,
        "seed": config.seed,
        "result_version": identity.result_version,
    }
    return hashlib.sha256(store.dump_json(parts).encode()).hexdigest()[:16]


def content(section: dict[str, Any]) -> dict[str, Any]:
    """A section of an identity without names, and without a path that a content stands for."""
    names = NAMES if section.get("content") else NAMES - {"path"}
    return {name: value for name, value in section.items() if name not in names}
