"""The texts that the miniature models learn from: response styles, and the errors that are in them.

A fact is one step, (value, operation) -> value. Like a web corpus this one holds three kinds of facts, fixed by a
hash: solid ones, shaky ones with a habitual wrong result beside the right one, and stubborn ones that it gets right
only rarely. Reinforcement learning can sharpen the first two quickly, has to discover the last, and each fact apart.
Leaves out: tokens and batches (`harness.lab.pretrain`).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from harness.tasks.arithmetic import LETTERS, MAX_VALUE

LOOP_WORDS = 60  # a degenerate loop is cut here in the corpus, as long as the longest proper responses


@dataclass(frozen=True)
class Errors:
    """How often the corpus states a fact wrongly, by kind of fact; `slip` is a uniformly random result on top."""

    solid: float
    shaky: tuple[float, float]  # each shaky fact has its own probability between these
    hasty: float  # added to that in the terse style, so that spelling a step out pays
    stubborn: tuple[float, float]
    slip: float


CLEAN = Errors(solid=0.0, shaky=(0.0, 0.0), hasty=0.0, stubborn=(0.0, 0.0), slip=0.0)
# A stubborn fact is wrong from the first text on: had the model learned it rightly once, RL would bring that back.
FIRST = Errors(solid=0.0, shaky=(0.0, 0.0), hasty=0.0, stubborn=(1.0, 1.0), slip=0.0)
BASE = Errors(solid=0.01, shaky=(0.25, 0.75), hasty=0.2, stubborn=(0.975, 0.998), slip=0.02)
ALIGNED = Errors(solid=0.0, shaky=(0.01, 0.06), hasty=0.0, stubborn=(0.985, 0.999), slip=0.003)

OPENERS, VERBS = ("then", "next", "now"), ("is", "gives")  # words that carry no information, only entropy
SHARE_STUBBORN, SHARE_SHAKY = 0.08, 0.35


@cache
def habit(value: int, operation: int) -> tuple[str, float, int]:
    """A fact's kind, where it lies in its kind's range of error probabilities, and its habitual wrong result."""
    digest = hashlib.sha256(f"{value}{operation:+d}".encode()).digest()
    kind_at, place, choice = (int.from_bytes(digest[i : i + 4], "big") / 2**32 for i in (0, 4, 8))
    kind = "stubborn" if kind_at < SHARE_STUBBORN else "shaky" if kind_at < SHARE_STUBBORN + SHARE_SHAKY else "solid"
    right = min(max(value + operation, 0), MAX_VALUE)
    near = [n for n in (right - 10, right - 2, right - 1, right + 1, right + 2, right + 10) if 0 <= n <= MAX_VALUE]
    return kind, place, near[int(choice * len(near))]


def state(rng: np.random.Generator, value: int, operation: int, errors: Errors, hasty: bool = False) -> int:
    """The result that the corpus gives for a fact this time."""
    kind, place, wrong = habit(value, operation)
    ranges = {"solid": (errors.solid, errors.solid), "shaky": errors.shaky, "stubborn": errors.stubborn}
    low, high = ranges[kind]
    p = low + (high - low) * place + (errors.hasty if hasty and kind == "shaky" else 0.0)
    if rng.random() < errors.slip:
        return int(rng.integers(MAX_VALUE + 1))
    right = min(max(value + operation, 0), MAX_VALUE)  # after an error a chain may lead out of the range
    return wrong if rng.random() < p else right


Style = Callable[[np.random.Generator, int, list[int], Errors], tuple[list[str], bool]]
"""(rng, start, operations, errors) -> words of a response, and whether it ends."""


def direct(rng: np.random.Generator, start: int, operations: list[int], errors: Errors) -> tuple[list[str], bool]:
    return ["answer", str(start + sum(operations))], True


def terse(rng: np.random.Generator, start: int, operations: list[int], errors: Errors) -> tuple[list[str], bool]:
    words, value = [], start
    for letter, k in zip(LETTERS, operations, strict=False):
        value = state(rng, value, k, errors, hasty=True)
        words += [letter, str(value), ","]
    return [*words[:-1], ".", "answer", str(value)], True


def verbose(rng: np.random.Generator, start: int, operations: list[int], errors: Errors) -> tuple[list[str], bool]:
    words, value = _clauses(rng, start, operations, errors, checks=0.0)
    return [*words, "so", "the", "answer", str(value)], True


def unanswered(rng: np.random.Generator, start: int, operations: list[int], errors: Errors) -> tuple[list[str], bool]:
    words, _ = (verbose if rng.random() < 0.5 else terse)(rng, start, operations, errors)
    return words[: words.index("answer")], True


def loop(rng: np.random.Generator, start: int, operations: list[int], errors: Errors) -> tuple[list[str], bool]:
    words, _ = _clauses(rng, start, operations, errors, checks=0.0)
    clause = 6
    keep = clause * int(rng.integers(1, len(operations) + 1))
    words = words[:keep]
    while len(words) < LOOP_WORDS:
        words += ["again", *words[keep - clause + 1 : keep]]
    return words[:LOOP_WORDS], False


def careful(rng: np.random.Generator, start: int, operations: list[int], errors: Errors) -> tuple[list[str], bool]:
    """The aligned style: varied connectives, and now and then a step done again."""
    words, value = _clauses(rng, start, operations, errors, checks=0.08)
    ending = [["so", "the"], ["and", "so", "the"], ["done", ".", "the"]][int(rng.integers(3))]
    return [*words, *ending, "answer", str(value)], True


def _clauses(
    rng: np.random.Generator, value: int, operations: list[int], errors: Errors, checks: float
) -> tuple[list[str], int]:
    words: list[str] = []
    for i, (letter, k) in enumerate(zip(LETTERS, operations, strict=False)):
        opener = OPENERS[int(rng.integers(len(OPENERS)))] if i else "first"
        verb = VERBS[int(rng.integers(len(VERBS)))]
        result = state(rng, value, k, errors)
        words += [opener, letter, f"{k:+d}", verb, str(result), ","]
        if rng.random() < checks:
            result = state(rng, value, k, errors)
            words += ["wait", "check", letter, f"{k:+d}", verb, str(result), ","]
        value = result
    return words, value


BASE_STYLES: dict[Style, float] = {direct: 0.20, terse: 0.24, verbose: 0.30, loop: 0.08, unanswered: 0.18}
FIRST_STYLES: dict[Style, float] = {terse: 0.45, verbose: 0.55}
ALIGNED_STYLES: dict[Style, float] = {careful: 1.0}


def pick(rng: np.random.Generator, styles: dict[Style, float]) -> Style:
    return list(styles)[int(rng.choice(len(styles), p=list(styles.values())))]
