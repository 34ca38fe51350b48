"""Data parallelism in two lines: every rank takes part of an update's rows, and gradients are summed.

Weights are fixed over the whole rollout batch before any split, so a sum over ranks is the gradient of one process;
nothing is averaged. Without an initialised process group both functions do nothing. Leaves out: sharded weights, and
who starts the ranks.
"""

import torch
import torch.distributed as dist
from jaxtyping import Int
from torch import Tensor


def _active() -> bool:
    return dist.is_available() and dist.is_initialized()


def own_rows(rows: Int[Tensor, "b"]) -> Int[Tensor, "c"]:
    """This rank's share of the rows: every world-size-th one, so that ranks get rows of like length."""
    return rows[dist.get_rank() :: dist.get_world_size()] if _active() else rows


@torch.no_grad()
def sum_over_ranks(x: Tensor) -> None:
    """In place."""
    if _active():
        dist.all_reduce(x, op=dist.ReduceOp.SUM)
