"""Regular two-level fractional factorials: generators, defining relation, resolution, what is confounded with what.

A factor is -1 at its low level and +1 at its high one. Of k factors, k - p are free and take all 2^(k-p) combinations;
each of the other p follows from a generator, such as D = A*B*C or E = -A*B. In these runs the effects of two products
of factors cannot be told apart where one times the other is a word of the defining relation:

    words         every product of generators: I = A*B*C*D
    resolution    the length of the shortest word. III: main effects are confounded with two-factor interactions;
                  IV: not with those, but these with each other; V: neither
    aberration    of designs of one resolution the one with the fewest shortest words is best, then the next shortest

Ref: Box and Hunter, The 2^(k-p) fractional factorial designs, 1961; Fries and Hunter, 1980 (minimum aberration).
Pure functions of names. Leaves out: axes and levels (`fraction_spec.py`), estimates (`analysis/fractional.py`).
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

Word = frozenset[
    str
]  # a product of factors; the square of a factor is 1, so that words multiply by symmetric difference
MOST_SEARCHED = 70_000  # sets of generators, about a second

_FORM = re.compile(r"([\w.]+)=(-?)([\w.]+(?:\*[\w.]+)*)")


@dataclass(frozen=True)
class Generator:
    """`factor` is `sign` times the product of `of`."""

    factor: str
    sign: int
    of: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.factor} = {'-' if self.sign < 0 else ''}{'*'.join(self.of)}"


@dataclass(frozen=True)
class Fraction:
    """`factors` in the spec's order, of which those of the `generators` follow from the others."""

    factors: tuple[str, ...]
    generators: tuple[Generator, ...]

    @property
    def runs(self) -> int:
        return int(2 ** (len(self.factors) - len(self.generators)))


def parse(text: str) -> Generator:
    """`D = A*B*C` or `D = -A*B`. Raises ValueError for another form."""
    found = _FORM.fullmatch(re.sub(r"\s", "", text))
    if not found:
        raise ValueError(f"a generator is written D = A*B*C or D = -A*B in names of axes, not {text!r}")
    return Generator(found[1], -1 if found[2] else 1, tuple(found[3].split("*")))


def rows(fraction: Fraction) -> list[dict[str, int]]:
    """factor -> -1 or +1 for every run; the first free factor slowest, low before high."""
    made = {generator.factor: generator for generator in fraction.generators}
    free = [factor for factor in fraction.factors if factor not in made]
    out = []
    for signs in product((-1, 1), repeat=len(free)):
        at = dict(zip(free, signs, strict=True))
        at |= {factor: g.sign * math.prod(at[of] for of in g.of) for factor, g in made.items()}
        out.append({factor: at[factor] for factor in fraction.factors})
    return out


def relation(generators: Sequence[Generator]) -> dict[Word, int]:
    """The defining relation without I: word -> its sign, 2^p - 1 of them where the generators are independent."""
    words: dict[Word, int] = {frozenset(): 1}
    for generator in generators:
        word = frozenset(generator.of) ^ {generator.factor}
        words |= {word ^ known: generator.sign * sign for known, sign in words.items()}
    del words[frozenset()]
    return words


def pattern(words: Iterable[Word]) -> tuple[int, ...]:
    """How many words there are of length 1, 2, 3, …: of two patterns that differ, the lesser has less aberration."""
    lengths = [len(word) for word in words]
    return tuple(lengths.count(length) for length in range(1, max(lengths, default=0) + 1))


def resolution(generators: Sequence[Generator]) -> int:
    """The length of the shortest word. Raises ValueError without a generator: nothing is confounded."""
    return min(len(word) for word in relation(generators))


def classes(fraction: Fraction) -> list[list[tuple[int, tuple[str, ...]]]]:
    """Main effects and two-factor interactions, those that are confounded together, each with its sign to the first.

    Main effects first, all in the order of the factors. One contrast of the runs is the class's first effect plus the
    sum of sign · effect of the others, and of interactions of three factors or more.
    """
    words = relation(fraction.generators)
    order = {factor: place for place, factor in enumerate(fraction.factors)}
    effects = [frozenset(names) for size in (1, 2) for names in combinations(fraction.factors, size)]
    out, seen = [], set[Word]()
    for effect in effects:
        if effect in seen:
            continue
        same = [(1, effect), *((sign, effect ^ word) for word, sign in words.items() if effect ^ word in effects)]
        seen |= {other for _, other in same}
        same[1:] = sorted(same[1:], key=lambda item: (len(item[1]), sorted(order[name] for name in item[1])))
        out.append([(sign, tuple(sorted(other, key=order.__getitem__))) for sign, other in same])
    return out


def roman(number: int) -> str:
    """3 -> III."""
    tens, units = divmod(number, 10)
    return "X" * tens + ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")[units]


# -- finding generators --------------------------------------------------------------------------------------------


def search(factors: Sequence[str], runs: int) -> Fraction:
    """The fraction of `runs` runs with minimum aberration; the last factors are the generated ones.

    Signs are such that the run with every factor low is one of the fraction. Of equals the first in the order of longer
    products, then of names. Raises ValueError where there is no fraction of that size of resolution III or more, or
    too many to try.
    """
    count = len(factors)
    free = runs.bit_length() - 1
    if runs < 2 or runs != 2**free:
        near = [2**power for power in range(2, count) if 2 ** (power - 1) < runs < 2 ** (power + 1)]
        raise ValueError(f"a fraction has a power of two of runs, such as {' or '.join(map(str, near or [8]))}")
    if runs >= 2**count:
        raise ValueError(f"{count} axes of two levels have {2**count} combinations in all; take design: full")
    candidates = [set(names) for size in range(free, 1, -1) for names in combinations(range(free), size)]
    generated = count - free
    if generated > len(candidates):
        raise ValueError(f"{count} axes need {smallest(count)} runs or more for main effects to be told apart")
    if math.comb(len(candidates), generated) > MOST_SEARCHED:
        raise ValueError(f"{count} axes in {runs} runs are too many to search; write `generators`")
    masks = [sum(1 << place for place in names) for names in candidates]
    chosen = min(combinations(range(len(masks)), generated), key=lambda some: _aberration(some, masks, free))
    made = []
    for place, index in enumerate(chosen):
        of = tuple(factors[i] for i in sorted(candidates[index]))
        made.append(Generator(factors[free + place], 1 if len(of) % 2 else -1, of))
    return Fraction(tuple(factors), tuple(made))


def best(factors: Sequence[str], wanted: int) -> Fraction:
    """The fraction of fewest runs with resolution `wanted` or more. Raises ValueError where only the whole has it."""
    count = len(factors)
    if wanted > count:
        raise ValueError(
            f"no fraction of {count} axes has resolution {roman(wanted)}: all that half of the runs can have is "
            f"{roman(count)}; take design: full"
        )
    runs = smallest(count)
    while runs < 2**count:
        found = search(factors, runs)
        if resolution(found.generators) >= wanted:
            break
        runs *= 2
    return found


def smallest(count: int) -> int:
    """The fewest runs in which `count` main effects can be told apart: a power of two above `count`."""
    return int(2 ** count.bit_length())


def _aberration(chosen: Sequence[int], masks: Sequence[int], free: int) -> tuple[int, ...]:
    """`pattern` of generators as bits: fast, since a search takes tens of thousands."""
    words = [0]
    for place, index in enumerate(chosen):
        word = masks[index] | 1 << (free + place)
        words += [word ^ known for known in words]
    counts = [0] * (free + len(chosen))
    for word in words[1:]:
        counts[word.bit_count() - 1] += 1
    return tuple(counts)
