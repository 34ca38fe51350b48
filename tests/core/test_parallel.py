"""Two processes (torchrun, gloo) make the gradient and the update of one."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from tests.core.conftest import MakeRun

WORKER = """
import json, sys
from pathlib import Path
import torch, torch.distributed as dist
from harness import config, store
from harness.core import critic as critics, metrics
from harness.core.collect import collect
from harness.core.learner import Learner
from harness.core.step import accumulate, bind_slots
from harness.core.train import _prepare, _sampling_params
from harness.core import engines, evaluate
from harness.core.shapes import Prompts
from harness import tasks

torch.set_num_threads(1)
run, out = store.Run(Path(sys.argv[1])), Path(sys.argv[2])
if "RANK" in __import__("os").environ:
    dist.init_process_group("gloo")
cfg = run.config()
slots = bind_slots(cfg.identity.tricks)
learner, engine, task = Learner(cfg, slots), engines.load("hf"), tasks.load(cfg.identity.data)
engine.sync(learner.policy)

def generate(problems, noise):
    chosen = [task.problems[i] for i in problems]
    prompts = Prompts.of(learner.policy.encode([p.prompt for p in chosen]))
    rollout = engine.generate(prompts, noise, _sampling_params(cfg))
    return rollout, evaluate.grade(rollout, learner.policy, task, [p.answer for p in chosen])

batch = _prepare(collect(cfg, len(task.problems), slots["admit"], learner.history, 0, generate), learner)
index = torch.arange(len(batch.rows.lengths))
accumulate(learner.policy, batch, index, slots, 1.0, 1.0, None)
critics.accumulate(learner.critic, batch, index, 1.0, 0.2, None)
from harness.core import parallel
found = []
for optimizer in (learner.optimizer, learner.critic_optimizer):
    parallel.sum_over_ranks(optimizer.gradient)
    found.append(optimizer.gradient.clone())
    optimizer.gradient.zero_()
norms = learner.update(batch, 0, metrics.RatioMetrics(slots["surrogate"]))
found += [learner.optimizer.vector.detach(), learner.critic_optimizer.vector.detach()]
if not dist.is_initialized() or dist.get_rank() == 0:
    torch.save(found + [torch.tensor(norms.policy)], out)
"""


def test_two_ranks_make_the_gradient_and_the_weights_of_one(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("dp", tricks__advantage="gae", critic__lr=1e-3, tricks__reward="affine")
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    one, two = tmp_path / "one.pt", tmp_path / "two.pt"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for command, out in (([sys.executable], one), (torchrun, two)):
        done = subprocess.run([*command, str(script), str(run.path), str(out)], env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
    # Adam divides by the gradient's own size, which makes much of the last bits of one near 0
    for tolerance, alone, together in zip(
        (1e-6, 1e-6, 1e-3, 1e-3, 1e-5), torch.load(one), torch.load(two), strict=True
    ):
        size = float(alone.abs().max())
        assert size > 0
        assert float((alone - together).abs().max()) <= tolerance * size
