"""Trains one miniature model on generated texts by a fixed schedule of steps: same seed, same weights.

Matrices go to Muon, embeddings and norms to AdamW; the loss is on response tokens only. Leaves out: which phases a
model goes through, measuring and saving (`harness.lab.build`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from harness.lab.corpus import Errors, Style, pick
from harness.lab.muon import Muon
from harness.lab.vocabulary import END
from harness.tasks import arithmetic


@dataclass(frozen=True)
class Phase:
    """Some steps on one corpus; the longest chain grows from `first_ops` to `max_ops` in the first `growing` steps."""

    steps: int
    styles: dict[Style, float]
    errors: Errors
    lr: tuple[float, float]  # Muon's rate at the phase's first and last step, linear between
    first_ops: int = 10
    max_ops: int = 10
    growing: int = 1
    rows: int = 64  # texts per batch


def train(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    phases: list[Phase],
    seed: int,
    say: Callable[[str], None],
) -> None:
    """Changes the model in place."""
    rng = np.random.Generator(np.random.PCG64(seed))
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0, foreach=True)
    for number, phase in enumerate(phases, 1):
        smooth = None
        for step, (ids, wanted) in enumerate(batches(rng, tokenizer, phase)):
            lr = phase.lr[0] + (phase.lr[1] - phase.lr[0]) * step / max(1, phase.steps - 1)
            loss = response_loss(model, ids, wanted)
            model.zero_grad()
            loss.backward()
            muon.step(lr)
            adam.param_groups[0]["lr"] = 0.3 * lr
            adam.step()
            now = loss.item()
            smooth = now if smooth is None else 0.95 * smooth + 0.05 * now
            if step % 50 == 49 or step == phase.steps - 1:
                say(f"phase {number}/{len(phases)} step {step + 1}/{phase.steps} loss {smooth:.3f}")


def response_loss(model: Qwen3ForCausalLM, ids: Tensor, wanted: Tensor) -> Tensor:
    """Mean cross-entropy of the tokens marked in `wanted` [B, L-1], given all before them; ids [B, L].

    Only wanted positions reach the vocabulary, which is most of a small model's arithmetic.
    """
    hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
    logits = model.lm_head(hidden[wanted])
    return torch.nn.functional.cross_entropy(logits, ids[:, 1:][wanted])


def batches(
    rng: np.random.Generator, tokenizer: PreTrainedTokenizerFast, phase: Phase
) -> Iterator[tuple[Tensor, Tensor]]:
    """`phase.steps` batches of (ids [B, L] right-padded, wanted bool[B, L-1]); causal attention needs no mask.

    Every batch mixes all lengths. Sorting texts by length saves a third of the time and loses the ends of chains:
    within a batch of one length the model need not find out where a chain stops.
    """
    vocabulary = tokenizer.get_vocab()
    for step in range(phase.steps):
        share = min(1.0, (step + 1) / phase.growing)
        longest = round(phase.first_ops + share * (phase.max_ops - phase.first_ops))
        rows = [_document(rng, vocabulary, phase, longest) for _ in range(phase.rows)]
        width = max(len(ids) for ids, _ in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        wanted = torch.zeros(len(rows), width - 1, dtype=torch.bool)
        for i, (row, prompt_length) in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            wanted[i, prompt_length - 1 : len(row) - 1] = True
        yield ids, wanted


def _document(
    rng: np.random.Generator, vocabulary: dict[str, int], phase: Phase, longest: int
) -> tuple[list[int], int]:
    """(ids, prompt length) of one training text; held-out prompts are drawn again."""
    while True:
        # Late letters are the last to be looked up rightly, so longer chains come more often.
        num_ops = int(rng.integers(1, longest + 1, 2).max())
        start, operations = arithmetic.draw(rng, num_ops, num_ops, 1, arithmetic.MAX_OPERAND)
        text = arithmetic.prompt(start, operations)
        if not arithmetic.held_out(text):
            break
    words, ends = pick(rng, phase.styles)(rng, start, operations, phase.errors)
    asked = text.split(" ")
    ids = [vocabulary[word] for word in [*asked, *words]]
    return ([*ids, vocabulary[END]] if ends else ids), len(asked)
