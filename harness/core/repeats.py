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
    """Of each response, padded on the right; an empty one does not repeat.

    By the longest suffix in which every token equals the one p before it, for each p and all responses at once.
    """
    least = (-(-lengths // SHARE)).clamp(min=COPIES)
    longest = int(lengths.max()) if len(lengths) else 0
    width = min(longest, max(COPIES * LONGEST_PERIOD, -(-longest // SHARE)))  # no condition looks farther back
    back = torch.arange(width)
    place = lengths[:, None] - 1 - back
    # from the end backwards; before the beginning a number of its own in every place, which equals nothing
    ending = torch.where(place >= 0, tokens.gather(1, place.clamp(min=0)), -1 - back)
    found = torch.zeros(len(lengths), dtype=torch.bool)
    for period in range(1, min(LONGEST_PERIOD, width // COPIES) + 1):
        same = (ending[:, :-period] == ending[:, period:]).int().cumprod(1).sum(1)
        found |= same + period >= torch.clamp(least, min=COPIES * period)
    return found
