"""The shape of a model, and the counts that follow from it: parameters, operations, bytes of cache.

Read from a model folder's config.json, from experiments/shapes.yaml for a name on the hub, or from what the hub's
client has downloaded. Leaves out: mixtures of experts and models of several kinds of input, whose shape is None.
"""

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.sweep import contents, yaml12
from harness.sweep.keys import EXPERIMENTS

SHAPES = EXPERIMENTS / "shapes.yaml"
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_NEEDED = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")


@dataclass(frozen=True)
class Shape:
    """A decoder of L layers, width d, gated MLPs of I units, H query and K key heads of D, a vocabulary of V."""

    layers: int  # L
    width: int  # d
    units: int  # I
    heads: int  # H
    kv_heads: int  # K
    head_dim: int  # D
    vocabulary: int  # V
    tied: bool  # the head is the embedding

    @property
    def layer(self) -> int:
        """d·D·(2H + 2K) + 3·d·I + 2d + 2D parameters: q, k, v, o; gate, up, down; norms of d and of D. No biases."""
        attention = self.width * self.head_dim * 2 * (self.heads + self.kv_heads)
        return attention + 3 * self.width * self.units + 2 * (self.width + self.head_dim)

    @property
    def root(self) -> int:
        """Parameters outside the layers: V·d of the embedding, as many of an untied head, d of the last norm."""
        return (1 if self.tied else 2) * self.vocabulary * self.width + self.width

    @property
    def parameters(self) -> int:
        """N = L·layer + root."""
        return self.layers * self.layer + self.root

    def adapters(self, rank: int) -> int:
        """LoRA parameters on every linear map of a layer: r·(in + out) each, L·r·[4d + 2(H + K)·D + 3(d + I)]."""
        heads = 2 * (self.heads + self.kv_heads) * self.head_dim
        return self.layers * rank * (4 * self.width + heads + 3 * (self.width + self.units))

    def forward(self, length: float) -> float:
        """Operations per token of a forward pass over sequences of `length`: 2·M + 2·L·H·D·length.

        M = L·layer + V·d multiply (the look-up in the embedding does not); of a causal attention half is counted.
        """
        multiplied = self.layers * self.layer + self.vocabulary * self.width
        return 2 * multiplied + 2 * self.layers * self.heads * self.head_dim * length

    def cache(self, size: int = 2) -> int:
        """Bytes of keys and values per token: 2·L·K·D·size."""
        return 2 * self.layers * self.kv_heads * self.head_dim * size

    @staticmethod
    def of(config: Mapping[str, Any]) -> "Shape | None":
        """From the words of a config.json; None for what this shape does not describe."""
        if any(config.get(name) for name in _EXPERTS) or not all(isinstance(config.get(n), int) for n in _NEEDED):
            return None
        layers, width, units, heads, vocabulary = (int(config[name]) for name in _NEEDED)
        kv_heads, head_dim = config.get("num_key_value_heads") or heads, config.get("head_dim") or width // heads
        tied = bool(config.get("tie_word_embeddings", False))
        return Shape(layers, width, units, heads, int(kv_heads), int(head_dim), vocabulary, tied)


@functools.cache
def of_model(path: str) -> Shape | None:
    """Of a model folder or a name on the hub; None where nothing here tells it."""
    folder = contents.locate(path)
    if folder and (folder / "config.json").is_file():
        return _read(folder / "config.json")
    if path in (known := _known()):
        return Shape.of(known[path])
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    downloaded = sorted((home / "hub" / f"models--{path.replace('/', '--')}" / "snapshots").glob("*/config.json"))
    return _read(downloaded[-1]) if downloaded else None


def _read(file: Path) -> Shape | None:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return Shape.of(found) if isinstance(found, dict) else None


@functools.cache
def _known() -> dict[str, dict[str, Any]]:
    return dict(yaml12.load(SHAPES).value)
