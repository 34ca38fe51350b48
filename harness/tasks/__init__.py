"""Problems and their grading. A task turns its data configuration into problems and judges response texts.

Leaves out: tokens, models and sampling; truncation (the core never counts a truncated response as right).
"""

import functools
from collections.abc import Callable
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


@functools.lru_cache(maxsize=64)  # a worker trains many runs on the same data
def load(data: ArithmeticData | JsonlData) -> Task:
    """Raises ValueError or FileNotFoundError naming the file and field at fault."""
    if data.task == "arithmetic":
        from harness.tasks import arithmetic

        return Task(arithmetic.problems(data), arithmetic.grade)
    from harness.tasks import grading, jsonl

    return Task(jsonl.problems(data), grading.grade)
