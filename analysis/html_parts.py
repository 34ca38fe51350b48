"""The report's words as HTML: question, verdict tables, claims, a card per arm, what is missing, how it was judged.

All text from specs, labels and errors goes through `esc`. Leaves out: curves (`html_curves.py`), runs and where they
come from (`html_runs.py`).
"""

import html
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from analysis import claims, report, style, text
from analysis import verdict as judging

# where an arm's contrasts go on its card, and under which words
CARD: dict[str, tuple[str, ...]] = {"helps": ("trick",), "hurts": ("trap",), "makes no difference": ("neutral",)}
CARD |= {"undecided": ("inconclusive", "description only")}
FOOTNOTE = (
    "Difference: arm - baseline, mean over n seeds, paired; in brackets its 95 % t interval over seeds, not corrected. "
    "p Holm: of the same paired t test, after Holm's correction over the rows of its table; the word follows it. "
    "In the picture the bar is the interval, the line 0, and the shaded strip the margin within which a difference "
    'does not matter. <a href="#method">How it was judged.</a>'
)
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
    return esc(", ".join(style.words(level) for level in levels.values())) or "everywhere"


# -- sections ------------------------------------------------------------------------------------------------------


def header(judged: report.Judged) -> str:
    sweep = judged.sweep
    lines = [f"<h1>{esc(sweep.manifest['question'])}</h1>"]
    lines += [f'<p class="source">Source: {linked(sweep.manifest["source"] or "not stated")}</p>']
    lines += [f"<p>Sweep <b>{esc(sweep.name)}</b>, scale {esc(sweep.manifest['scale'])}: {esc(sweep.progress())}."]
    lines += ['<a href="#missing">What is missing.</a></p>' if sweep.missing else "</p>"]
    lines += [f'<p class="remark">{esc(sentence)}</p>' for sentence in report.remarks(judged)]
    return "\n".join([*lines, _tally(judged)])


def _tally(judged: report.Judged) -> str:
    """How often each word fell on the spec's endpoint, and each claim's."""
    end = judged.sweep.manifest["endpoint"]
    main = [c for c in judged.contrasts if c.read == "last" and c.metric == end["metric"]]
    counts = Counter(c.word for c in main)
    words = [f"<li><b>{counts[word]}</b> {verdict_badge(word)}</li>" for word in style.WORDS if counts[word]]
    if not words:
        return ""
    said = [f"<li>{esc(claim.id)} {claim_badge(claim.word)}</li>" for claim in judged.claims]
    of = f"{len(main)} comparison{'s' if len(main) != 1 else ''} of an arm with its baseline"
    parts = [f"<p>{of}, on {esc(end['metric'])}:</p><ul>{''.join(words)}</ul>"]
    parts += [f"<p>The paper's claims:</p><ul>{''.join(said)}</ul>"] if said else []
    return f'<div class="tally">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def sections(judged: report.Judged) -> list[Section]:
    sweep = judged.sweep
    method = "".join(f"<li>{esc(sentence)}</li>" for sentence in report.method(sweep))
    return [
        Section("verdict", "Verdict", _verdicts(judged)),
        Section("claims", "The paper's claims", "".join(map(_claim, judged.claims))),
        Section("arms", "Arm by arm", _cards(judged)),
        Section("method", "How it was judged", f"<ul>{method}</ul>" if method else ""),
    ]


def _verdicts(judged: report.Judged) -> str:
    end, found = judged.sweep.manifest["endpoint"], []
    parts = [("last", end["metric"], f"mean of the last {end['last']} evaluations")]
    parts += [("area", metric, "whole curve") for metric in dict.fromkeys((end["metric"], judging.ENTROPY))]
    for axis in judged.sweep.baseline:
        for read, metric, how in parts:
            rows = judged.table(axis, read, metric)
            if any(c.effect for c in rows):
                margin = end["margin"] if metric == end["metric"] else judging.ENTROPY_MARGIN
                found.append(_verdict_table(report.title_of(judged.sweep, metric, axis, how), rows, margin))
    return "".join(found) + (f'<p class="note">{FOOTNOTE}</p>' if found else "")


def _verdict_table(title: str, rows: list[judging.Contrast], margin: float) -> str:
    reach = max([margin, *(abs(x) for c in rows for x in _bounds(c)), 1e-12])
    factor, digits, unit = text.scale(rows[0].metric)
    scale = f"{text.number(-factor * reach, digits)} … +{text.number(factor * reach, digits)} {unit}"
    head = ["arm", "verdict", "difference [95 %]", esc(scale), "baseline → arm", "n", "p Holm"]
    body: list[list[str]] = []
    for levels, group in groupby(rows, lambda c: c.stratum):
        body += [[stratum(levels)]] if levels else []
        for c in group:
            _, means, interval, pairs, p, _ = report.cells(c)
            more = f" <small>{esc(_after_word(c))}</small>" if _after_word(c) else ""
            arm = esc(c.arm).replace("_", "_<wbr>")  # where a long name may break on a phone
            said = [f"<b>{arm}</b>", verdict_badge(c.word) + more, esc(interval)]
            body.append([*said, _forest(c, reach, margin), esc(means), pairs, esc(p)])
    return table(esc(title), head, "lliiirr", body, "verdicts")


def _after_word(c: judging.Contrast) -> str:
    """What the verdict's cell says beside the word: seeds that would settle it, or that it is within the margin."""
    return report.cells(c)[5].removeprefix(f"{style.WORDS[c.word][2]} {c.word}").removeprefix(", ")


def _bounds(c: judging.Contrast) -> list[float]:
    """What its interval has to show: both bounds, or the difference alone under three pairs."""
    if c.effect is None:
        return []
    known = [c.effect.low, c.effect.high] if c.effect.n >= judging.MIN_PAIRS else []
    return [x for x in (c.effect.mean, *known) if math.isfinite(x)]


def _forest(c: judging.Contrast, reach: float, margin: float) -> str:
    """The interval as a bar around its dot, on the scale of its table; shaded: ± margin; the numbers stand beside."""
    if c.effect is None:
        return ""

    def x(value: float) -> str:
        return f"{60 + 57 * value / reach:.1f}"

    bounds = _bounds(c)
    low, high, wide = min(bounds), max(bounds), 114 * margin / reach
    return (
        f'<svg class="forest {slug(c.word)}" viewBox="0 0 120 18" width="120" height="18" aria-hidden="true">'
        f'<rect class="margin" x="{x(-margin)}" y="0" width="{wide:.1f}" height="18"/>'
        f'<path class="zero" d="M60 0V18"/><path class="bar" d="M{x(low)} 9H{x(high)}"/>'
        f'<circle cx="{x(c.effect.mean)}" cy="9" r="3.5"/></svg>'
    )


def claim_badge(word: str) -> str:
    return badge(word, report.CLAIM_GLYPHS.get(word, "·"), CLAIM_WORDS.get(word, "inconclusive"))


def _claim(claim: claims.Claim) -> str:
    lines = [f"<h3>{esc(claim.id)} {claim_badge(claim.word)} <small>{esc(claim.why)}</small></h3>"]
    lines.append(f"<p>{esc(claim.text)} <cite>{linked(claim.source)}</cite></p>")
    rows: list[list[str]] = []
    for test, findings in groupby(claim.findings, report.tested):
        rows.append([esc(test)])
        for f in findings:
            measured, word = report.found(f).rsplit(", ", 1)
            bare, _, more = word.partition(" (")
            said = claim_badge(bare) + (f" <small>({esc(more)}</small>" if more else "")
            rows.append([esc(report.where(f) or "all"), said, esc(measured)])
    if rows:
        lines.append(table(f"Findings on {esc(claim.id)}", ["where", "finding", "difference [95 %]"], "lli", rows))
    if claim.findings:
        lines += [f"<p>Not tested here: {esc(need)}</p>" for need in claim.untested]
    lines += [f'<p class="note">{esc(claim.note)}</p>'] if claim.note else []
    return f'<article class="claim">{"".join(lines)}</article>'


def _cards(judged: report.Judged) -> str:
    end, found = judged.sweep.manifest["endpoint"], []
    for axis, baseline in judged.sweep.baseline.items():
        main = judged.table(axis, "last", end["metric"])
        key = judged.sweep.manifest["keys"].get(axis, axis)
        for arm in judged.sweep.axes[axis]:
            mine = [c for c in main if c.arm == arm]
            if not mine:
                continue
            lines = [f"<h3>{esc(axis)} {esc(arm)} <small>against {esc(baseline)}</small></h3>"]
            lines += [f'<p class="key">sets {esc(key)}</p>'] if key != axis else []
            for verb, words in CARD.items():
                lines.append(_card_part(verb, [c for c in mine if c.word in words]))
            found.append(f'<article class="card">{"".join([*lines, _entropy_line(judged, axis, arm)])}</article>')
    said = f"On {esc(end['metric'])}, mean of the last {end['last']} evaluations; differences with 95 % intervals."
    return f'<p>{said}</p><div class="cards">{"".join(found)}</div>' if found else ""


def _card_part(verb: str, contrasts: list[judging.Contrast]) -> str:
    if not contrasts:
        return f'<p class="none">{verb.capitalize()}: nowhere shown</p>' if verb in ("helps", "hurts") else ""
    items = []
    for c in contrasts:
        _, _, interval, pairs, _, _ = report.cells(c)
        small = ", ".join(part for part in (f"n = {pairs}", _after_word(c)) if part)
        items.append(
            f'<li><span class="word {slug(c.word)}"><span aria-hidden="true">{style.WORDS[c.word][2]}</span></span> '
            f"{stratum(c.stratum)} <small>{esc(small)}</small><br>"
            f'<span class="i">{esc(interval)} {esc(text.scale(c.metric)[2])}</span></li>'
        )
    return f"<p><b>{verb.capitalize()}</b></p><ul>{''.join(items)}</ul>"


def _entropy_line(judged: report.Judged, axis: str, arm: str) -> str:
    """Where the arm moves entropy, when something else was the endpoint."""
    if judged.sweep.manifest["endpoint"]["metric"] == judging.ENTROPY:
        return ""
    contrasts = [c for c in judged.table(axis, "area", judging.ENTROPY) if c.arm == arm]
    moved = {word: [stratum(c.stratum) for c in contrasts if c.word == word] for word in ("higher", "lower")}
    said = "<br>".join(f"{verdict_badge(word)}: {'; '.join(where)}" for word, where in moved.items() if where)
    return f"<p><b>Entropy</b> <small>whole curve</small><br>{said or 'no difference shown'}</p>"
