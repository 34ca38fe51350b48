"""The real training, slowed at its step boundaries by as many seconds as the file `slow` in the root says.

Nothing that is recorded hangs on the clock, so the curves are those of an undisturbed run.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from harness import store
from harness.core.train import train as real  # at once, as the product does: before a run is claimed


def train(run: store.Run, stop: Callable[[], bool]) -> None:
    def slowly() -> bool:
        time.sleep(pause(run.path.parents[1]))
        return stop()

    real(run, stop=slowly)


def pause(root: Path) -> float:
    file = root / "slow"
    return float(file.read_text()) if file.exists() else 0.0


if os.environ.get("SLURMD_NODENAME", "-") == os.environ.get("BAD_NODE"):
    raise ImportError("something is broken on this node")
