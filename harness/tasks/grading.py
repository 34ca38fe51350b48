"""Grades a free-text mathematical response: text and reference answer -> right, wrong or unparsable.

The answer of a response is its last \\boxed{...}, else what follows its last `####`, else its last number. Equal
numbers are compared exactly; anything else goes to math-verify. Leaves out: a hard limit on hostile expressions
(math-verify's own time-outs apply).
"""

import re
from decimal import Decimal, InvalidOperation

from harness.tasks import Outcome

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?|-?\.\d+")


def grade(text: str, answer: str) -> Outcome:
    """Raises nothing: a response that cannot be read is unparsable, which trains as wrong and is counted apart."""
    found = extract(text)
    if found is None:
        return "unparsable"
    ours, theirs = _number(found), _number(answer)
    if ours is not None and theirs is not None:
        return "right" if ours == theirs else "wrong"
    if found.strip() == answer.strip():
        return "right"
    return _verify(found, answer)


def extract(text: str) -> str | None:
    """The response's answer as text, None when there is none."""
    boxed = _last_boxed(text)
    if boxed is not None:
        return boxed
    if "####" in text:
        tail = text.rsplit("####", 1)[1].strip().splitlines()
        if tail and tail[0].strip():
            return tail[0].strip()
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers else None


def _last_boxed(text: str) -> str | None:
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


def _number(text: str) -> Decimal | None:
    plain = text.strip().strip("$").replace(",", "").rstrip(".")
    try:
        value = Decimal(plain)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def _verify(found: str, answer: str) -> Outcome:
    from math_verify import parse, verify

    gold, given = parse(f"${answer}$"), parse(f"${found}$")
    if not given:
        return "unparsable"
    return "right" if gold and verify(gold, given) else "wrong"
