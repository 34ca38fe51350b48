"""The HTML report's search: each arm's chosen setting, its best trials, and which axis mattered.

Tables and sentences are those of `search_text.py`. Leaves out: the picture, which stands among the figures.
"""

from itertools import groupby

from analysis import report, search_text
from analysis.html_parts import esc, table


def body(judged: report.Judged) -> str:
    """Empty without a search."""
    if not judged.search:
        return ""
    found = []
    for place, made in enumerate(search_text.tables(judged.sweep, judged.search)):
        first = 0 if place == 0 else 1  # many rows of one arm stand under a heading instead
        rows: list[list[str]] = []
        for arm, group in groupby(made.rows, lambda row: row[0]):
            rows += [[esc(arm)]] if first else []
            rows += [[esc(cell) for cell in row[first:]] for row in group]
        head = [esc(cell) for cell in made.header[first:]]
        found.append(table(esc(made.title), head, made.kinds[first:], rows))
    said = [*search_text.notes(judged.search), *search_text.method(judged.sweep)[1:]]
    return "".join(found) + "".join(f'<p class="note">{esc(sentence)}</p>' for sentence in said)
