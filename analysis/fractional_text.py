"""The effects of a fractional factorial sweep, or of a sample, as tables: the terminal's and the Markdown report's.

All main effects stand in one table and all interactions in another, each with what it is confounded with. Cells are
those of `report.py`. Leaves out: numbers (`fractional_verdict.py`), the HTML report (`html_verdict.py`).
"""

from collections.abc import Sequence
from itertools import groupby

from analysis import report, text
from analysis.verdict import Contrast

HEADER = ["effect", "without → with", *report.HEADER[2:]]
INTERACTIONS = ["interaction", "unlike → like", *report.HEADER[2:]]  # levels of the two arms
NAME = 24  # columns that a name has beside the widest cells; what is confounded goes below where it would be cut


def lines(judged: report.Judged) -> list[str]:
    """For the terminal: both tables on the spec's endpoint."""
    found: list[str] = []
    for title, header, contrasts in tables(judged, headline=True):
        rows: list[list[str]] = [header]
        for place, group in groupby(contrasts, report.heading):
            rows += [[place]] if place else []
            for c in group:
                rows += _rows(c)
        found += [title, *text.aligned(rows, right="l  rr", indent=4), ""]
    return found


def markdown(judged: report.Judged) -> list[str]:
    """A section for each reading; a column for each axis that some effect's place names."""
    found: list[str] = []
    for title, header, contrasts in tables(judged):
        names = list(dict.fromkeys(name for c in contrasts for name in c.stratum))
        body = [[*(c.stratum.get(name, "-") for name in names), label(c), *report.cells(c)[1:]] for c in contrasts]
        found += [f"## {title[0].upper()}{title[1:]}", "", *text.markdown_table([*names, *header], body), ""]
    return found


def tables(judged: report.Judged, headline: bool = False) -> list[tuple[str, list[str], list[Contrast]]]:
    """(title, header, rows), a place's rows together: main effects, then interactions, of each reading or the first."""
    found = []
    for read, metric, how in report.readings(judged)[: 1 if headline else None]:
        for kind, header, every in (
            ("main effects", HEADER, judged.contrasts),
            ("two-factor interactions", INTERACTIONS, judged.interactions),
        ):
            rows = [c for c in every if (c.read, c.metric) == (read, metric)]
            if any(c.effect for c in rows):
                places = list(dict.fromkeys(report.heading(c) for c in rows))
                rows.sort(key=lambda c: places.index(report.heading(c)))
                found.append((f"{kind} on {metric} in {text.scale(metric)[2]}, {how}", header, rows))
    return found


def label(c: Contrast) -> str:
    """Such as "eps_high 0.28 (+ keep:weight)"; an interaction is named by its arms."""
    return report.named(c) if c.arm == c.axis else f"{c.axis} {report.named(c)}"


def _rows(c: Contrast) -> list[list[str]]:
    """One row; below it what is confounded, where both are too long for a line."""
    name, rest = label(c), report.cells(c)[1:]
    if len(name) <= NAME or not c.confounded:
        return [[name, *rest]]
    parts: Sequence[str] = c.confounded.strip("()").replace(" + ", "\n+ ").replace(" - ", "\n- ").split("\n")
    return [[name.removesuffix(f" {c.confounded}"), *rest], *([f"    {part}"] for part in parts)]
