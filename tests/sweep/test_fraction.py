"""Fractional factorials against the textbook's tables: words, resolution, aberration, what is confounded with what."""

import math
from itertools import combinations

import pytest

from harness.sweep import fraction
from harness.sweep.fraction import Fraction, parse

LETTERS = "ABCDEFGH"

# (factors, runs): words of length 3, 4, 5, … of the design with minimum aberration.
# Wu, Hamada, Experiments, appendix 4A; Montgomery, Design and Analysis of Experiments, table 8.14.
TEXTBOOK = {
    (3, 4): (1,),
    (4, 8): (0, 1),
    (5, 8): (2, 1),
    (5, 16): (0, 0, 1),
    (6, 8): (4, 3),
    (6, 16): (0, 3),
    (6, 32): (0, 0, 0, 1),
    (7, 8): (7, 7, 0, 0, 1),
    (7, 16): (0, 7),
    (7, 32): (0, 1, 2),
    (7, 64): (0, 0, 0, 0, 1),
    (8, 16): (0, 14, 0, 0, 0, 1),
    (8, 32): (0, 3, 4),
    (8, 64): (0, 0, 2, 1),
}


def made(factors: str, *generators: str) -> Fraction:
    return Fraction(tuple(factors), tuple(map(parse, generators)))


@pytest.mark.parametrize(("factors", "runs"), TEXTBOOK)
def test_the_search_finds_the_textbooks_designs(factors: int, runs: int) -> None:
    found = fraction.search(LETTERS[:factors], runs)
    pattern = fraction.pattern(fraction.relation(found.generators))
    assert pattern[:2] == (0, 0) and pattern[2:] == TEXTBOOK[factors, runs]
    assert found.runs == runs == len(fraction.rows(found))


def test_the_fewest_runs_of_each_resolution() -> None:
    # Montgomery, table 8.14: III, IV and V of three to eight factors
    three, four, five = (
        [fraction.best(LETTERS[:k], wanted).runs for k in range(low, 9)] for low, wanted in ((3, 3), (4, 4), (5, 5))
    )
    assert (three, four, five) == ([4, 8, 8, 8, 8, 16], [8, 16, 16, 16, 16], [16, 32, 64, 64])


def test_the_rows_of_a_half_fraction_by_hand() -> None:
    rows = [tuple(row.values()) for row in fraction.rows(made("ABC", "C = A*B"))]
    assert rows == [(-1, -1, 1), (-1, 1, -1), (1, -1, -1), (1, 1, 1)]
    other = [tuple(row.values()) for row in fraction.rows(made("ABC", "C = -A*B"))]
    assert other == [(-1, -1, -1), (-1, 1, 1), (1, -1, 1), (1, 1, -1)]


def test_the_defining_relation_holds_every_product_with_its_sign() -> None:
    words = fraction.relation(made("ABCDE", "D = -A*B", "E = A*C").generators)
    assert {"".join(sorted(word)): sign for word, sign in words.items()} == {"ABD": -1, "ACE": 1, "BCDE": -1}
    assert fraction.resolution(made("ABCDE", "D = A*B", "E = A*C").generators) == 3
    assert fraction.pattern(words) == (0, 0, 2, 1)


def test_what_is_confounded_with_what_by_hand() -> None:
    assert fraction.classes(made("ABC", "C = -A*B")) == [
        [(1, ("A",)), (-1, ("B", "C"))],
        [(1, ("B",)), (-1, ("A", "C"))],
        [(1, ("C",)), (-1, ("A", "B"))],
    ]
    pairs = fraction.classes(made("ABCD", "D = A*B*C"))[4:]
    assert pairs == [
        [(1, ("A", "B")), (1, ("C", "D"))],
        [(1, ("A", "C")), (1, ("B", "D"))],
        [(1, ("A", "D")), (1, ("B", "C"))],
    ]


@pytest.mark.parametrize(("factors", "runs"), [(5, 8), (6, 16), (7, 32)])
def test_confounded_effects_are_one_column_of_signs_and_others_are_orthogonal(factors: int, runs: int) -> None:
    found = fraction.search(LETTERS[:factors], runs)
    rows = fraction.rows(found)

    def column(effect: tuple[str, ...]) -> list[int]:
        return [math.prod(row[name] for name in effect) for row in rows]

    classes = fraction.classes(found)
    for same in classes:
        first = column(same[0][1])
        assert sum(first) == 0
        assert all([sign * x for x in column(effect)] == first for sign, effect in same)
    for one, other in combinations(classes, 2):
        assert sum(a * b for a, b in zip(column(one[0][1]), column(other[0][1]), strict=True)) == 0
    assert sum(map(len, classes)) == factors + math.comb(factors, 2)


def test_a_searched_fraction_holds_the_run_with_everything_at_its_baseline() -> None:
    for factors, runs in TEXTBOOK:
        assert set(fraction.rows(fraction.search(LETTERS[:factors], runs))[0].values()) == {-1}


def test_resolutions_are_written_in_roman_numerals() -> None:
    assert [fraction.roman(n) for n in (3, 4, 5, 6, 9, 10)] == ["III", "IV", "V", "VI", "IX", "X"]


@pytest.mark.parametrize(
    ("factors", "runs", "words"),
    [
        (4, 12, "a power of two of runs, such as 8$"),
        (5, 12, "such as 8 or 16$"),
        (4, 16, "4 axes of two levels have 16 combinations in all; take design: full"),
        (5, 4, "5 axes need 8 runs or more for main effects to be told apart"),
    ],
)
def test_sizes_that_cannot_be_say_what_can(factors: int, runs: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fraction.search(LETTERS[:factors], runs)


def test_a_resolution_that_only_the_whole_has_says_so() -> None:
    with pytest.raises(ValueError, match=r"no fraction of 4 axes has resolution V: .* half of the runs can have is IV"):
        fraction.best("ABCD", 5)
    with pytest.raises(ValueError, match=r"written D = A\*B\*C or D = -A\*B"):
        parse("D = A + B")
