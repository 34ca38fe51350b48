"""The axis letters, and the two records that travel between the parts of the core.

    P  prompts of a rollout batch      B  rows (samples) of an update or micro-batch
    G  samples per prompt              T  tokens of the longest response
    L  tokens of the longest prompt    V  vocabulary

Padding is on the right everywhere; a position is valid by its length, never by its token.
"""

from dataclasses import dataclass

import torch
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

    `logp` and `entropy` (nats, full vocabulary) are those of the sampling distribution before any top-k or top-p.
    """

    prompts: Prompts
    tokens: Int[Tensor, "P G T"]
    lengths: Int[Tensor, "P G"]
    truncated: Bool[Tensor, "P G"]
    logp: Float[Tensor, "P G T"]
    entropy: Float[Tensor, "P G T"]

    @property
    def mask(self) -> Bool[Tensor, "P G T"]:
        return torch.arange(self.tokens.shape[-1]) < self.lengths[..., None]


@dataclass(frozen=True)
class Rows:
    """Responses with the prompt each belongs to; the unit that the policy scores."""

    prompts: Prompts
    prompt_index: Int[Tensor, "B"]
    tokens: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]

    @property
    def mask(self) -> Bool[Tensor, "B T"]:
        return torch.arange(self.tokens.shape[-1]) < self.lengths[:, None]

    def take(self, rows: Int[Tensor, "b"]) -> "Rows":
        """These rows alone, with only the prompts they need and padding cut to their longest response."""
        used, index = torch.unique(self.prompt_index[rows], return_inverse=True)
        lengths = self.lengths[rows]
        width = max(1, int(lengths.max()))
        return Rows(self.prompts.rows(used), index, self.tokens[rows, :width], lengths)
