"""Random workers killed a hundred times over a sweep of twelve runs: what is left of it beside one nobody touched?

The miniature lab's small model, real training, two workers on this machine. A killer picks one of the processes that
train (now and then the sweep itself, which is then started again) and sends SIGKILL at a random instant. Prints a
row per run: attempts, deaths, steps missing or double, whether the curve is byte-equal. Leaves out: Slurm's ways to
end a job (tests/slurm).

    python -m bench.chaos [--kills 100] [--seed 0]            about fifteen minutes on two cores
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import store
from tests.slurm.site import curve, kill, workers

REPOSITORY = Path(__file__).resolve().parents[1]
STEPS = 100
SPEC = f"""\
question: does a kill leave a trace?
base: {{model: small_base, data: easy, train.steps: {STEPS}, train.lr: 3e-4}}
axes: {{tricks.surrogate.high: [0.20, 0.24, 0.28, 0.32]}}
seeds: 3
baseline: {{tricks.surrogate.high: 0.20}}
set:
  sampling.prompts_per_step: 4
  train.updates_per_rollout: 4
  evaluate.every: 20
  evaluate.samples: 1
  runtime.checkpoint_every: 5
"""


def sweep(root: Path, spec: Path) -> "subprocess.Popen[bytes]":
    words = ["--root", str(root), "sweep", str(spec), "--no-mirror", "--workers", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *words],
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def runs(root: Path) -> list[store.Run]:
    return [store.Run(path) for path in sorted((root / "runs").glob("*"))]


def torment(root: Path, spec: Path, kills: int, dice: random.Random) -> tuple[int, int]:
    """(workers killed, sweeps killed) until every run has ended, in time for `kills` of the former."""
    process, killed, ended = sweep(root, spec), 0, 0
    while True:
        time.sleep(dice.uniform(0.5, 4.0))
        if process.poll() is not None:
            states = {run.state() for run in runs(root)}
            if states == {"done"}:
                return killed, ended
            process = sweep(root, spec)  # whatever is missing, by the same command
            continue
        if killed >= kills:
            continue
        if dice.random() < 0.03 and kill(process.pid):
            process.wait()
            ended += 1
        elif found := workers(runs(root)):
            killed += kill(dice.choice(found))


def report(root: Path, whole: dict[str, str]) -> bool:
    """Prints the table; whether every run is as if nothing had happened."""
    print(f"  {'run':20} {'state':>6} {'attempts':>8} {'steps recorded':>14} {'missing':>8} {'double':>7} {'bytes':>6}")
    fine = []
    for run in runs(root):
        steps = [record["step"] for record in run.read("metrics")]
        written = sum(1 for file in (run.path / "metrics").glob("a*.jsonl") for _ in store.read_lines(file))
        missing, double = STEPS + 1 - len(set(steps)), len(steps) - len(set(steps))
        equal = curve(run) == whole[run.id]
        fine.append(run.state() == "done" and not missing and not double and equal)
        row = f"  {run.id:20} {run.state():>6} {run.next_attempt():8} {written:14} {missing:8} {double:7}"
        print(f"{row} {'equal' if equal else 'DIFFER':>6}")
    print(f"{sum(fine)} of {len(fine)} runs as if nothing had happened")
    return all(fine)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        spec = Path(name) / "chaos.yaml"
        spec.write_text(SPEC)
        begun = time.monotonic()
        sweep(Path(name) / "whole", spec).wait()
        whole = {run.id: curve(run) for run in runs(Path(name) / "whole")}
        calm = time.monotonic() - begun
        begun = time.monotonic()
        killed, ended = torment(Path(name) / "killed", spec, options.kills, random.Random(options.seed))
        took = time.monotonic() - begun
        print(f"undisturbed {calm:.0f} s; with {killed} workers and {ended} sweeps killed {took:.0f} s")
        return 0 if report(Path(name) / "killed", whole) and len(whole) == 12 and killed >= options.kills else 1


if __name__ == "__main__":
    sys.exit(main())
