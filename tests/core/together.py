"""Ranks of one function over gloo, each a process of its own, without torchrun: they start in milliseconds.

They are forked from a server that has imported the training once and runs no threads. Leaves out: how a run starts its
ranks (`harness/core/ranks.py`, tested in test_ranks.py).
"""

import multiprocessing
import pickle
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

SECONDS = 300.0  # of silence
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["harness.core.train"])


def together(ranks: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """What function(*args) gives on each rank. Raises RuntimeError with the text of the first that failed."""
    with tempfile.TemporaryDirectory() as folder:
        pipes = [CONTEXT.Pipe(duplex=False) for _ in range(ranks)]
        processes = [
            CONTEXT.Process(target=_rank, args=(rank, ranks, Path(folder) / "store", pipes[rank][1], function, args))
            for rank in range(ranks)
        ]
        for process, (_, sender) in zip(processes, pipes, strict=True):
            process.start()
            sender.close()
        try:
            found = _answers([receiver for receiver, _ in pipes])
        finally:
            for process in processes:
                process.kill()
                process.join()
                process.close()
            for receiver, _ in pipes:
                receiver.close()
    return found


def _answers(receivers: list[Connection]) -> list[Any]:
    found: dict[int, Any] = {}
    while len(found) < len(receivers):
        ready = wait([receiver for rank, receiver in enumerate(receivers) if rank not in found], SECONDS)
        assert ready, f"no word of ranks but {sorted(found)} for {SECONDS:.0f} s"
        for receiver in ready:
            rank = receivers.index(receiver)  # type: ignore[arg-type]
            value, error = pickle.loads(receiver.recv_bytes())  # type: ignore[union-attr]
            if error:
                raise RuntimeError(f"rank {rank}: {error}")
            found[rank] = value
    return [found[rank] for rank in range(len(receivers))]


def _rank(
    rank: int, ranks: int, file: Path, sender: Connection, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks)
    try:  # plain bytes: a tensor of a connection's own pickling lives only as long as its sender
        sender.send_bytes(pickle.dumps((function(*args), "")))
    except BaseException:
        sender.send_bytes(pickle.dumps((None, traceback.format_exc())))
    dist.destroy_process_group()
