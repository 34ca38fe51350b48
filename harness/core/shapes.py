"""The axis letters, and the two records that travel between the parts of the core.

    P  prompts of a rollout batch      B  rows (samples) of an update or micro-batch
    G  samples per prompt              T  tokens of the longest response
    L  tokens of the longest prompt    V  vocabulary

Padding is on the right everywhere; a position is valid by its length, never by its token.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Prompts:
    """Token ids of prompts, right-padded."""

    ids: Int[Tensor, "P L"]
    lengths: Int[Tensor, "P"]

    @staticmethod
    def of(sequences: list[list[int]]) -> "Prompts":
        """Raises ValueError for an empty prompt, which has no position to predict from."""
        if not all(sequences):
            raise ValueError("a prompt has no tokens; every prompt needs at least one")
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        ids = torch.zeros(len(sequences), int(lengths.max()), dtype=torch.long)
        for row, sequence in zip(ids, sequences, strict=True):
            row[: len(sequence)] = torch.tensor(sequence)
        return Prompts(ids, lengths)

    def rows(self, index: Int[Tensor, "B"]) -> "Prompts":
        lengths = self.lengths[index]
        return Prompts(self.ids[index, : int(lengths.max())], lengths)


@dataclass(frozen=True)
class Rollout:
    """What an engine returns for P prompts × G samples; the end token counts as part of the response.

    `logp` (nats) is of the distribution that was sampled from, after top-k and top-p; `entropy` (nats) of the full
    vocabulary at the sampling temperature, None where the engine cannot say. `support` names the tokens that top-k and
    top-p left to choose from, padded with -1, None for all. `trainer_logp` is the trainer's word on the same tokens.
    """

    prompts: Prompts
    tokens: Int[Tensor, "P G T"]
    lengths: Int[Tensor, "P G"]
    truncated: Bool[Tensor, "P G"]
    logp: Float[Tensor, "P G T"]
    entropy: Float[Tensor, "P G T"] | None
    support: Int[Tensor, "P G T K"] | None = None
    trainer_logp: Float[Tensor, "P G T"] | None = None

    @property
    def mask(self) -> Bool[Tensor, "P G T"]:
        return torch.arange(self.tokens.shape[-1]) < self.lengths[..., None]

    def take(self, prompts: Int[Tensor, "p"]) -> "Rollout":
        """These prompts' groups, with padding as it is."""
        parts = {name: getattr(self, name) for name in (*_BY_SAMPLE, *_BY_TOKEN, "support")}
        chosen: dict[str, Any] = {name: None if x is None else x[prompts] for name, x in parts.items()}
        return Rollout(Prompts(self.prompts.ids[prompts], self.prompts.lengths[prompts]), **chosen)

    def rows(self) -> "Rows":
        """B = P·G rows, whole groups in order."""
        prompts, samples, _ = self.tokens.shape
        index = torch.arange(prompts).repeat_interleave(samples)
        support = None if self.support is None else self.support.flatten(0, 1)
        return Rows(self.prompts, index, self.tokens.flatten(0, 1), self.lengths.flatten(), support)

    @staticmethod
    def none(samples: int) -> "Rollout":
        """No prompt, groups of `samples`."""
        by_sample = torch.zeros(0, samples, dtype=torch.long)
        by_token = torch.zeros(0, samples, 1)
        prompts = Prompts(by_token[:, 0].long(), by_sample[:, 0])
        return Rollout(prompts, by_token.long(), by_sample, by_sample.bool(), by_token, by_token)

    @staticmethod
    def join(parts: list["Rollout"]) -> "Rollout":
        """The groups of all parts in order, padded to the longest prompt and response."""
        if len(parts) == 1:
            return parts[0]
        prompts = Prompts(stack([p.prompts.ids for p in parts]), torch.cat([p.prompts.lengths for p in parts]))
        found: dict[str, Any] = {name: torch.cat([getattr(p, name) for p in parts]) for name in _BY_SAMPLE}
        for name in _BY_TOKEN:
            by_part = [getattr(p, name) for p in parts]
            found[name] = None if any(x is None for x in by_part) else stack(by_part)
        support = [p.support for p in parts if p.support is not None]
        if len(support) == len(parts):
            found["support"] = _stack_support(support, found["tokens"].shape[-1])
        return Rollout(prompts, **found)


_BY_SAMPLE = ("lengths", "truncated")
_BY_TOKEN = ("tokens", "logp", "entropy", "trainer_logp")


@dataclass(frozen=True)
class Rows:
    """Responses with the prompt each belongs to; the unit that the policy scores."""

    prompts: Prompts
    prompt_index: Int[Tensor, "B"]
    tokens: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    support: Int[Tensor, "B T K"] | None = None

    @property
    def mask(self) -> Bool[Tensor, "B T"]:
        return torch.arange(self.tokens.shape[-1]) < self.lengths[:, None]

    def take(self, rows: Int[Tensor, "b"]) -> "Rows":
        """These rows alone, with only the prompts they need and padding cut to their longest response."""
        used, index = torch.unique(self.prompt_index[rows], return_inverse=True)
        lengths = self.lengths[rows]
        width = max(1, int(lengths.max()))
        support = None if self.support is None else self.support[rows, :width]
        return Rows(self.prompts.rows(used), index, self.tokens[rows, :width], lengths, support)


def _stack_support(parts: list[Tensor], width: int) -> Tensor:
    largest = max(part.shape[-1] for part in parts)
    padded = [F.pad(x, (0, largest - x.shape[-1], 0, width - x.shape[-2]), value=-1) for x in parts]
    return torch.cat(padded)


def stack(parts: list[Tensor]) -> Tensor:
    """Concatenated along the first axis, the last one padded with 0 to the widest."""
    width = max(part.shape[-1] for part in parts)
    return torch.cat([F.pad(part, (0, width - part.shape[-1])) for part in parts])
