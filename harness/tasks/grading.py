"""Grades a free-text mathematical response: text and reference answer -> right, wrong or unparsable.

Text and exact numbers decide first (`answers.py`), algebra last, in processes of their own with a hard limit for each
answer (`verifier.py`). Leaves out: how an answer is found in a response (`answers.extract`).
"""

from collections import Counter
from collections.abc import Sequence

from harness.tasks import Outcome, answers, verifier

_FAILURES: Counter[str] = Counter()


def grade(text: str, answer: str) -> Outcome:
    """Raises nothing that a response could cause: one that cannot be read, or not in time, is unparsable.

    Unparsable trains as wrong and is counted apart; `failures` counts what was the verifier's fault.
    """
    return grade_all([text], [answer])[0]


def grade_all(texts: Sequence[str], golds: Sequence[str]) -> list[Outcome]:
    """`grade` of every pair, with what needs algebra judged side by side."""
    found = [_at_once(text, gold) for text, gold in zip(texts, golds, strict=True)]
    left = list(dict.fromkeys(pair for pair in found if isinstance(pair, tuple)))
    judged = dict(zip(left, verifier.ask_all(left), strict=True))
    return [_outcome(judged[item]) if isinstance(item, tuple) else item for item in found]


def readable(golds: Sequence[str]) -> list[bool]:
    """Which reference answers can be graded against: words, numbers, or what algebra finds equal to itself."""
    left = [gold for gold in dict.fromkeys(golds) if gold.strip() and not answers.readable(gold)]
    replies = verifier.ask_all([(gold, gold) for gold in left])
    unread = {gold for gold, reply in zip(left, replies, strict=True) if reply.outcome != "right"}
    return [bool(gold.strip()) and gold not in unread for gold in golds]


def failures() -> dict[str, int]:
    """How many responses the verifier failed on in this process, by reason (`time`, an exception's name, …)."""
    return dict(_FAILURES)


def _at_once(text: str, gold: str) -> Outcome | tuple[str, str]:
    """The outcome where no algebra is needed, else (gold, the response's answer)."""
    given = answers.extract(text)
    if given is None or not given.strip():
        return "unparsable"
    if len(given) > answers.LONGEST:
        return "right" if given.strip() == gold.strip() else "unparsable"
    return answers.compare(given, gold) or (gold, given)


def _outcome(reply: verifier.Reply) -> Outcome:
    if reply.outcome == "error":
        _FAILURES[reply.why] += 1
    return {"right": "right", "wrong": "wrong"}.get(reply.outcome, "unparsable")  # type: ignore[return-value]
