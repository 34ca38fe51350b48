"""Which outcomes of a sweep a caller asked to fail on: `verdict --fail-on contradicted,trap`.

A claim's word is looked for among the claims, an arm's word among its contrasts on the spec's endpoint: entropy and
whole curves are beside the verdict and fail nothing. Leaves out: what the words mean (`verdict.py`, `claims.py`).
"""

from collections.abc import Collection

from analysis import claims, report
from analysis import verdict as judging

OF_CLAIMS = ("supported", "supported in part", "contradicted", "no difference", "undecided", "not testable here")
OF_ARMS = ("trick", "trap", "neutral", "inconclusive", "description only", "pruned")
WORDS = (*OF_CLAIMS, *OF_ARMS)
SHOWN = 4  # names of each kind before "and n more"


def spoken(word: str) -> str:
    """As the words are written: a shell's no_difference and No-Difference are "no difference"."""
    return " ".join(word.lower().replace("_", " ").replace("-", " ").split())


def matched(judged: report.Judged, words: Collection[str]) -> str:
    """One line naming the claims and arms with one of `words`, in the order of the words; empty where there is none."""
    found = [_named(word, _claims(judged.claims, word) + _arms(judged, word)) for word in words]
    return "; ".join(part for part in found if part)


def _claims(known: list[claims.Claim], word: str) -> list[str]:
    return [claim.id for claim in known if claim.word == word]


def _arms(judged: report.Judged, word: str) -> list[str]:
    return [_arm(c) for c in judged.headline() if c.word == word]


def _arm(c: judging.Contrast) -> str:
    where = report.heading(c)
    return f"{c.axis} {c.arm}{f' ({where})' if where else ''}"


def _named(word: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{word}: {', '.join(names[:SHOWN])}{more}"
