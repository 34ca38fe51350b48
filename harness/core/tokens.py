"""What a step records of single tokens: how sure they were, which were clipped, and a few responses token by token.

Counts are of everything sampled (`probability`, `groups`) or of every update (`high`, `low`), so that sums over steps
and seeds are exact. Keys and formulas are in docs/metrics.md. Leaves out: shares and extremes (`metrics.py`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from harness.core.collect import Collected
from harness.core.metrics import Clipped
from harness.core.shapes import Rows

EDGES = (0.30, 0.60, 0.85, 0.95, 0.99)  # of the source paper's intervals, arXiv:2508.08221 figures 9 and 20
Words = Callable[[list[int]], list[str]]  # the texts of token ids

MOST = 50  # clipped tokens named in a line; it also has the count of all


def counts(collected: Collected, rows: Rows, clipped: Clipped, words: Words) -> dict[str, Any]:
    """One line of the record, but for its step. `rows` are those of the batch, to which `clipped.rows` points."""
    rollout, tokens = collected.rollout, rows.tokens[clipped.rows]
    sure = torch.bucketize(rollout.logp[rollout.mask].double().exp(), torch.tensor(EDGES).double(), right=True)
    right, group_size = collected.rewards.sum(-1).long(), collected.rewards.shape[1]
    found: dict[str, Any] = {
        "probability": sure.bincount(minlength=len(EDGES) + 1).tolist(),
        "groups": right.bincount(minlength=group_size + 1).tolist(),
    }
    for side, at in (("high", clipped.high), ("low", clipped.low)):
        ids, numbers = tokens[:, : at.shape[1]][at].unique(return_counts=True)
        order = sorted(zip((-numbers).tolist(), ids.tolist(), strict=True))[:MOST]
        named: dict[str, int] = {}
        for text, (number, _) in zip(words([token for _, token in order]), order, strict=True):
            named[text] = named.get(text, 0) - number  # several tokens may read alike
        found |= {side: named, f"{side}_total": int(at.sum())}
    return found


def shown(collected: Collected, rows: Rows, clipped: Clipped, words: Words, most: int) -> list[dict[str, Any]]:
    """The first responses to the first prompt that trains (or was sampled, where none trains), token by token."""
    place, rollout, group_size = _place(collected), collected.rollout, collected.rewards.shape[1]
    some = bool(collected.admitted.any())
    marks = _marks(clipped, rows, group_size) if some else torch.zeros(group_size, rollout.tokens.shape[-1])
    responses = []
    assert rollout.entropy is not None
    for sample in range(min(most, group_size)):
        length = int(rollout.lengths[place, sample])
        logp, entropy = rollout.logp[place, sample, :length], rollout.entropy[place, sample, :length]
        responses.append(
            {
                "text": collected.texts[place * group_size + sample],
                "reward": float(collected.rewards[place, sample]),
                "tokens": words(rollout.tokens[place, sample, :length].tolist()),
                "probability": [round(value, 4) for value in logp.double().exp().tolist()],
                "entropy": [round(value, 4) for value in entropy.double().tolist()],
                "clipped": marks[sample, :length].int().tolist(),
            }
        )
    return responses


def prompt(collected: Collected) -> int:
    """Which problem `shown` shows, by position in the data set."""
    return collected.problems[_place(collected)]


def _place(collected: Collected) -> int:
    """The first prompt that trains, or the first where none does."""
    return int(collected.admitted.int().argmax())


def _marks(clipped: Clipped, rows: Rows, group_size: int) -> Tensor:
    """[G, T] of the first group: 1 where some update clipped a token above, else -1 where one did below, else 0."""
    marks = torch.zeros(group_size, rows.tokens.shape[1])
    for side, value in ((clipped.low, -1.0), (clipped.high, 1.0)):
        for row in range(group_size):
            some = side[clipped.rows == row].any(0)
            marks[row, : len(some)][some] = value
    return marks
