"""Whether a response that ran into the length limit was repeating itself.

    the last L tokens have a period p ≤ 512, hold it three times over (L ≥ 3 p) and are an eighth of the response

The source paper traces back from the point of truncation and takes a share of repeated content for "no stop"
(arXiv:2508.08221 section 4.4 and appendix B.1) without giving its numbers; these are ours. Leaves out: responses that
repeat themselves and end all the same.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

LONGEST_PERIOD = 512  # tokens
COPIES = 3
SHARE = 8  # a repetition is at least 1/8 of the response


def ends_in_repetition(tokens: Int[Tensor, "B T"], lengths: Int[Tensor, "B"]) -> Bool[Tensor, "B"]:
    """Of each response, padded on the right; an empty one does not repeat."""
    return torch.tensor([_repeats(row[:length]) for row, length in zip(tokens, lengths.tolist(), strict=True)]).bool()


def _repeats(row: Int[Tensor, "n"]) -> bool:
    """By the longest suffix in which every token equals the one p before it, for each p."""
    least = max(COPIES, -(-len(row) // SHARE))
    tail = row[-max(COPIES * LONGEST_PERIOD, least) :]  # no condition looks farther back
    for period in range(1, min(LONGEST_PERIOD, len(tail) // COPIES) + 1):
        differs = (tail[period:] != tail[:-period]).flip(0)
        same = int(differs.int().argmax()) if differs.any() else len(differs)
        if same + period >= max(COPIES * period, least):
            return True
    return False
