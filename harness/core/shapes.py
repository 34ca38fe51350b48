"""The axis letters, and the two records that travel between the parts of the core.

    P  prompts of a rollout batch      B  rows (samples) of an update or micro-batch
    G  samples per prompt              T  tokens of the longest response
    L  tokens of the longest prompt    V  vocabulary

Padding is on the right everywhere; a position is valid by its length, never by its token.
"""

from dataclasses import dataclass

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

    def take(self, prompts: Int[Tensor, "p"]) -> "Rollout":
        """These prompts' groups, with padding as it is."""
        parts = (self.tokens, self.lengths, self.truncated, self.logp, self.entropy)
        return Rollout(Prompts(self.prompts.ids[prompts], self.prompts.lengths[prompts]), *(x[prompts] for x in parts))

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
        by_token = [stack([getattr(p, name) for p in parts]) for name in ("tokens", "logp", "entropy")]
        by_sample = [torch.cat([getattr(p, name) for p in parts]) for name in ("lengths", "truncated")]
        return Rollout(prompts, by_token[0], *by_sample, *by_token[1:])


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


def stack(parts: list[Tensor]) -> Tensor:
    """Concatenated along the first axis, the last one padded with 0 to the widest."""
    width = max(part.shape[-1] for part in parts)
    return torch.cat([F.pad(part, (0, width - part.shape[-1])) for part in parts])
