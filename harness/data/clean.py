"""What makes a row fit for training, and the order in which rows are drawn: pure functions.

Leaves out: files (`prepare.py`), whether an answer can be graded (`harness.tasks.grading`).
"""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.data.sources import Item

TRUE_FALSE = {"true", "false", "yes", "no"}

_COMMANDS = re.compile(r"\\(?:left|right|displaystyle|text|mathrm|quad|qquad)(?![A-Za-z])")
_OPERATORS = set("+-*/^=<>")


def fingerprint(text: str) -> str:
    """One spelling of a question: NFKC, lower case, letters, digits and operators only.

    Equal for the same problem in another layout; different where a sign or a digit is.
    """
    plain = unicodedata.normalize("NFKC", _COMMANDS.sub("", text)).casefold()
    return "".join(mark for mark in plain if mark.isalnum() or mark in _OPERATORS)


def is_true_false(answer: str) -> bool:
    """Whether a coin could give the answer: true, false, yes or no, also inside of \\text{...}."""
    return re.sub(r"\\text\s*|[${}.\s]", "", answer).casefold() in TRUE_FALSE


def order(items: Sequence[Item], draw: str, seed: int) -> list[int]:
    """Indices in the order in which rows are taken.

    random: a shuffle. easiest: by difficulty, equal ones shuffled. proportional: without replacement, at each draw
    P(row) = difficulty / sum of the difficulties left; that is the order of -log(u) / difficulty with u uniform.
    Rows need a difficulty above 0 for the last.

    Ref: Efraimidis & Spirakis, Information Processing Letters 97 (2006).
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    if draw == "proportional":
        weights = np.array([item.difficulty for item in items], dtype=float)
        return [int(i) for i in np.argsort(rng.exponential(size=len(items)) / weights, kind="stable")]
    shuffled = rng.permutation(len(items))
    if draw == "random":
        return [int(i) for i in shuffled]
    levels = np.array([items[i].difficulty for i in shuffled], dtype=float)
    return [int(i) for i in shuffled[np.argsort(levels, kind="stable")]]


@dataclass
class Dropped:
    """Row counts by reason, in the order in which reasons are looked at."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, rows: int = 1) -> None:
        if rows:
            self.counts[reason] = self.counts.get(reason, 0) + rows


def usable(items: Sequence[Item], held_out: dict[str, set[str]], rated: bool, dropped: Dropped) -> list[Item]:
    """Rows with question, answer and (if `rated`) a difficulty above 0, each question once, none of `held_out`.

    `held_out` holds the fingerprints of every evaluation set by name. DeepMath gives -1 to what it could not rate.
    """
    seen: set[str] = set()
    kept = []
    for item in items:
        mark = fingerprint(item.question)
        if not mark or not item.answer:
            dropped.add("no question or no answer")
        elif rated and not (item.difficulty is not None and math.isfinite(item.difficulty) and item.difficulty > 0):
            dropped.add("no difficulty above 0")
        elif inside := [name for name, marks in held_out.items() if mark in marks]:
            dropped.add(f"in evaluation set {inside[0]}")
        elif mark in seen:
            dropped.add("duplicate question")
        else:
            seen.add(mark)
            kept.append(item)
    return kept


def take(
    items: Sequence[Item],
    indices: Sequence[int],
    size: int,
    true_false_share: float,
    readable: Callable[[list[str]], list[bool]],
    dropped: Dropped,
) -> list[Item]:
    """The first `size` rows in the order `indices` that can be graded; 0 = all.

    At most floor(true_false_share · size) of them have a true/false answer; further ones are passed over. So the share
    holds in what is drawn, whatever it is in the source.
    """
    size = size or len(indices)
    allowed = math.floor(true_false_share * size + 1e-9)  # 0.29 · 100 is 28.999…
    taken: list[Item] = []
    coins = position = 0
    while len(taken) < size and position < len(indices):
        chunk: list[Item] = []
        while len(taken) + len(chunk) < size and position < len(indices):
            item = items[indices[position]]
            position += 1
            if is_true_false(item.answer):
                if coins == allowed:
                    dropped.add("true/false answer beyond the share")
                    continue
                coins += 1
            chunk.append(item)
        good = readable([item.answer for item in chunk])
        dropped.add("answer cannot be read", good.count(False))
        taken += [item for item, ok in zip(chunk, good, strict=True) if ok]
    dropped.add("not drawn", len(indices) - position)
    return taken
