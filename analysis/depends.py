"""A sentence per arm axis: on what its effect depends, by the interactions of the analysis of variance.

Leaves out: the analysis itself (`factors.py`).
"""

import math
from collections.abc import Callable

from analysis import factors, report
from analysis.verdict import ALPHA

STILL = "nothing varies over seeds"


def sentence(found: factors.Factorial) -> str:
    """Such as "Depends on model (F(3, 9) = 8.21, p = 0.006, ω² = 0.31). Factorial part: …"."""
    return " ".join([*_said(found, _tested), found.says])


def short(found: factors.Factorial) -> str:
    """Such as "Depends on model (p = 0.006).", empty where nothing is crossed with the arms."""
    return " ".join(_said(found, lambda term: _p(term.p)))


def _said(found: factors.Factorial, numbers: Callable[[factors.Term], str]) -> list[str]:
    terms = [term for term in found.terms if term.factors[0] == found.axis and len(term.factors) > 1]
    parts: dict[bool, list[str]] = {True: [], False: []}
    for term in terms:
        tested = STILL if math.isnan(term.f) else numbers(term)
        parts[term.p < ALPHA].append(f"{' × '.join(term.factors[1:])} ({tested})")
    said = [f"Depends on {'; '.join(parts[True])}."] if parts[True] else []
    return [*said, f"Not shown to depend on {'; '.join(parts[False])}."] if parts[False] else said


def _tested(term: factors.Term) -> str:
    return f"F({term.df}, {term.error_df}) = {term.f:.2f}, {_p(term.p)}, ω² = {term.omega:.2f}"


def _p(p: float) -> str:
    shown = report.p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"
