"""Data parallelism in a few lines: every rank takes part of an update's rows, and gradients are summed.

Weights are fixed over the whole rollout batch before any split, so a sum over ranks is the gradient of one process;
nothing is averaged. Without an initialised process group nothing happens. Leaves out: sharded weights, and who starts
the ranks (`ranks.py`).
"""

from typing import Any, TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Int
from torch import Tensor

T = TypeVar("T")


def _active() -> bool:
    return dist.is_available() and dist.is_initialized()


def own_rows(rows: Int[Tensor, "b"]) -> Int[Tensor, "c"]:
    """This rank's share of the rows: every world-size-th one, so that ranks get rows of like length."""
    return rows[dist.get_rank() :: dist.get_world_size()] if _active() else rows


def is_chief() -> bool:
    """Whether this process writes the record: rank 0, or the only one."""
    return not _active() or dist.get_rank() == 0


def from_all_ranks(x: list[T]) -> list[T]:
    """The lists of all ranks, one after another, on each of them."""
    if not _active():
        return x
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, x)
    return [item for part in gathered for item in part]


@torch.no_grad()
def sum_over_ranks(x: Tensor) -> None:
    """In place."""
    if _active():
        dist.all_reduce(x, op=dist.ReduceOp.SUM)
