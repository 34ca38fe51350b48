"""What the sections of the HTML report are made of: escaped text, tables, badges, folds.

All text from specs, labels and errors goes through `esc`. Leaves out: what the sections say (`html_summary.py`,
`html_verdict.py`, `html_cards.py`, `html_stability.py`, `html_figures.py`, `html_runs.py`, `html_curves.py`).
"""

import html
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analysis import report, style

# a claim's word in the colour of an arm's
CLAIM_WORDS = {"supported": "trick", "supported in part": "trick", "contradicted": "trap", "no difference": "neutral"}


class Section(NamedTuple):
    id: str
    title: str
    body: str  # HTML; an empty section is left out


def esc(value: object) -> str:
    return html.escape(str(value), quote=True)


def slug(word: str) -> str:
    return word.replace(" ", "-")


def plain(header: str) -> str:
    """The question, out of the header's markup: the document's title."""
    found = re.search(r"<h1>(.*?)</h1>", header, re.S)
    return html.unescape(found[1]) if found else ""


def framed(section: Section) -> str:
    return f'<section id="{section.id}"><h2>{section.title}</h2>\n{section.body}\n</section>'


def linked(source: str) -> str:
    """Escaped, with arXiv numbers as links."""
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', esc(source))


def table(title: str, header: Sequence[str], kinds: str, rows: Iterable[Sequence[str]], style: str = "") -> str:
    """`header` and `rows` are HTML already; the box scrolls, not the page. A row of one cell is a heading across.

    `kinds`: a letter a column: l for text, i for intervals (digits of even width), r for numbers, to the right.
    """

    def line(cells: Sequence[str], tag: str) -> str:
        if len(cells) == 1:
            return f'<tr><th colspan="{len(header)}" scope="rowgroup"><span>{cells[0]}</span></th></tr>'
        scope = ' scope="col"' if tag == "th" else ""
        filled = (f'<{tag}{scope} class="{kind}">{cell}</{tag}>' for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(filled)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return (
        f'<p class="caption">{title}</p><div class="scroll" tabindex="0" role="region" aria-label="{title}">'
        f'<table class="{style}"><thead>{line(header, "th")}</thead><tbody>{body}</tbody></table></div>'
    )


def badge(word: str, glyph: str, colour: str) -> str:
    """A word with its sign; the colour only repeats them."""
    return f'<span class="word {slug(colour)}"><span aria-hidden="true">{glyph}</span> {esc(word)}</span>'


def verdict_badge(word: str) -> str:
    return badge(word, style.WORDS[word][2], word)


def stratum(levels: dict[str, str]) -> str:
    return esc(style.place(levels)) or "everywhere"


def claim_badge(word: str) -> str:
    return badge(word, report.CLAIM_GLYPHS.get(word, "·"), CLAIM_WORDS.get(word, "inconclusive"))


def sign(word: str) -> str:
    """An arm's word as its sign alone; the word is there for a reader that speaks."""
    return f'<span class="word {slug(word)}" role="img" aria-label="{esc(word)}">{style.WORDS[word][2]}</span>'


def fold(summary: str, body: str, opened: bool, kind: str = "") -> str:
    """What can be opened; printing opens all."""
    return f'<details class="{kind}"{" open" if opened else ""}><summary>{summary}</summary>\n{body}</details>'


def breakable(name: str) -> str:
    """Escaped, and free to break after underscores: where a long name may wrap on a phone."""
    return esc(name).replace("_", "_<wbr>")
