"""Tensors in files of several ranks: any number of ranks reads what any other wrote, and only its rows."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from harness.core import pieces
from harness.core.pieces import Piece, Reader, whole

VALUES = {"a/weight": torch.arange(14.0).view(7, 2), "a/norm": torch.arange(2.0), "empty": torch.zeros(0)}
COUNT = torch.tensor(3)


def share(x: Tensor, rank: int, ranks: int) -> Piece:
    """Rows as torch.chunk cuts them, the last ranks' possibly none."""
    chunks, rows = x.chunk(ranks), -(-len(x) // ranks)
    own = chunks[rank] if rank < len(chunks) else x[:0]
    return Piece(own, tuple(x.shape), min(rank * rows, len(x)))


def written(folder: Path, ranks: int) -> Reader:
    indices = []
    for rank in range(ranks):
        own = {name: share(value, rank, ranks) for name, value in VALUES.items()} | {"count": whole(COUNT)}
        indices.append(pieces.write(folder / f"rank-{rank}.safetensors", own, chief=rank == 0))
    return Reader(folder, pieces.merge(indices))


@pytest.mark.parametrize("writers", [1, 2, 3, 4])
@pytest.mark.parametrize("readers", [1, 2, 3, 5])
def test_what_some_ranks_wrote_any_number_reads(tmp_path: Path, writers: int, readers: int) -> None:
    reader = written(tmp_path, writers)
    for name, value in VALUES.items():
        parts = [reader.like(name, share(value, rank, readers)) for rank in range(readers)]
        assert torch.equal(torch.cat(parts), value), name
        assert torch.equal(reader.all(name), value)
    assert int(reader.like("count", whole(COUNT))) == 3


def test_a_rank_writes_its_own_rows_and_only_the_chief_what_all_have(tmp_path: Path) -> None:
    index = written(tmp_path, 3).index
    assert [(file, start, rows) for file, start, rows in index["a/weight"]["parts"]] == [
        ("rank-0.safetensors", 0, 3),
        ("rank-1.safetensors", 3, 3),
        ("rank-2.safetensors", 6, 1),
    ]
    assert index["count"]["parts"] == [["rank-0.safetensors", 0, 1]]


def test_another_shape_a_missing_name_and_missing_rows_are_said(tmp_path: Path) -> None:
    reader = written(tmp_path, 2)
    with pytest.raises(ValueError, match=r"a/weight has the shape \[7, 2\] there and \[8, 2\] here"):
        reader.like("a/weight", whole(torch.zeros(8, 2)))
    with pytest.raises(KeyError, match="b/weight"):
        reader.like("b/weight", whole(torch.zeros(8, 2)))
    reader.index["a/weight"]["parts"].pop()
    with pytest.raises(ValueError, match="a/weight lacks rows: 4 of 7"):
        reader.all("a/weight")
