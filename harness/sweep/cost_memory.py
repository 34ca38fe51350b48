"""What one GPU holds at the worst moment of a run, whether that fits, and what to change where it does not.

    resident  = weights 4·N/G + gradients 4·N/G + Adam 8·N/G  (float32, sharded over G GPUs) + frozen models 4·N/G;
                on one GPU a bfloat16 model is computed with in a copy, 2·N more, and a frozen one has only that
    update    = resident + gathered weights and gradients + activations + logits of a chunk
    generate  = resident + the engine (asleep while the policy is updated)
    peak      = max(update, generate) + reserved

Leaves out: the host's memory; attention masks; whatever an allocator loses beyond `hardware.reserved_gib`.
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

from harness.config import ROWS_AT_ONCE
from harness.sweep.work import Work

GIB = 2.0**30


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU. `responses` is how many longest ones the engine's cache holds at a time."""

    resident: dict[str, float]
    update: dict[str, float]
    generate: dict[str, float]
    reserved: float
    available: float
    responses: float

    @property
    def parts(self) -> dict[str, float]:
        """At the worst moment, by name."""
        worst = max(self.update, self.generate, key=lambda phase: sum(phase.values()))
        return self.resident | worst | {"reserved": self.reserved}

    @property
    def peak(self) -> float:
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        return self.peak <= self.available and self.responses >= 1


@functools.cache
def memory(work: Work) -> Memory:
    """Sizes by the formulas of the functions below; the engine hf has a copy of its own only of a sharded policy."""
    size, model, gpus = (4 if work.float32 else 2), work.shape, work.gpus
    learnt = work.trained + work.critic_parameters
    frozen = (model.parameters if work.lora_rank else 0) + (model.parameters if work.reference else 0)
    resident = {
        "weights": 4.0 * learnt / gpus,
        "gradients": 4.0 * learnt / gpus,
        "Adam": 8.0 * learnt / gpus,
        "frozen weights": (4.0 if gpus > 1 else size) * frozen / gpus,
        "bfloat16 copy": 2.0 * learnt if gpus == 1 and not work.float32 else 0.0,
    }
    update = {
        "gathered": gathered(work) if gpus > 1 else 0.0,
        "activations": activations(work),
        "float32 head": 4.0 * model.vocabulary * model.width if work.float32_head else 0.0,
        "logits": 16.0 * work.chunk * model.vocabulary,  # raw, tempered, probabilities, gradient
    }
    available, chip = work.hardware.memory_gib * GIB, work.hardware
    longest = (chip.longest_prompt + max(work.max_new_tokens, work.evaluated_tokens)) * model.cache(size)
    if work.engine == "vllm":
        engine = work.engine_memory * available
        responses = (engine - size * model.parameters - GIB) / longest  # GIB: what the engine's own passes take
    else:
        copy = size * model.parameters if gpus > 1 else 0
        at_once = math.ceil(max(work.rows, min(ROWS_AT_ONCE["hf"], work.evaluated)) / gpus)
        engine, responses = float(copy + at_once * longest), float(at_once)
    return Memory(resident, update, {"engine": engine}, chip.reserved_gib * GIB, available, responses)


def gathered(work: Work) -> float:
    """The root (embedding and head) and two layers whole: weights 2, gradients 2, their float32 sum 4 bytes each."""
    size = 12.0 if work.float32 else 8.0
    return size * (work.shape.root + 2 * work.shape.layer)


def tokens_at_once(work: Work) -> int:
    """Of a micro-batch, padding included: never less than one longest row, never more than an update's share."""
    row = work.hardware.longest_prompt + work.max_new_tokens
    rows = math.ceil(work.rows * work.epochs / work.updates / work.gpus)
    rows = min(rows, work.micro_rows or rows)
    return min(rows * row, max(row, work.micro_tokens or rows * row))


def activations(work: Work) -> float:
    """Bytes that the backward of a micro-batch of n tokens needs, at b bytes a number (2 in bfloat16).

    One layer, a token: norms 8d + 2b·d (inputs in float32, outputs), queries and keys 4(H + K)D + 2b(H + K)D (before
    and after their norms and their turn), values b·K·D, what attention gives 2b·H·D, the MLP 4b·I.
    All layers are held; with gradient checkpointing only their inputs, L·b·d, and two layers while they are made again.
    """
    m, b = work.shape, (4 if work.float32 else 2)
    turned = (m.heads + m.kv_heads) * m.head_dim
    attention = (4 + 2 * b) * turned + b * m.head_dim * (m.kv_heads + 2 * m.heads)
    layer = (8 + 2 * b) * m.width + attention + 4 * b * m.units
    held = m.layers * b * m.width + 2 * layer if work.checkpointing else m.layers * layer
    return float(tokens_at_once(work) * held)


def cure(work: Work) -> str:
    """The settings of which each alone makes it fit, the mildest first; else those that do together, if any do."""
    tried = _changes(work)
    alone = {words.partition("=")[0]: words for words, change in reversed(tried) if _fits(replace(work, **change))}
    if alone:
        return f"set {', or '.join(reversed(alone.values()))}"
    together: dict[str, str] = {}
    for words, change in tried:
        other = replace(work, **change)
        if memory(other).peak < memory(work).peak and words.partition("=")[0] not in together:
            work, together[words.partition("=")[0]] = other, words
            if _fits(work):
                return f"set {' and '.join(together.values())}"
    return "no setting of one run makes it fit; take a smaller model or hardware with more memory"


def _fits(work: Work) -> bool:
    return memory(work).fits


def _changes(work: Work) -> list[tuple[str, dict[str, Any]]]:
    """(what to type, what it changes), from what costs nothing to what makes another run of it."""
    row = work.hardware.longest_prompt + work.max_new_tokens
    shares = (0.7, 0.6, 0.5, 0.4, 0.3, 0.2) if work.engine == "vllm" else ()
    changes: list[tuple[str, dict[str, Any]]] = [("engine=vllm", {"engine": "vllm"})] * (work.engine != "vllm")
    changes += [("runtime.gradient_checkpointing=true", {"checkpointing": True})] * (not work.checkpointing)
    changes += [(f"runtime.micro_batch_tokens={row}", {"micro_tokens": row})]
    changes += [(f"runtime.engine_memory={share}", {"engine_memory": share}) for share in shares]
    changes += [("runtime.logprob_chunk=256", {"chunk": min(256, work.chunk)})]
    changes += [(f"runtime.gpus={n}", {"gpus": n}) for n in (2, 4, 8) if n > work.gpus]  # of one node
    changes += [("model.lora_rank=32", {"lora_rank": 32})] * (not work.lora_rank)
    return changes
