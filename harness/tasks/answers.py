"""The answer of a response as text, and what can be told of two answers without algebra.

A response's answer is its last \\boxed{...}, else what follows its last `####`, else its last number. Two answers are
equal as text once spacing, delimiters and text commands are gone, or as exact numbers. Units are not compared, by the
convention of the field's graders. Leaves out: algebra, sets, intervals and matrices (`judge.py`).
"""

import re
from fractions import Fraction
from typing import NamedTuple

from harness.tasks import Outcome

LONGEST = 2000  # characters of an answer that are worth reading

_LAST_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?|-?\.\d+")
_SPACING = re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|(?<!\\)\\[!,;: ]|\\q?quad(?![A-Za-z])|~")
_DEGREES = re.compile(r"\^\{?\\circ\}?|\\degree(?![A-Za-z])|°")
_WRAPPED = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_UNIT = re.compile(r"\\(?:text|textrm|mathrm|mbox)\s*\{([A-Za-z./ ~²³-]*)\}(?:\^\{?-?\d\}?)?$")
_NO_UNIT = re.compile(r"\b(?:or|and|hundred|thousand|million|billion|trillion|dozen)\b", re.I)
_WORDS = re.compile(r"[A-Za-z][A-Za-z'’ -]*")
_SHORT_WORDS = {"yes", "no", "odd", "even", "none", "true", "false"}  # shorter than what else is taken for a word

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d*)?|\.\d+)"
_POWER = r"(?:[eE]([+-]?\d{1,3})|(?:\\times|\\cdot|\*|×)10\^(?:\{([+-]?\d{1,3})\}|(\d)))"
_NUMBER = re.compile(rf"([+-]?)({_DECIMAL})(?:{_POWER})?")
_FRACTION = re.compile(
    rf"([+-]?)(\d*)(?:\\frac(?:\{{([+-]?{_DIGITS})\}}\{{({_DIGITS})\}}|(\d)(\d)))|([+-]?)({_DIGITS})/({_DIGITS})"
)


class Number(NamedTuple):
    value: Fraction
    percent: bool
    decimal: bool  # written as digits, not as a fraction


def extract(text: str) -> str | None:
    """The response's answer as text, None when there is none."""
    boxed = last_boxed(text)
    if boxed is not None:
        return boxed
    if "####" in text:
        tail = text.rsplit("####", 1)[1].strip().splitlines()
        if tail and tail[0].strip():
            return tail[0].strip()
    numbers = _LAST_NUMBER.findall(text)
    return numbers[-1] if numbers else None


def last_boxed(text: str) -> str | None:
    """The content of the last \\boxed{...} with balanced braces."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    for position in range(start + len("\\boxed"), len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[start + len("\\boxed{") : position]
    return None


def compare(given: str, gold: str) -> Outcome | None:
    """Right or wrong where text, words or exact numbers decide; None where it takes algebra."""
    ours, theirs = _canonical(given), _canonical(gold)
    if ours == theirs:
        return "right" if theirs else "wrong"
    if is_words(gold):
        return "right" if ours.casefold() == theirs.casefold() else "wrong"
    a, b = number(given), number(gold)
    if a and b and _same(a, b):
        return "right"
    if a and b and a.decimal == b.decimal:
        return "wrong"  # a decimal beside a fraction may be its rounding
    return "wrong" if {_bracket(ours), _bracket(theirs)} == {"set", "tuple"} else None


def readable(gold: str) -> bool:
    """Whether `compare` can judge against this reference answer without algebra."""
    return is_words(gold) or number(gold) is not None


def is_words(answer: str) -> bool:
    """Whether an answer is a word or a phrase. As letters of a product `even` would equal `neve`.

    Letters alone are words inside of \\text{...}, with four or more in a row, or where they are a known short word.
    """
    bare = _undelimited(answer)
    plain = _WRAPPED.sub(r"\1", bare).strip()
    if not _WORDS.fullmatch(plain):
        return False
    wrapped = bool(_WRAPPED.fullmatch(bare)) and len(plain) > 1
    return wrapped or plain.casefold() in _SHORT_WORDS or any(len(word) > 3 for word in plain.split())


def number(answer: str) -> Number | None:
    """The exact value of a decimal, a power of ten times one, or a fraction; percent and unit are read apart.

    Commas only group thousands: `3,4` is no number. None for anything else and for more than 200 characters.
    """
    text = _undelimited(answer)
    unit = _UNIT.search(text)
    if unit and not _NO_UNIT.search(unit.group(1)):
        text = text[: unit.start()]
    text = _canonical(text)
    percent = text.endswith("%")
    value, decimal = _value(text.removesuffix("%")) if len(text) <= 200 else (None, False)
    return None if value is None else Number(value, percent, decimal)


def _value(text: str) -> tuple[Fraction | None, bool]:
    if found := _NUMBER.fullmatch(text):
        sign, digits, *powers = found.groups()
        value = Fraction(digits.replace(",", "").rstrip(".")) * Fraction(10) ** int(next(filter(None, powers), 0))
        return (-value if sign == "-" else value), True
    if found := _FRACTION.fullmatch(text):
        sign, whole, *parts, other, a, b = found.groups()
        top, bottom = (int(part.replace(",", "")) for part in (*filter(None, parts), *filter(None, (a, b))))
        if bottom:
            value = Fraction(whole or 0) + Fraction(top, bottom)
            return (-value if "-" in (sign, other) else value), False
    return None, False


def _same(a: Number, b: Number) -> bool:
    if a.percent == b.percent:
        return a.value == b.value
    percent, plain = (a, b) if a.percent else (b, a)
    return plain.value in (percent.value, percent.value / 100)  # 50 % is asked for as 50 and as 0.5


def _bracket(text: str) -> str:
    if text.startswith("\\{") and text.endswith("\\}"):
        return "set"
    return "tuple" if text[:1] in "([" and text[-1:] in ")]" and text else ""


def _undelimited(text: str) -> str:
    text = text.strip().rstrip(".").strip()
    for start, end in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")):
        if len(text) > len(start) + len(end) and text.startswith(start) and text.endswith(end):
            text = text[len(start) : -len(end)].strip()
    return text


def _canonical(text: str) -> str:
    """One spelling of what is the same to a reader: no spacing, delimiters, text commands, degrees or dollars."""
    text = _WRAPPED.sub(r"\1", _DEGREES.sub("", _SPACING.sub("", _undelimited(text))))
    for old, new in (("\\$", ""), ("$", ""), ("\\%", "%"), ("{,}", ","), ("\\dfrac", "\\frac"), ("\\tfrac", "\\frac")):
        text = text.replace(old, new)
    return re.sub(r"\s+", "", text).replace("−", "-").rstrip(".")
