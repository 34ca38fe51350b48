"""Which rows train, and in what order they are drawn: by hand, and by the distribution of seeded draws."""

from collections import Counter

import pytest

from harness.data import clean
from harness.data.clean import Dropped
from harness.data.sources import Item


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("What is $1+1$?", "what  is \\( 1 + 1 \\)", True),
        (r"Find $\left( x \right)$.", "find (x)", True),
        ("What is 1+1?", "What is 1-1?", False),
        ("What is 1?", "What is 11?", False),
        ("ﬁnd x", "Find X", True),  # a ligature
    ],
)
def test_one_fingerprint_for_one_question(one: str, other: str, same: bool) -> None:
    assert (clean.fingerprint(one) == clean.fingerprint(other)) is same


@pytest.mark.parametrize("answer", ["True", "false", r"\text{Yes}", r"$\text{No}$", "no."])
def test_what_a_coin_could_answer(answer: str) -> None:
    assert clean.is_true_false(answer)


@pytest.mark.parametrize("answer", ["no solution", "1", "T", "truelove"])
def test_what_it_could_not(answer: str) -> None:
    assert not clean.is_true_false(answer)


def rated(*levels: float) -> list[Item]:
    return [Item(f"q{i}", "1", float(level)) for i, level in enumerate(levels)]


def test_the_easiest_come_first_and_equal_ones_in_an_order_of_the_seed() -> None:
    assert clean.order(rated(3, 1, 2), "easiest", 0) == [1, 2, 0]
    orders = {tuple(clean.order(rated(1, 1, 0.5, 1), "easiest", seed)) for seed in range(40)}
    assert {order[0] for order in orders} == {2}
    assert len(orders) == 6  # every order of the three others


def test_a_random_order_is_of_the_seed_and_complete() -> None:
    one, same, other = (clean.order(rated(*[1] * 20), "random", seed) for seed in (1, 1, 2))
    assert one == same != other
    assert sorted(one) == list(range(20))


def test_proportional_draws_follow_their_difficulties_without_replacement() -> None:
    """P(first a, then b) = w_a / S · w_b / (S - w_a), here with S = 10; χ² with 11 degrees of freedom."""
    weights = (1.0, 2.0, 3.0, 4.0)
    draws = 4000
    seen = Counter(tuple(clean.order(rated(*weights), "proportional", seed)[:2]) for seed in range(draws))
    expected = {
        (a, b): draws * weights[a] / 10 * weights[b] / (10 - weights[a]) for a in range(4) for b in range(4) if a != b
    }
    assert sum(expected.values()) == pytest.approx(draws)
    statistic = sum((seen[pair] - count) ** 2 / count for pair, count in expected.items())
    assert statistic < 31.26  # exceeded once in a thousand


def test_rows_that_cannot_train_are_counted_by_reason() -> None:
    items = [
        Item("1 + 1 = ?", "2", 3.0),
        Item("1+1=?", "2", 3.0),
        Item("", "2", 3.0),
        Item("no answer", "", 3.0),
        Item("In the test?", "2", 3.0),
        Item("unrated", "2", None),
        Item("minus one", "2", -1.0),
        Item("not a number", "2", float("nan")),
        Item("fine", "2", 0.5),
    ]
    dropped = Dropped()
    held_out = {"math500": {clean.fingerprint("in the TEST")}, "aime24": {clean.fingerprint("else")}}
    kept = clean.usable(items, held_out, True, dropped)
    assert [item.question for item in kept] == ["1 + 1 = ?", "fine"]
    assert dropped.counts == {
        "duplicate question": 1,
        "no question or no answer": 2,
        "in evaluation set math500": 1,
        "no difficulty above 0": 3,
    }


def test_difficulties_are_not_asked_of_a_set_that_has_none() -> None:
    assert len(clean.usable([Item("a", "1"), Item("b", "2")], {}, False, Dropped())) == 2


def answered(*answers: str) -> list[Item]:
    return [Item(f"q{i}", answer) for i, answer in enumerate(answers)]


def can_read(answers: list[str]) -> list[bool]:
    return [answer != "?" for answer in answers]


def test_true_false_answers_stay_below_their_share_of_what_is_drawn() -> None:
    items = answered("True", "No", "Yes", "1", "2", "3", "False", "4", "5")
    dropped = Dropped()
    taken = clean.take(items, range(9), 5, 0.2, can_read, dropped)  # one in five
    assert [item.answer for item in taken] == ["True", "1", "2", "3", "4"]
    assert dropped.counts == {"true/false answer beyond the share": 3, "not drawn": 1}


def test_a_share_that_is_no_exact_float_allows_what_it_says() -> None:
    items = answered(*["True"] * 100, *map(str, range(100)))
    taken = clean.take(items, range(200), 100, 0.29, can_read, Dropped())
    assert sum(clean.is_true_false(item.answer) for item in taken) == 29


def test_an_answer_that_cannot_be_read_is_replaced_by_the_next() -> None:
    dropped = Dropped()
    taken = clean.take(answered("1", "?", "?", "2", "3", "4"), [5, 1, 0, 2, 3, 4], 3, 1.0, can_read, dropped)
    assert [item.answer for item in taken] == ["4", "1", "2"]
    assert dropped.counts == {"answer cannot be read": 2, "not drawn": 1}


def test_no_size_takes_all() -> None:
    assert len(clean.take(answered("1", "2", "3"), range(3), 0, 1.0, can_read, Dropped())) == 3
