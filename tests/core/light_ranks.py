"""`harness.core.ranks` as torchrun starts it, with a training that loads no model: what is left is who watches whom.

A step is a sum over the ranks, which is 2 where both have come, and a line of metrics by the first. The rank whose
number is in the file FAIL of the run's folder raises at step 1. Leaves out: real training on ranks (test_sharded.py).

    python -m torch.distributed.run ... -m tests.core.light_ranks runs/<id> TOKEN FOLDER
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

from harness import store

FAIL = "fail-on"  # a rank's number


def train(run: store.Run, stop: Callable[[], bool]) -> None:
    import torch
    import torch.distributed as dist

    rank, fails = dist.get_rank(), run.path / FAIL
    file = run.attempt_file("metrics", 0)
    file.parent.mkdir(exist_ok=True)
    for step in range(100_000):
        if step == 1 and fails.exists() and int(fails.read_text()) == rank:
            raise FileNotFoundError(f"no such file on rank {rank}")
        both = torch.ones(())
        dist.all_reduce(both)
        if rank == 0:
            with open(file, "a") as out:
                out.write(store.dump_json({"step": step, "m": {"ranks": both.item()}}) + "\n")
        if stop():
            return
        time.sleep(0.02)


if __name__ == "__main__":
    light, engines = ModuleType("harness.core.train"), ModuleType("harness.core.engines")
    light.train = train  # type: ignore[attr-defined]
    engines.vllm_start = SimpleNamespace(forget=lambda: None)  # type: ignore[attr-defined]
    sys.modules |= {light.__name__: light, engines.__name__: engines}
    from harness.core import ranks

    ranks.main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
