"""Tensors in files, each rank its own rows: safetensors beside an index, nothing pickled.

    rank-00001.safetensors   what rank 1 holds: rows of sharded tensors
    index.json               {"step": …, "tensors": {name: {"shape": [8, 4], "parts": [[file, first row, rows], …]}}}

Whole tensors are in the first rank's file alone. Reading takes rows by their place in the whole tensor, so that any
number of ranks reads what any other has written, and each only what it holds. Leaves out: folders and which of them
counts (`checkpoint.py`).
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

Parts = dict[str, dict[str, Any]]  # of the index: name -> shape and parts


class Piece(NamedTuple):
    """Rows `start`, `start + 1`, … of a tensor of the shape `shape`: what this rank holds of it, often all."""

    data: Tensor
    shape: tuple[int, ...]
    start: int = 0


def whole(x: Tensor) -> Piece:
    return Piece(x, tuple(x.shape))


def write(file: Path, pieces: dict[str, Piece], chief: bool) -> Parts:
    """Writes one rank's file and gives its part of the index; a rank but the chief keeps to its rows of shards."""
    mine = {
        name: piece
        for name, piece in pieces.items()
        if chief or (tuple(piece.data.shape) != piece.shape and piece.data.numel())
    }
    save_file({name: piece.data.detach().cpu().contiguous() for name, piece in mine.items()}, file)
    return {
        name: {"shape": list(piece.shape), "parts": [[file.name, piece.start, len(piece.data) if piece.shape else 1]]}
        for name, piece in mine.items()
    }


def merge(indices: list[Parts]) -> Parts:
    """One index of all ranks' parts."""
    found: Parts = {}
    for index in indices:
        for name, entry in index.items():
            found.setdefault(name, {"shape": entry["shape"], "parts": []})["parts"] += entry["parts"]
    return found


class Reader:
    """Reads rows by their place in the whole tensor. Raises whatever a damaged file raises."""

    def __init__(self, folder: Path, index: Parts) -> None:
        self.index = index
        files = {file for entry in index.values() for file, _, _ in entry["parts"]}
        self.files = {file: safe_open(folder / file, framework="pt") for file in files}

    def like(self, name: str, piece: Piece) -> Tensor:
        """The rows that `piece` stands for. Raises KeyError for no such tensor, ValueError for one of another shape."""
        shape = tuple(self.index[name]["shape"])
        if shape != piece.shape:
            raise ValueError(f"{name} has the shape {list(shape)} there and {list(piece.shape)} here")
        return self._rows(name, piece.start, piece.start + len(piece.data)) if shape else self.all(name)

    def all(self, name: str) -> Tensor:
        entry = self.index[name]
        if not entry["shape"]:
            return self.files[entry["parts"][0][0]].get_tensor(name)
        return self._rows(name, 0, entry["shape"][0])

    def _rows(self, name: str, first: int, end: int) -> Tensor:
        found = []
        for file, start, rows in sorted(self.index[name]["parts"], key=lambda part: part[1]):
            low, high = max(first, start), min(end, start + rows)
            if low < high or (low == high == first):
                found.append(self.files[file].get_slice(name)[low - start : high - start])
        out = torch.cat(found)
        if len(out) != end - first:
            raise ValueError(f"{name} lacks rows: {len(out)} of {end - first} are there")
        return out
