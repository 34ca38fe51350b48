"""What reading a large sweep costs: cold (the attempts' JSON lines), cached (Parquet), and through MLflow's client.

A synthetic sweep in a temporary folder, read in a fresh process each time. MLflow's way is `get_metric_history` per
run and key, on an sqlite mirror of a few of the runs; the rest is extrapolated linearly, which flatters it, since each
call takes longer in a larger database. Cold means without our cache: the system's page cache is as the writing left it.
Leaves out: what figures and statistics cost after that.

    python -m bench.load            about two minutes; exits 1 where a limit is passed
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from analysis.load import load
from harness.store import Run, dump_json

RUNS, STEPS, METRICS = 1000, 500, 30
COLD_LIMIT, CACHED_LIMIT = 12.0, 2.0  # seconds of `load`, on two cores
MIRRORED = 4  # runs; a pass over all would take the better part of an hour
KEYS = [f"group_{i % 6}/metric_{i:02d}" for i in range(METRICS)]
NAME = "synthetic"


def write_sweep(root: Path) -> None:
    """Runs of done state, with 9 digits a value as trainings write them and a null on every tenth step."""
    plain = '{"m":{' + ",".join(f'"{key}":%.9g' for key in sorted(KEYS)) + '},"step":%d}\n'
    blank = plain.replace("%.9g", "null%.0s", 1)  # takes the value and prints none of it
    noise = random.Random(0)
    values = [noise.gauss(0, 1) for _ in range(1_000_003)]
    runs: list[dict[str, Any]] = []
    place = 0
    for number in range(RUNS):
        run = Run(root / "runs" / f"{number // 5:016x}-s{number % 5}")
        (run.path / "metrics").mkdir(parents=True)
        lines = []
        for step in range(STEPS):
            place = (place + METRICS) % (len(values) - METRICS)
            lines.append((plain if step % 10 else blank) % (*values[place : place + METRICS], step))
        run.attempt_file("metrics", 0).write_text("".join(lines))
        (run.path / "status.json").write_text('{"state":"done"}')
        labels = {"arm": f"arm {number // 5 % 20}", "model": f"model {number // 100}"}
        runs.append({"run": run.id, "seed": number % 5, "labels": labels})
    axes = {axis: list(dict.fromkeys(run["labels"][axis] for run in runs)) for axis in ("arm", "model")}
    folder = root / "sweeps" / NAME
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(dump_json({"axes": axes, "baseline": {"arm": "arm 0"}, "runs": runs}))


def once(root: Path, metrics: list[str]) -> dict[str, Any]:
    """Wall and CPU seconds of one `load` (libraries imported before), rows, the frame's size and the peak in MiB."""
    import pandas as pd  # noqa: F401
    from pyarrow import json, parquet  # type: ignore[import-untyped]  # noqa: F401

    started, used = time.perf_counter(), time.process_time()
    frame = load(root, NAME, metrics or None).frame
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    size = float(frame.memory_usage(deep=True).sum()) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu": cpu, "rows": len(frame), "size": size, "peak": peak}


def in_a_fresh_process(root: Path, *metrics: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "bench.load", "--once", str(root), *metrics]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def through_mlflow(root: Path) -> tuple[float, int]:
    """(seconds, points) of reading the runs that were mirrored."""
    os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet", "MLFLOW_LOGGING_LEVEL": "ERROR"}
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    client = MlflowClient(f"sqlite:///{root}/mlflow.db")
    experiment = client.create_experiment(NAME)
    ids = []
    for path in sorted((root / "runs").iterdir())[:MIRRORED]:
        ids.append(client.create_run(experiment).info.run_id)
        points = [
            Metric(key, value, line["step"], line["step"])
            for line in Run(path).read("metrics")
            for key, value in line["m"].items()
            if value is not None
        ]
        client.log_batch(ids[-1], metrics=points)
    started = time.perf_counter()
    found = sum(len(client.get_metric_history(run, key)) for run in ids for key in KEYS)
    return time.perf_counter() - started, found


def main() -> int:
    if sys.argv[1:2] == ["--once"]:
        print(json.dumps(once(Path(sys.argv[2]), sys.argv[3:])))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_sweep(root)
        cold = in_a_fresh_process(root)
        cached = in_a_fresh_process(root)
        one = in_a_fresh_process(root, KEYS[0])
        kept = sum(file.stat().st_size for file in (root / "sweeps" / NAME / "cache").iterdir()) / 2**20
        texts = sum(file.stat().st_size for file in root.glob("runs/*/metrics/*.jsonl")) / 2**20
        mlflow, points = through_mlflow(root)
    print(f"{RUNS:,} runs x {STEPS} steps x {METRICS} metrics; load average {os.getloadavg()[0]:.1f}\n")
    print(f"{'':34}{'seconds':>9}{'CPU':>8}{'rows':>13}{'frame':>12}{'peak':>12}")
    lines = {"cold, from JSON lines": cold, "cached": cached, "cached, one metric": one}
    for label, it in lines.items():
        print(
            f"{label:34}{it['seconds']:9.2f}{it['cpu']:8.2f}{it['rows']:13,}{it['size']:8.0f} MiB{it['peak']:8.0f} MiB"
        )
    for label, times, digits in ((f"{MIRRORED} runs", 1.0, 2), (f"{RUNS:,} runs, extrapolated", RUNS / MIRRORED, 0)):
        print(f"{'MLflow, ' + label:34}{mlflow * times:9.{digits}f}{'':8}{points * times:13,.0f}")
    print(f"\non disk: {texts:.0f} MiB of JSON lines, {kept:.0f} MiB of cache")
    late = cold["seconds"] > COLD_LIMIT or cached["seconds"] > CACHED_LIMIT
    print(f"limits: cold {COLD_LIMIT:g} s, cached {CACHED_LIMIT:g} s: {'PASSED OVER' if late else 'kept'}")
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
