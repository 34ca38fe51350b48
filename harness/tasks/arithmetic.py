"""Chains of small additions and subtractions: `Q 17 a+1 b-3 c-2 d+4 = ? A`, the answer after every step.

Each operation carries a letter, so that a response can name the step it is at. Values stay within 0 to 19 at every
step. A prompt belongs to the training or the held-out split by its own hash, so the two are disjoint whatever their
lengths, operands and seeds. Leaves out: how responses are worded and which errors models make (`harness.lab.corpus`).
"""

import hashlib
import re

import numpy as np

from harness.config import ArithmeticData
from harness.tasks import Outcome, Problem

MAX_VALUE = 19
MAX_OPERAND = 5
LETTERS = "abcdefghij"

_HELD_OUT_IN = 10  # one prompt in ten is held out
_ATTEMPTS_PER_PROBLEM = 200
_ANSWER = re.compile(r"(?:^|\s)answer\s+(-?\d+)\s*$")


def problems(data: ArithmeticData) -> list[Problem]:
    """`size` different problems, the number of operations uniform in `min_ops … max_ops`; the same on every machine.

    Raises ValueError for bounds that the vocabulary does not hold, and for more problems than exist within them.
    """
    _check(data)
    rng = np.random.Generator(np.random.PCG64(data.seed))
    found: dict[str, str] = {}
    for _ in range(_ATTEMPTS_PER_PROBLEM * data.size):
        if len(found) == data.size:
            break
        start, operations = draw(rng, data.min_ops, data.max_ops, data.min_operand, data.max_operand)
        text = prompt(start, operations)
        if held_out(text) == (data.split == "heldout"):
            found[text] = str(start + sum(operations))
    else:
        raise ValueError(
            f"data.size: only {len(found)} different {data.split} problems found with {data.min_ops} to {data.max_ops} "
            f"operations of {data.min_operand} to {data.max_operand}; ask for fewer than {data.size}"
        )
    return [Problem(i, text, answer) for i, (text, answer) in enumerate(found.items())]


def draw(
    rng: np.random.Generator, min_ops: int, max_ops: int, min_operand: int, max_operand: int
) -> tuple[int, list[int]]:
    """A start value and signed operands; each operand is uniform over those that keep the value in range."""
    value = start = int(rng.integers(MAX_VALUE + 1))
    operations: list[int] = []
    signed = [sign * k for k in range(min_operand, max_operand + 1) for sign in (1, -1)]
    for _ in range(int(rng.integers(min_ops, max_ops + 1))):
        allowed = [k for k in signed if 0 <= value + k <= MAX_VALUE]
        operations.append(allowed[int(rng.integers(len(allowed)))])
        value += operations[-1]
    return start, operations


def prompt(start: int, operations: list[int]) -> str:
    slots = [f"{letter}{k:+d}" for letter, k in zip(LETTERS, operations, strict=False)]
    return " ".join(["Q", str(start), *slots, "= ? A"])


def held_out(text: str) -> bool:
    """Whether a prompt is kept from all training, of the models in the lab as of the runs."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % _HELD_OUT_IN == 0


def grade(text: str, answer: str) -> Outcome:
    """Right or wrong by the number after a closing `answer`; unparsable if the text does not end that way."""
    found = _ANSWER.search(text)
    if found is None:
        return "unparsable"
    return "right" if int(found.group(1)) == int(answer) else "wrong"


def _check(data: ArithmeticData) -> None:
    if data.max_ops < data.min_ops or data.max_ops > len(LETTERS):
        raise ValueError(
            f"data.max_ops: takes min_ops = {data.min_ops} to {len(LETTERS)} (one letter each), not {data.max_ops}"
        )
    if data.max_operand < data.min_operand or data.max_operand > MAX_OPERAND:
        raise ValueError(
            f"data.max_operand: takes min_operand = {data.min_operand} to {MAX_OPERAND}, not {data.max_operand}"
        )
