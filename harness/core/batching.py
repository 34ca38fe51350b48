"""How rows are cut into the parts that one forward and backward pass takes.

Every row is in exactly one part, whatever the limits: they bound memory and change no gradient (weights are fixed over
the whole batch). Leaves out: which rows a rank takes (`parallel.py`).
"""

import torch
from jaxtyping import Int
from torch import Tensor

from harness.core.shapes import Rows


def by_length(rows: Rows, index: Int[Tensor, "b"]) -> Int[Tensor, "b"]:
    """These rows with the shortest response first, ties as given: neighbours then need little padding."""
    return index[torch.argsort(rows.lengths[index], stable=True)]


def parts(
    rows: Rows, index: Int[Tensor, "b"], max_rows: int | None = None, max_tokens: int | None = None
) -> list[Int[Tensor, "m"]]:
    """The rows in their order, cut so that a part has at most `max_rows` rows and `max_tokens` tokens.

    Tokens are those of prompt and response with padding: rows of a part × its longest. A row longer than `max_tokens`
    is a part of its own. None = no limit.
    """
    totals = (rows.prompts.lengths[rows.prompt_index[index]] + rows.lengths[index]).tolist()
    most = max_rows or max(1, len(totals))
    ends, start, longest = [], 0, 0
    for i, total in enumerate(totals):
        longest = max(longest, total)
        full = i - start == most or (max_tokens is not None and (i - start + 1) * longest > max_tokens)
        if full and i > start:
            ends.append(i)
            start, longest = i, total
    return [part for part in index.tensor_split(ends) if len(part)]
