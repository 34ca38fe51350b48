"""Numbers, tables and sentences as text: what the terminal, the Markdown report and the figures share.

Leaves out: what is said (`report.py`).
"""

import math
import textwrap
from collections.abc import Sequence

from analysis import stats

WIDTH = 100  # columns


def number(value: float, digits: int, sign: bool = False) -> str:
    """Fixed digits; "-" for NaN; no sign on a number that rounds to 0."""
    if math.isnan(value):
        return "-"
    shown = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    return shown.replace("-", " " if sign else "").replace("+", " ") if float(shown) == 0 else shown


def interval(effect: stats.Paired | None, factor: float, digits: int) -> str:
    """Such as "+1.9 [+0.4, +3.4]"; the bounds only of three pairs or more."""
    if effect is None:
        return "-"
    mean, low, high = (number(factor * x, digits, sign=True) for x in (effect.mean, effect.low, effect.high))
    return mean if effect.n < stats.MIN_PAIRS else f"{mean} [{low}, {high}]"


def scale(metric: str) -> tuple[float, int, str]:
    """(factor, digits, unit) in which a metric is shown: shares in points, lengths in tokens, the rest as recorded."""
    if "accuracy" in metric or metric.endswith("_share"):
        return 100.0, 1, "points"
    if metric.startswith("clip/"):  # shares of all tokens, a few in a thousand
        return 100.0, 2, "points"
    if metric.startswith("length/") or metric == "eval/length":
        return 1.0, 1, "tokens"
    return 1.0, 3, "nats" if metric == "policy/entropy" else metric


def plural(count: int, word: str) -> str:
    """1 run, 2 runs."""
    return f"{count} {word}{'s' if count != 1 else ''}"


def seeds(count: int | None) -> str:
    if count is None or count > 99:
        return "over 99 seeds more"
    return f"about {count} seed{'s' if count != 1 else ''} more"


def wrap(sentence: str, lead: str = "", rest: str | None = None) -> list[str]:
    """Lines of at most WIDTH columns; `lead` before the first, `rest` (or as many spaces) before the others."""
    following = " " * len(lead) if rest is None else rest
    return textwrap.wrap(" ".join(sentence.split()), WIDTH, initial_indent=lead, subsequent_indent=following)


def aligned(rows: Sequence[Sequence[str]], right: str = "", indent: int = 2) -> list[str]:
    """Columns of even width; a row of one cell is a heading across them. `right` marks columns with "r".

    The first column gives way where a line would be wider than WIDTH.
    """
    body = [row for row in rows if len(row) > 1]
    widths = [max(len(row[column]) for row in body) for column in range(len(body[0]))]
    spare = WIDTH - indent - sum(widths) - 2 * (len(widths) - 1)
    widths[0] = max(8, min(widths[0], widths[0] + spare))
    lines = []
    for row in rows:
        if len(row) == 1:
            lines.append(" " * (indent - 2) + row[0])
            continue
        cells = [_cut(row[0], widths[0]), *row[1:]]
        placed = [
            cell.rjust(width) if right[column : column + 1] == "r" else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        lines.append(" " * indent + "  ".join(placed).rstrip())
    return lines


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(cell.replace('|', '/').strip() for cell in line)} |" for line in lines]


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1] + "…"
