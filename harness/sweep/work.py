"""What one run on GPUs does, in numbers, taken from its configuration: all that its cost is computed from.

Leaves out: the cost itself (`cost.py`, `cost_memory.py`).
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import tricks
from harness.config import KEPT_SAMPLES, Data, Evaluate, Hardware, Identity, JsonlData
from harness.sweep import contents, shape, yaml12
from harness.sweep.grid import Cell
from harness.sweep.keys import EXPERIMENTS
from harness.sweep.shape import Shape

QUESTIONS = 500  # of a benchmark whose file is not here and that experiments/data/source/ does not know


@dataclass(frozen=True)
class Work:
    """What one run does. Rows are responses; `passes` are forward passes over a step's batch beside the updates."""

    shape: Shape
    hardware: Hardware
    gpus: int
    float32: bool  # the policy's dtype, else bfloat16
    float32_head: bool  # of a bfloat16 policy
    lora_rank: int
    engine: str
    rows: int  # trained on, per step
    refilled: bool  # `admit` refuses some after sampling, and others are sampled in their place
    max_new_tokens: int
    steps: int
    epochs: int
    updates: int
    scored: bool  # the policy's own log-probabilities are asked for, or an engine tells no entropies
    reference: bool
    critic: bool
    evaluations: int
    evaluated: int  # responses per evaluation
    evaluated_tokens: int  # the most that one of them may have
    texts: int  # responses per evaluation of which the end is kept
    micro_rows: int | None
    micro_tokens: int | None
    chunk: int
    checkpointing: bool
    engine_memory: float
    kept: int  # checkpoints

    @property
    def trained(self) -> int:
        """Parameters that are trained of the policy."""
        return self.shape.adapters(self.lora_rank) if self.lora_rank else self.shape.parameters

    @property
    def critic_parameters(self) -> int:
        """A body without a head, and d of a value head; 0 without a critic."""
        head = 0 if self.shape.tied else self.shape.vocabulary * self.shape.width
        return self.shape.parameters - head + self.shape.width if self.critic else 0


def of_cells(cells: Iterable[Cell]) -> dict[str, Work | None]:
    """cell id -> its work; None for one without GPUs or of a model whose shape nothing here tells.

    10^5 cells have few distinct works, and those who have the same share one object.
    """
    by_sections: dict[tuple[Any, ...], Work | None] = {}
    unique: dict[Work | None, Work | None] = {}
    found: dict[str, Work | None] = {}
    for cell in cells:
        if not cell.runtime.gpus:
            found[cell.id] = None
            continue
        sections, train = cell.identity, cell.identity.train
        key = (
            *(sections.model, sections.sampling, cell.runtime, cell.hardware, bool(sections.critic)),
            *(train.steps, train.epochs, train.updates_per_rollout),
            *(sections.evaluate.every, sections.evaluate.max_new_tokens, *responses(sections.evaluate)),
            *(getattr(sections.tricks, slot).name for slot in tricks.SLOTS),
        )
        if key not in by_sections:
            work = _work(cell)
            by_sections[key] = unique.setdefault(work, work)
        found[cell.id] = by_sections[key]
    return found


def _work(cell: Cell) -> Work | None:
    identity, runtime = cell.identity, cell.runtime
    evaluated, texts = responses(identity.evaluate)
    model, sampling, train = identity.model, identity.sampling, identity.train
    known = shape.of_model(model.path)
    if known is None:
        return None
    inputs = {name for slot in tricks.SLOTS for name in _inputs(identity, slot)}
    return Work(
        shape=known,
        hardware=cell.hardware,
        gpus=runtime.gpus,
        float32=model.dtype == "float32",
        float32_head=model.head_dtype == "float32" and model.dtype != "float32",
        lora_rank=model.lora_rank,
        engine=sampling.engine,
        rows=sampling.prompts_per_step * sampling.group_size,
        refilled=_refuses(identity) and sampling.max_rounds > 1,
        max_new_tokens=sampling.max_new_tokens,
        steps=train.steps,
        epochs=train.epochs,
        updates=train.updates_per_rollout,
        scored=sampling.old_logp == "recompute" or sampling.engine == "vllm",
        reference=bool(inputs & tricks.REFERENCE),
        critic=identity.critic is not None,
        evaluations=len(range(0, train.steps, identity.evaluate.every)) + 1,
        evaluated=evaluated,
        evaluated_tokens=identity.evaluate.max_new_tokens,
        texts=texts,
        micro_rows=runtime.micro_batch_rows,
        micro_tokens=runtime.micro_batch_tokens,
        chunk=runtime.logprob_chunk,
        checkpointing=runtime.gradient_checkpointing,
        engine_memory=runtime.engine_memory,
        kept=runtime.keep_checkpoints,
    )


def _refuses(identity: Identity) -> bool:
    """Whether `admit` may refuse what has been sampled."""
    return identity.tricks.admit.name != "everything" and "rewards" in _inputs(identity, "admit")


def _inputs(identity: Identity, slot: str) -> tuple[str, ...]:
    return tricks.registry()[slot][getattr(identity.tricks, slot).name].inputs


def responses(config: Evaluate) -> tuple[int, int]:
    """(how many an evaluation generates, of how many a text is kept): each question's samples, and a greedy one."""
    made = kept = 0
    for name, data in config.benchmarks.items():
        number, samples = questions(data), config.samples_of(name)
        made += number * (samples + config.greedy)
        kept += number * (min(samples, KEPT_SAMPLES) + config.greedy)
    return made, kept


def questions(data: Data) -> int:
    """Of a data set: its size, the lines of its file, or what experiments/data/source/ says of one not yet made."""
    return data.size or _written(data.path if isinstance(data, JsonlData) else "")


@functools.cache
def _written(path: str) -> int:
    file = contents.locate(path)
    if file and file.is_file():
        with open(file, "rb") as stream:
            return sum(bool(line.strip()) for line in stream)
    source = EXPERIMENTS / "data" / "source" / f"{Path(path).stem}.yaml"
    return int(yaml12.load(source).value.get("rows", QUESTIONS)) if source.is_file() else QUESTIONS
