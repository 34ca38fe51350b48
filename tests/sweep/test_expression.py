"""Conditions evaluate as read, and nothing but conditions is accepted."""

import pytest

from harness.sweep.expression import ExpressionError, compile_expression

NAMES = {"model": "small", "train.lr": 1e-3, "keep": None, "on": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("model == 'small'", True),
        ("model != 'small'", False),
        ("model in ['large', 'small']", True),
        ("model not in ['large', 'small']", False),
        ("1e-4 < train.lr <= 1e-3", True),
        ("train.lr < 1e-3 or model == 'small'", True),
        ("train.lr < 1e-3 and model == 'small'", False),
        ("not (train.lr < 1e-3)", True),
        ("train.lr > -1", True),
        ("on == true", True),
        ("keep == null", True),
        ("on", True),
    ],
)
def test_values(text: str, value: bool) -> None:
    assert compile_expression(text)(NAMES) is value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "model.upper()",
        "(lambda: 1)()",
        "[x for x in model]",
        "model[0]",
        "train.lr + 1 > 2",
        "f'{model}'",
        "'a'.b == 1",
        "(model := 3)",
        "model if on else keep",
        "model is keep",
        "2 ** 99999999 > 1",
        "b'x' == model",
        "1j == 1",
        "... == 1",
        "model = 'small'",
        "",
        "model ==",
        "-'a' == 1",
        "await model",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match="bad expression"):
        compile_expression(text)


def test_names_with_their_columns() -> None:
    assert compile_expression("train.lr < 1 and model == 'x'").names == (("train.lr", 0), ("model", 17))


def test_values_that_cannot_be_compared_are_named() -> None:
    with pytest.raises(ExpressionError, match=r"'model > 3'.*not supported"):
        compile_expression("model > 3")(NAMES)
