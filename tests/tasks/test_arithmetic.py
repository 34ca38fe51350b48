"""Generated chains: right by an independent reading of the prompt, disjoint by split, the same on every machine."""

import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config import ArithmeticData
from harness.tasks import arithmetic


def data(**changes: object) -> ArithmeticData:
    return ArithmeticData.model_validate({"min_ops": 4, "max_ops": 6, "size": 300} | changes)


def read(prompt: str) -> tuple[int, list[int]]:
    shape = re.fullmatch(r"Q (\d+)((?: [a-j][+-]\d)+) = \? A", prompt)
    assert shape, prompt
    slots = shape.group(2).split()
    assert [slot[0] for slot in slots] == list("abcdefghij"[: len(slots)])
    return int(shape.group(1)), [int(slot[1:]) for slot in slots]


@given(st.integers(1, 10), st.integers(0, 9), st.integers(1, 5), st.integers(0, 4), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_every_chain_stays_in_range_and_its_answer_is_right(
    low: int, more: int, low_operand: int, more_operand: int, seed: int
) -> None:
    high, high_operand = min(10, low + more), min(5, low_operand + more_operand)
    asked = data(min_ops=low, max_ops=high, min_operand=low_operand, max_operand=high_operand, size=8, seed=seed)
    for problem in arithmetic.problems(asked):
        value, operations = read(problem.prompt)
        assert low <= len(operations) <= high
        for k in operations:
            assert low_operand <= abs(k) <= high_operand
            value += k
            assert 0 <= value <= 19
        assert problem.answer == str(value)


def test_ids_count_up_and_prompts_differ() -> None:
    found = arithmetic.problems(data())
    assert [problem.id for problem in found] == list(range(300))
    assert len({problem.prompt for problem in found}) == 300


def test_the_same_fields_give_the_same_problems_on_every_machine() -> None:
    first = arithmetic.problems(data())[0]
    assert (first.prompt, first.answer) == ("Q 17 a-2 b+2 c+2 d-1 e+1 = ? A", "19")
    assert arithmetic.problems(data()) == arithmetic.problems(data())
    assert arithmetic.problems(data(seed=1)) != arithmetic.problems(data())


def test_splits_are_disjoint_whatever_the_seed() -> None:
    training = {p.prompt for p in arithmetic.problems(data(min_ops=1, max_ops=2, size=1500))}
    held_out = {p.prompt for p in arithmetic.problems(data(min_ops=1, max_ops=2, split="heldout", size=120, seed=5))}
    assert not training & held_out
    share = sum(arithmetic.held_out(p) for p in training | held_out) / len(training | held_out)
    assert 0.05 < share < 0.15


@pytest.mark.parametrize(
    ("text", "answer", "outcome"),
    [
        ("a 18 , b 15 . answer 15", "15", "right"),
        ("first a +1 is 18 , so the answer 18", "17", "wrong"),
        ("answer 17", "17", "right"),
        ("answer 7 ", "7", "right"),
        ("answer 07", "7", "right"),
        ("answer -3", "3", "wrong"),
        ("answer 17 , then", "17", "unparsable"),
        ("the answer", "17", "unparsable"),
        ("reanswer 17", "17", "unparsable"),
        ("answer 3 answer 4", "4", "right"),
        ("17", "17", "unparsable"),
        ("", "17", "unparsable"),
    ],
)
def test_grade(text: str, answer: str, outcome: str) -> None:
    assert arithmetic.grade(text, answer) == outcome


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_ops": 5, "max_ops": 4}, "data.max_ops: takes min_ops = 5 to 10"),
        ({"max_ops": 11}, "data.max_ops: takes min_ops = 4 to 10"),
        ({"max_operand": 6}, "data.max_operand: takes min_operand = 1 to 5"),
        ({"min_operand": 4, "max_operand": 3}, "data.max_operand: takes min_operand = 4 to 5"),
        ({"min_ops": 1, "max_ops": 1, "size": 200}, "data.size: only 149 different train problems found"),
    ],
)
def test_a_bound_that_cannot_hold_is_named(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arithmetic.problems(data(**changes))


def test_problems_need_no_torch() -> None:
    code = "import sys, harness.tasks.arithmetic; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
