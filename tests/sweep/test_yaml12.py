"""YAML 1.2's core schema and the place of every fault."""

import pytest

from harness.sweep.yaml12 import Mark, SpecError, parse, scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("true", True),
        ("FALSE", False),
        ("1e-4", 1e-4),
        ("1.5E3", 1500.0),
        (".5", 0.5),
        ("3.", 3.0),
        ("17", 17),
        ("-3", -3),
        ("+3", 3),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2025-08-12", "2025-08-12"),
        ("~", None),
        ("null", None),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("!!float 1", 1.0),
        ("[a, 1, off]", ["a", 1, "off"]),
        ("{a: 1e3}", {"a": 1000.0}),
    ],
)
def test_scalars_of_the_core_schema(text: str, value: object) -> None:
    read = scalar(text)
    assert read == value
    assert type(read) is type(value)


def test_keys_stay_as_written() -> None:
    assert parse("0.20: a\noff: b\n").value == {"0.20": "a", "off": "b"}


def test_marks_count_from_one() -> None:
    document = parse("a: 1\nb:\n  c: [x, y]\n")
    assert document.keys[("b", "c")] == Mark(3, 3)
    assert document.values[("b", "c", 1)] == Mark(3, 10)
    assert document.mark("b", "missing") == Mark(2, 1)


def test_every_fault_is_reported_with_its_line_and_a_caret() -> None:
    with pytest.raises(SpecError) as caught:
        parse("a: 1\nb: {c: .nan}\na: 2\n", "f.yaml")
    assert str(caught.value) == (
        "f.yaml:2:8: .nan: a number must be finite\n"
        "    b: {c: .nan}\n"
        "           ^\n"
        "f.yaml:3:1: duplicate key 'a' (first in line 1)\n"
        "    a: 2\n"
        "    ^"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: .inf", "must be finite"),
        ("a: 1e999", "must be finite"),
        ("a: !!python/object:os.system x", "cannot read"),
        ("a: !env HOME", "cannot read"),
        ("a: &x [*x]", "contains itself"),
        ("a: {<<: {b: 1}}", "merge keys"),
        ("? [a]\n: 1", "plain word"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse(text)


@pytest.mark.parametrize(
    ("text", "place", "cure"),
    [
        ("a: [1, 2\nb: 3\n", ":2:2:", "[ is not closed"),
        ("a: b: c\n", ":1:5:", "quote a value"),
        ("a:\n\tb: 1\n", ":2:1:", "spaces, not tabs"),
        ("a: 'x\n", ":2:1:", "a quote is not closed"),
        ("a:1\nb: 2\n", ":2:2:", ""),
    ],
)
def test_syntax_errors_have_a_place_and_a_cure(text: str, place: str, cure: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text, "f.yaml")
    assert "not valid YAML" in str(caught.value)
    assert cure in str(caught.value)
    assert place in str(caught.value)


def test_aliases_cannot_expand_without_end() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 6)]
    with pytest.raises(SpecError, match="far too many"):
        parse("\n".join(lines))
