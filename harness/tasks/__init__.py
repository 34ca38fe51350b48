"""Problems and their grading. A task turns its data configuration into problems and judges response texts.

Leaves out: tokens, models and sampling; truncation (the core never counts a truncated response as right).
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.config import ArithmeticData, JsonlData

Outcome = Literal["right", "wrong", "unparsable"]


@dataclass(frozen=True)
class Problem:
    """One question. `id` is its index in the data set and seeds its sampling noise."""

    id: int
    prompt: str
    answer: str


@dataclass(frozen=True)
class Task:
    """Problems with the function that grades a response text against an answer."""

    problems: list[Problem]
    grade: Callable[[str, str], Outcome]
    grade_many: Callable[[Sequence[str], Sequence[str]], list[Outcome]] | None = None
    dropped: int = 0  # problems left out since no response could be graded against their reference answer

    def grade_all(self, texts: Sequence[str], answers: Sequence[str]) -> list[Outcome]:
        """Every text against its answer, side by side where the task knows how."""
        if self.grade_many:
            return self.grade_many(texts, answers)
        return [self.grade(text, answer) for text, answer in zip(texts, answers, strict=True)]


@functools.lru_cache(maxsize=64)  # a worker trains many runs on the same data
def load(data: ArithmeticData | JsonlData) -> Task:
    """Raises ValueError or FileNotFoundError naming the file and field at fault."""
    if data.task == "arithmetic":
        from harness.tasks import arithmetic

        return Task(arithmetic.problems(data), arithmetic.grade)
    from harness.tasks import grading, jsonl

    found = jsonl.problems(data)
    kept = [p for p, ok in zip(found, grading.readable([p.answer for p in found]), strict=True) if ok]
    if not kept:
        raise ValueError(f"{data.path}: none of its {len(found)} answers can be read; is data.answer right?")
    problems = [Problem(i, p.prompt, p.answer) for i, p in enumerate(kept)]
    return Task(problems, grading.grade, grading.grade_all, len(found) - len(kept))


def verifier_errors() -> int:
    """Responses so far, in this process, on which the verifier failed: out of time, out of memory, or by its own error.

    They count as unparsable. `grading.failures` has them by reason.
    """
    from harness.tasks import grading

    return sum(grading.failures().values())
