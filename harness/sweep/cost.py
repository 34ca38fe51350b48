"""What a run on GPUs costs in time and disk, computed before anything has run. docs/cost.md does one by hand.

    seconds = start + generated tokens / (rate · GPUs) + operations / (GPUs · FLOP/s · MFU) + steps · step_seconds

Leaves out: memory (`cost_memory.py`), what has been measured (`estimate.py`), grading, padding, the KV cache's limit
on how many responses are written at a time, and that runs of one model and seed share their first evaluation.
"""

import functools
from dataclasses import dataclass

from harness.config import KEPT_CHARACTERS
from harness.sweep.work import Work


@dataclass(frozen=True)
class Time:
    """Seconds of one run, by what its GPUs do."""

    generate: float
    update: float
    score: float
    evaluate: float
    other: float

    @property
    def total(self) -> float:
        return self.generate + self.update + self.score + self.evaluate + self.other


@dataclass(frozen=True)
class Disk:
    """Bytes of one run: `checkpoint` of each one kept, `records` of everything else."""

    checkpoint: float
    kept: int
    records: float

    @property
    def total(self) -> float:
        return self.checkpoint * self.kept + self.records


@functools.cache
def seconds(work: Work) -> Time:
    """With n = response_share · max_new_tokens, S = prompt + n tokens a row, F(S) operations a token and pass
    (`Shape.forward`), G GPUs, T = G · tflops · 10^12 · mfu:

    generate = steps · rows · refill · n · N / (10^9 · tokens_per_second · G)
    update   = steps · epochs · rows · S · F · (1 + 2 + [1 if checkpointing]) / T; a LoRA backward costs 1, a critic as
               much again as a full policy
    score    = steps · rows · S · F · (refill · [1 if scored] + [1 if reference] + [1 if critic]) / T
    evaluate = evaluations · responses · n_evaluate · N / (10^9 · tokens_per_second · G)
    other    = start_minutes · 60 + steps · step_seconds
    """
    chip, model = work.hardware, work.shape
    refill = chip.refill if work.refilled else 1.0
    response = chip.response_share * work.max_new_tokens
    length = chip.prompt_tokens + response
    rate = (
        chip.tokens_per_second * 1e9 / model.parameters * work.gpus * (1.0 if work.engine == "vllm" else chip.hf_speed)
    )
    operations = (chip.tflops_float32 if work.float32 else chip.tflops) * 1e12 * chip.mfu * work.gpus
    one_pass = work.steps * work.rows * length * model.forward(length) / operations
    again = 1 if work.checkpointing else 0
    update = (2 if work.lora_rank else 3) + again + ((3 + again) if work.critic else 0)
    score = refill * work.scored + work.reference + work.critic
    answered = work.evaluations * work.evaluated * chip.response_share * work.evaluated_tokens
    return Time(
        generate=work.steps * work.rows * refill * response / rate,
        update=work.epochs * update * one_pass,
        score=score * one_pass,
        evaluate=answered / rate,
        other=chip.start_minutes * 60 + work.steps * chip.step_seconds,
    )


def disk(work: Work) -> Disk:
    """A checkpoint holds, in fp32, what is trained and Adam's two moments of it: 12 bytes a parameter.

    Of every evaluation the ends of KEPT_SAMPLES responses to each question are kept, KEPT_CHARACTERS each. Leaves out:
    other records, a few MB a run.
    """
    checkpoint = 12.0 * (work.trained + work.critic_parameters)
    texts = float(work.evaluations * work.texts * KEPT_CHARACTERS)
    return Disk(checkpoint, work.kept, texts)
