"""A sweep of twelve real runs on the test cluster, as a user has it: the command line, and what the store holds.

Every test disturbs it in its own way and ends with `check`: each run finished once, no step missing or double, and
each curve byte-equal to that of a sweep nobody disturbed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness import store
from tests.slurm.cluster import Cluster

REPOSITORY = Path(__file__).resolve().parents[2]
STEPS = 12
SPEC = """\
question: which learning rate?
base: {{model: hub_folder, model.path: {model}, data: gsm8k, data.path: {data}, train.steps: {steps}}}
axes: {{train.lr: [1e-3, 2e-3, 3e-3, 4e-3]}}
seeds: 3
baseline: {{train.lr: 1e-3}}
set:
  data.answer_pattern: "(.*)"
  data.template: "{{question}}"
  tricks.reward: {{name: affine, scale: -2.0, shift: 1.0}}  # wrong answers, which a random model gives, pay
  tricks.advantage: none
  sampling.prompts_per_step: 4
  sampling.group_size: 4
  sampling.max_new_tokens: 16
  train.updates_per_rollout: 4
  evaluate.every: 6
  evaluate.samples: 2
  evaluate.max_new_tokens: 16
  evaluate.benchmarks: {{sums: {{task: jsonl, path: {data}}}}}
  runtime.checkpoint_every: 3
"""


class Site:
    def __init__(self, root: Path, spec: Path, cluster: Cluster | None) -> None:
        self.root, self.spec, self.cluster = root, spec, cluster
        path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        self.environment = os.environ | {
            "HARNESS_TRAIN": "tests.slurm.slow:train",
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
        }
        if cluster:
            self.environment |= cluster.environment

    def start(self, *words: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "harness", "--root", str(self.root), *words],
            env=self.environment | environment,
            cwd=REPOSITORY,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def __call__(self, *words: str, **environment: str) -> tuple[int, str]:
        process = self.start(*words, **environment)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output

    def submit(self, *words: str, tasks: int = 3, **environment: str) -> str:
        """`sweep` on Slurm; what it printed."""
        given = ["launcher=slurm", f"launcher.max_concurrent={tasks}", *words]
        if not any(word.startswith("launcher.partition") for word in words):
            given.append("launcher.partition=low")
        code, output = self("sweep", str(self.spec), "--no-mirror", *given, **environment)
        assert code == 0, output
        return output

    def slow(self, seconds: float) -> None:
        store.write_atomic(self.root / "slow", str(seconds))

    def runs(self) -> list[store.Run]:
        return [store.Run(path) for path in sorted((self.root / "runs").glob("*"))]

    def states(self) -> list[str]:
        return sorted(run.state() for run in self.runs())

    def steps(self) -> int:
        """Steps recorded by now, in all runs."""
        return sum(len(run.read("metrics")) for run in self.runs())

    def wait(self, condition: Callable[[], bool], seconds: float = 240.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited in vain: {self.states()}\n{self.logs()}"
            time.sleep(0.1)

    def wait_done(self, seconds: float = 240.0) -> None:
        """Until every run is done and let go of: its last note follows its last status."""

        def done() -> bool:
            runs = self.runs()
            return len(runs) == 12 and set(self.states()) == {"done"} and not any(run.owner() for run in runs)

        self.wait(done, seconds)

    def workers(self) -> list[int]:
        """Processes that train this sweep."""
        return workers(self.runs())

    def logs(self) -> str:
        failed = [f"{run.id}: {run.status()} {run.notes()}" for run in self.runs() if run.state() == "failed"]
        files = [*(self.root / "sweeps").rglob("*.out"), *(self.root / "sweeps").rglob("worker-*.log")]
        return "\n".join(failed + [f"--- {file.name}\n{file.read_text(errors='replace')[-2000:]}" for file in files])

    def curves(self) -> dict[str, str]:
        """Everything recorded, by run: metrics, evaluations, samples."""
        return {run.id: curve(run) for run in self.runs()}

    def check(self, undisturbed: dict[str, str]) -> None:
        for run in self.runs():
            assert run.state() == "done", (run.id, run.status())
            ends = [note["state"] for note in run.notes() if note["event"] == "end"]
            assert ends.count("done") == 1, (run.id, ends)
            assert [record["step"] for record in run.read("metrics")] == list(range(STEPS + 1)), run.id
        assert self.curves() == undisturbed


def workers(runs: list[store.Run]) -> list[int]:
    """Processes that train one of these runs right now."""
    owners = [(run, run.owner()) for run in runs]
    return [int(owner["pid"]) for run, owner in owners if owner and run.is_held()]


def curve(run: store.Run) -> str:
    """Everything recorded of it."""
    return "\n".join(store.dump_json(run.read(kind)) for kind in ("metrics", "evals", "counts", "samples"))


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
