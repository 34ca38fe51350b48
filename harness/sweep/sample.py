"""A random part of a grid in which every level occurs about as often as any other of its axis.

Points are taken one after another, so that a larger sample holds a smaller one of the same seed: of the points not yet
taken whose levels have all occurred least, the one whose pairs of levels have occurred least, and of equals the one of
least rank. The rank is sha256 of the seed and the labels: it depends on no generator's version and on no other point.

An axis's counts differ by one at most as long as such a point is left; then by as little as can be: two, rarely three.
Leaves out: what a point is (`design.py`).
"""

import functools
import hashlib
import heapq
import json
import math
from collections.abc import Iterator, Sequence
from itertools import combinations, product

LOOKED_AT = 64  # candidates a step, of least rank: enough for even pairs

Point = tuple[int, ...]  # the place of a level in its axis, for each axis


def points(labels: Sequence[Sequence[str]], size: int, seed: int) -> list[Point]:
    """The first `size` points of the sample, in the order of being taken. Raises ValueError for more than there are."""
    whole = math.prod(map(len, labels))
    if size > whole:
        raise ValueError(f"size is {size}, and there are {whole} combinations; take {whole} or fewer")
    ones = [[0] * len(axis) for axis in labels]
    pairs: dict[tuple[int, int, int, int], int] = {}
    taken: dict[Point, None] = {}
    rank = functools.cache(lambda point: _rank(labels, point, seed))
    for _ in range(size):
        near = heapq.nsmallest(LOOKED_AT, _candidates(taken, ones), key=rank)
        point = min(near, key=lambda point: sum(pairs.get(pair, 0) for pair in _pairs(point)))
        taken[point] = None
        for count, level in zip(ones, point, strict=True):
            count[level] += 1
        pairs |= {pair: pairs.get(pair, 0) + 1 for pair in _pairs(point)}
    return list(taken)


def _candidates(taken: dict[Point, None], ones: list[list[int]]) -> list[Point]:
    """Points whose levels have all occurred least; where none is left, those that come nearest."""
    least = [[level for level, count in enumerate(counts) if count == low] for counts in ones for low in [min(counts)]]
    if found := [point for point in product(*least) if point not in taken]:
        return found
    left = [point for point in product(*(range(len(counts)) for counts in ones)) if point not in taken]
    over = [[count - min(counts) for count in counts] for counts in ones]
    excess = [sum(counts[level] for level, counts in zip(point, over, strict=True)) for point in left]
    nearest = min(excess)
    return [point for point, much in zip(left, excess, strict=True) if much == nearest]


def _pairs(point: Point) -> Iterator[tuple[int, int, int, int]]:
    """(axis, level, another axis, its level)."""
    return ((a, point[a], b, point[b]) for a, b in combinations(range(len(point)), 2))


def _rank(labels: Sequence[Sequence[str]], point: Point, seed: int) -> str:
    names = [axis[level] for axis, level in zip(labels, point, strict=True)]
    return hashlib.sha256(json.dumps([seed, names], ensure_ascii=False).encode()).hexdigest()
