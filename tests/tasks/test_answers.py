"""What is decided without algebra: numbers, words, spelling; and what is left for it."""

from fractions import Fraction

import pytest

from harness.tasks import answers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("72", "72"),
        ("-5", "-5"),
        ("+5", "5"),
        (".5", "1/2"),
        ("27.0", "27"),
        ("5.", "5"),
        ("1,234,567", "1234567"),
        ("1{,}234", "1234"),
        ("$1,234.00", "1234"),
        (r"\$5", "5"),
        (r"\frac{3}{4}", "3/4"),
        (r"-\dfrac34", "-3/4"),
        (r"3\frac{1}{2}", "7/2"),
        ("-7/2", "-7/2"),
        ("1.6e-5", "1/62500"),
        (r"1.6 \times 10^{-5}", "1/62500"),
        (r"2\cdot 10^3", "2000"),
        (r"5\text{ cm}", "5"),
        (r"5 \mathrm{~m}^2", "5"),
        (r"336^{\circ}", "336"),
        (r"$12\%$", "12"),
    ],
)
def test_numbers_are_exact(text: str, value: str) -> None:
    found = answers.number(text)
    assert found is not None
    assert found.value == Fraction(value)


@pytest.mark.parametrize(
    "text",
    [
        "3,4",  # a pair
        "1,23",
        "x",
        "2x",
        "",
        r"\frac{1}{0}",
        r"5 \text{ million}",
        r"5 \text{ or } 6",
        "1e99999",
        "9" * 300,
        "1..2",
        r"\pi",
    ],
)
def test_what_is_no_plain_number_is_none(text: str) -> None:
    assert answers.number(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Evelyn", True),
        (r"\text{no solution}", True),
        (r"\text{VW}", True),
        ("odd", True),
        ("Yes", True),
        ("abc", False),  # may be a product
        ("A", False),
        (r"\text{A}", False),  # a choice, which (A) equals
        (r"\text{(A)}", False),
        ("f(x)", False),
        ("12", False),
        ("", False),
    ],
)
def test_words_are_told_from_products(text: str, words: bool) -> None:
    assert answers.is_words(text) is words


@pytest.mark.parametrize(
    ("given", "gold", "outcome"),
    [
        (r"\left(3,\,\frac{\pi}{2}\right)", r"(3, \dfrac{\pi}{2})", "right"),  # spelling
        (r"$x^2$.", "x^2", "right"),
        (r"\text{ Evelyn }", "evelyn", "right"),
        ("neve", r"\text{even}", "wrong"),  # the same letters
        ("50", r"50\%", "right"),
        ("0.5", r"50\%", "right"),
        (r"50\%", r"\frac12", "right"),
        (r"50\%", r"51\%", "wrong"),
        ("0.05", r"50\%", "wrong"),
        ("5", r"5\text{ cm}", "right"),
        (r"5\text{ m}", r"5\text{ cm}", "right"),  # units are not compared
        (r"6\text{ cm}", r"5\text{ cm}", "wrong"),
        (r"\frac{2}{6}", r"\frac13", "right"),
        (r"\frac{2}{7}", r"\frac13", "wrong"),
        ("0.333333", r"\frac13", None),  # perhaps its rounding
        ("34", "3,4", None),
        (r"\{3,4\}", "(3,4)", "wrong"),  # a set is no pair
        ("(4,3)", "(3,4)", None),
        ("x+1", "1+x", None),
        ("", "", "wrong"),
    ],
)
def test_compare(given: str, gold: str, outcome: str | None) -> None:
    assert answers.compare(given, gold) == outcome


def test_the_rows_of_a_matrix_keep_their_breaks() -> None:
    two = r"\begin{pmatrix}1 \\ 2\end{pmatrix}"
    assert answers.compare(two, r"\begin{pmatrix} 1\\2 \end{pmatrix}") == "right"
    assert answers.compare(two, r"\begin{pmatrix} 12 \end{pmatrix}") is None
