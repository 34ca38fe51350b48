"""Scoring and decoding through transformers' own forward: any causal language model, on any device, sharded or not.

Padding is on the right for scoring, so that a causal model needs no attention mask and attention takes its fast
kernels; on the left for decoding. Prompts and rows come from the CPU, results stay on the model's device. Leaves out:
the functional Qwen3 for small models on the CPU (`qwen3.py`).
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness.core import head as heads
from harness.core import sharded
from harness.core.head import Head, Scores
from harness.core.hub import GradientCheckpointingLayer
from harness.core.shapes import Prompts, Rows


def scores(model: Any, head: Head | None, rows: Rows, temperature: float, with_entropy: bool, chunk: int) -> Scores:
    """Of every response token, n = Σ lengths in row order; `Head.scores` says what."""
    device, mask = next(model.parameters()).device, rows.mask
    tokens = rows.tokens[mask].to(device)
    support = None if rows.support is None else rows.support[mask].to(device)

    def ask() -> Scores:
        if head is not None:
            states = padded_states(model, rows)
            return head.scores(states, tokens, support, temperature, with_entropy, chunk)
        ids, predicts = _padded(rows, device)
        with recomputing(model):
            logits = model(input_ids=ids, use_cache=False).logits[predicts]
        return heads.scores(logits, tokens, support, temperature, with_entropy)

    return sharded.within(model, ask)


def padded_states(model: Any, rows: Rows) -> Float[Tensor, "n d"]:
    """The last hidden states that predict each response token, in row order."""
    ids, predicts = _padded(rows, next(model.parameters()).device)
    with recomputing(model):
        return model.base_model(input_ids=ids, use_cache=False).last_hidden_state[predicts]


def _padded(rows: Rows, device: torch.device) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Prompt and response of each row side by side, and which positions predict a response token."""
    starts, lengths = rows.prompts.lengths[rows.prompt_index], rows.lengths
    width = int((starts + lengths).max())
    ids = torch.zeros(len(lengths), width, dtype=torch.long)
    place = torch.arange(width)
    in_prompt, used = place < starts[:, None], place < (starts + lengths)[:, None]
    prompt_ids = rows.prompts.ids[rows.prompt_index]
    ids[in_prompt] = prompt_ids[torch.arange(prompt_ids.shape[1]) < starts[:, None]]
    ids[used & ~in_prompt] = rows.tokens[rows.mask]
    predicts = (place >= starts[:, None] - 1) & (place < (starts + lengths)[:, None] - 1)
    return ids.to(device), predicts.to(device)


def recompute_layers(model: Any) -> None:
    """Keeps only the layers' inputs for the backward. Raises ValueError for a model that cannot, or not exactly."""
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for layer in _layers(model):
        if isinstance(share := getattr(layer, "dropout", 0.0), float) and share:
            kind = type(layer).__name__
            raise ValueError(f"runtime.gradient_checkpointing: {kind} would drop out {share}; set it to false")


@contextlib.contextmanager
def recomputing(model: Any) -> Iterator[None]:
    """Lets a model made by `recompute_layers` do so in a forward that carries gradient.

    transformers asks a layer's training flag, and only the layer's own is raised: attention and dropout within it stay
    in evaluation.
    """
    layers = _layers(model) if torch.is_grad_enabled() else []
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False


def _layers(model: Any) -> list[Any]:
    return [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer) and m.gradient_checkpointing]


class CachedDecoder:
    """Decoding with transformers' key-value cache; prompts padded on the left."""

    def __init__(self, model: Any, head: Head | None, prompts: Prompts, samples: int) -> None:
        self.model, self.head = model, head
        self.device = next(model.parameters()).device
        width, lengths = prompts.ids.shape[1], prompts.lengths
        ids = torch.stack([row.roll(width - int(length)) for row, length in zip(prompts.ids, lengths, strict=True)])
        mask = torch.arange(width) >= width - lengths[:, None]
        positions = (torch.arange(width) - (width - lengths[:, None])).clamp(min=0)
        self.mask = mask.long().to(self.device)
        logits = self._forward(ids.to(self.device), positions.to(self.device), None)
        self.cache.batch_repeat_interleave(samples)
        self.mask = self.mask.repeat_interleave(samples, 0)
        self.position = lengths.to(self.device).repeat_interleave(samples)
        self.first_logits = logits.repeat_interleave(samples, 0)

    def _forward(self, ids: Int[Tensor, "R S"], positions: Int[Tensor, "R S"], cache: Any) -> Float[Tensor, "R V"]:
        given = {"input_ids": ids, "attention_mask": self.mask, "position_ids": positions, "past_key_values": cache}
        if self.head is None:
            output = self.model(**given, use_cache=True)
            logits = output.logits[:, -1]
        else:
            output = self.model.base_model(**given, use_cache=True)
            logits = self.head.logits(output.last_hidden_state[:, -1])
        self.cache = output.past_key_values
        return logits

    def step(self, tokens: Int[Tensor, "R"]) -> Float[Tensor, "R V"]:
        """Appends one token to every row and predicts the next."""
        self.mask = F.pad(self.mask, (0, 1), value=1)
        logits = self._forward(tokens[:, None].to(self.device), self.position[:, None], self.cache)
        self.position = self.position + 1
        return logits

    def keep(self, rows: Int[Tensor, "r"]) -> None:
        """Drops all rows but these."""
        rows = rows.to(self.device)
        self.cache.batch_select_indices(rows)
        self.mask, self.position = self.mask[rows], self.position[rows]
