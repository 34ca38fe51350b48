"""What the tests offer to the slots: one rich random batch, masks by their lengths, and a call by a trick's name."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from harness import tricks
from harness.tricks import moments
from harness.tricks.advantage import Estimate
from harness.tricks.keep import Kept

FOUND = [(slot, name) for slot in tricks.SLOTS for name in tricks.registry()[slot]]
SHARED = ("past", "entropies")  # one per run: neither prompts, samples nor rows


def names(slot: str, words: str = "") -> list[str]:
    """The tricks of a slot whose docstring holds these words."""
    return [name for name, trick in tricks.registry()[slot].items() if words in " ".join(trick.doc.split())]


def mask_of(*lengths: int, width: int | None = None) -> Tensor:
    """[1, G, T]: one prompt whose samples have these lengths."""
    return (torch.arange(width or max(lengths)) < torch.tensor(lengths)[:, None])[None]


def offer(
    prompts: int = 3, samples: int = 4, width: int = 6, seed: int = 0, dtype: torch.dtype = torch.float64
) -> dict[str, Any]:
    """All that any slot is offered; `rows_mask` is what surrogate and penalty know as `mask`."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=dtype)

    def integers(low: int, high: int) -> Tensor:
        return torch.randint(low, high, (prompts, samples), generator=generator)

    lengths, shape = integers(1, width + 1), (prompts * samples, width)
    mask = torch.arange(width) < lengths[..., None]
    rows = mask.flatten(0, 1)
    history = uniform(prompts)
    history[:1] = torch.nan  # a prompt never visited
    return {
        "rewards": integers(0, 2).to(dtype),
        "lengths": lengths,
        "mask": mask,
        "truncated": lengths == width,
        "counted": torch.ones(prompts, samples, dtype=torch.bool),
        "history": history,
        "tokens": torch.randint(0, 2, mask.shape, generator=generator),
        "formatted": integers(0, 2).bool(),
        "limit": width,
        "values": uniform(*mask.shape),
        "kl": uniform(*mask.shape) - 0.5,
        "past": moments.merge(moments.empty(), torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0])),
        "rows_mask": rows,
        "logratio": torch.where(rows, torch.randn(shape, generator=generator, dtype=dtype), 0.0),
        "advantage": torch.randn(shape[0], 1, generator=generator, dtype=dtype).expand(shape).clone(),
        "logp": -uniform(*shape),
        "ref_logp": -uniform(*shape),
        "entropy": uniform(*shape),
        "right": torch.randint(0, 2, shape[:1], generator=generator).bool(),
        "entropies": 0.3 * uniform(7),
        "gap": 2 * uniform(*mask.shape) - 1,
    }


def call(slot: str, name: str, offered: Mapping[str, Any], **knobs: tricks.Knob) -> Any:
    """The trick's answer, as the loop would ask for it."""
    if slot in ("surrogate", "penalty"):
        offered = {**offered, "mask": offered["rows_mask"]}
    return tricks.bind(slot, name, knobs)(offered)


def tensors(result: object) -> list[Tensor]:
    """The parts of any slot's answer."""
    if isinstance(result, Kept):
        factor = [] if result.factor is None else [result.factor]
        return [result.tokens, result.counted, result.zeroed, *factor]
    if isinstance(result, Estimate):
        return [result.advantage, result.returns]
    assert isinstance(result, Tensor)
    return [result]
