"""The HTML report's verdict: a matrix of all arms over all strata, and below it a table per axis and reading.

A cell of the matrix is a sign and a difference; the tables have the intervals, what an arm costs, and the seeds that
would settle it. Leaves out: what an arm does, arm by arm (`html_cards.py`).
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise

from analysis import fractional_text, report, sequential, style, text
from analysis import verdict as judging
from analysis.html_parts import breakable, esc, fold, sign, slug, stratum, table, verdict_badge

FOOTNOTE = (
    "Difference: arm - baseline, mean over n seeds, paired; in brackets its interval, {interval}, not corrected. "
    "p Holm: of the same test, after Holm's correction over the rows of its table; the word follows it. "
    "In the picture the bar is the interval, the line 0, and the shaded strip the margin within which a difference "
    "does not matter. Tokens: generated in the whole run, length: of a response at the end; both relative to the "
    'baseline. <a href="#method">How it was judged.</a>'
)
Stratum = dict[str, str]


def body(judged: report.Judged, depends: dict[str, str]) -> str:
    """`depends`: axis -> on what its effect depends. Empty where no pair of runs has finished."""
    shown = [c for c in judged.headline() if c.effect]
    if not shown:
        return ""
    axes, note = list(judged.sweep.baseline), FOOTNOTE.format(interval=sequential.interval(judged.sweep.manifest))
    tables = {axis: _tables(judged, axis, depends.get(axis, "")) for axis in axes}
    if len(axes) > 1:
        opened = len(axes) <= report.FEW_AXES
        found = [fold(_summary(judged, axis), tables[axis], opened, "axis") for axis in axes if tables[axis]]
    else:
        found = list(tables.values())
    return matrix(judged) + "".join(found) + _interactions(judged) + f'<p class="note">{note}</p>'


# -- the matrix ----------------------------------------------------------------------------------------------------


def matrix(judged: report.Judged) -> str:
    """Rows: arms, under their axis; columns: strata. Empty where it would repeat a short table."""
    main = judged.headline()
    columns = _columns(judged, main)
    if len(columns) < 2 and len(judged.sweep.baseline) < 2:
        return ""
    end = judged.sweep.manifest["endpoint"]
    head = _heads(judged, columns)
    lines = []
    for axis, group in groupby(main, lambda c: c.axis):
        against = f"{esc(axis)} <small>against {esc(judged.sweep.baseline[axis])}</small>"
        lines.append(f'<tr><th colspan="{len(columns) + 1}" scope="rowgroup"><span>{against}</span></th></tr>')
        rows = list(group)
        for arm in [arm for arm in judged.sweep.axes[axis] if any(c.arm == arm for c in rows)]:
            mine = {_key(c.stratum): c for c in rows if c.arm == arm}
            cells = "".join(_cell(mine.get(_key(column))) for column in columns)
            beside = next(c.confounded for c in rows if c.arm == arm)
            lines.append(f'<tr><th scope="row">{breakable(arm)}{_small(beside)}</th>{cells}</tr>')
    unit = text.scale(end["metric"])[2]
    caption = f"{esc(end['metric'])}, difference from the baseline in {esc(unit)}: every arm in every place"
    signs = ", ".join(f"{sign(word)} {word}" for word in style.WORDS if any(c.word == word for c in main))
    return (
        f'<p class="caption">{caption}</p><div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f'<table class="matrix"><thead>{head}</thead><tbody>{"".join(lines)}</tbody></table></div>'
        f'<p class="note">{signs}; empty: not planned. Intervals, seeds and p stand in the tables below, and on each '
        "cell for a pointer that rests on it.</p>"
    )


def _columns(judged: report.Judged, contrasts: Sequence[judging.Contrast]) -> list[Stratum]:
    """The strata of all axes, in the order of the sweep's axes and levels; one that lacks an axis comes first."""
    axes = judged.sweep.axes
    found = {_key(c.stratum): c.stratum for c in contrasts}
    return sorted(found.values(), key=lambda s: [axes[a].index(s[a]) if a in s else -1 for a in axes])


def _key(levels: Stratum) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(levels.items()))


def _heads(judged: report.Judged, columns: list[Stratum]) -> str:
    """A row of headings for each axis that holds no arms, and one for arms that a place has beside them."""
    names = [axis for axis in judged.sweep.varying() if axis not in judged.sweep.baseline]
    paths = [[style.words(column.get(name, "")) for name in names] for column in columns]
    others = [", ".join(f"{a} {style.words(v)}" for a, v in column.items() if a not in names) for column in columns]
    if any(others):
        names, paths = [*names, "with"], [[*path, other] for path, other in zip(paths, others, strict=True)]
    return "".join(_head([path[: depth + 1] for path in paths], name) for depth, name in enumerate(names))


def _head(paths: list[list[str]], name: str) -> str:
    """Equal levels of neighbours are one cell, as far as the rows above join them too."""
    starts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(paths)) if a != b), len(paths)]
    cells = [
        f'<th colspan="{end - start}" scope="col{"group" if end - start > 1 else ""}">{esc(paths[start][-1])}</th>'
        for start, end in pairwise(starts)
    ]
    return f'<tr><th scope="row">{esc(name)}</th>{"".join(cells)}</tr>'


def _cell(c: judging.Contrast | None) -> str:
    if c is None:
        return "<td></td>"
    factor, digits, unit = text.scale(c.metric)
    if c.effect is None:
        return f'<td title="no pair of runs has finished">{sign(c.word)}</td>'
    _, means, interval, pairs, p, word = report.cells(c)
    said = f"{word}: {interval.strip()} {unit}, {means}, n = {pairs}, p Holm {p}"
    shown = text.number(factor * c.effect.mean, digits, sign=True)
    return f'<td class="{slug(c.word)}" title="{esc(said)}">{sign(c.word)}<span class="i">{esc(shown)}</span></td>'


# -- the tables ----------------------------------------------------------------------------------------------------


def _summary(judged: report.Judged, axis: str) -> str:
    """An axis with what fell on it."""
    counts = Counter(c.word for c in judged.headline() if c.axis == axis)
    words = ", ".join(f"{counts[word]} {verdict_badge(word)}" for word in style.WORDS if counts[word])
    return f"<b>{esc(axis)}</b> <small>against {esc(judged.sweep.baseline[axis])}</small> {words}"


def _tables(judged: report.Judged, axis: str, depends: str) -> str:
    end, found = judged.sweep.manifest["endpoint"], []
    for read, metric, how in report.readings(judged):
        rows = judged.table(axis, read, metric)
        if any(c.effect for c in rows):
            margin = end["margin"] if metric == end["metric"] else judging.ENTROPY_MARGIN
            found.append(_table(report.title_of(judged.sweep, metric, axis, how), rows, margin))
    return "".join(found) + (f'<p class="note">{esc(depends)}</p>' if found and depends else "")


def _interactions(judged: report.Judged) -> str:
    """Of a fraction: a table for each reading, folded."""
    end, found = judged.sweep.manifest["endpoint"], []
    for title, header, rows in fractional_text.tables(judged) if judged.interactions else ():
        if header is fractional_text.INTERACTIONS:
            margin = end["margin"] if rows[0].metric == end["metric"] else judging.ENTROPY_MARGIN
            found.append(_table(title, rows, margin, (header[0], header[1])))
    return fold("<b>Two-factor interactions</b>", "".join(found), opened=True, kind="axis") if found else ""


def _small(words: str) -> str:
    return f" <small>{esc(words)}</small>" if words else ""


def _table(
    title: str, rows: list[judging.Contrast], margin: float, names: tuple[str, str] = ("arm", "baseline → arm")
) -> str:
    """`names`: the headings of what is compared and of its two means."""
    reach = max([margin, *(abs(x) for c in rows for x in _bounds(c)), 1e-12])
    factor, digits, unit = text.scale(rows[0].metric)
    scale = f"{text.number(-factor * reach, digits)} … +{text.number(factor * reach, digits)} {unit}"
    head = [names[0], "verdict", "difference [95 %]", esc(scale), names[1], "n", "p Holm"]
    costs = rows[0].read == "last" and any(math.isfinite(x) for c in rows for x in (c.tokens_change, c.length_change))
    head += ["tokens", "length"] if costs else []
    lines: list[list[str]] = []
    for levels, group in groupby(rows, lambda c: c.stratum):
        lines += [[stratum(levels)]] if levels else []
        for c in group:
            _, means, interval, pairs, p, _ = report.cells(c)
            more = f" <small>{esc(report.after_word(c))}</small>" if report.after_word(c) else ""
            said = [f"<b>{breakable(c.arm)}</b>{_small(c.confounded)}", verdict_badge(c.word) + more, esc(interval)]
            cells = [*said, _forest(c, reach, margin), esc(means), pairs, esc(p)]
            lines.append(cells + ([report.change(c.tokens_change), report.change(c.length_change)] if costs else []))
    return table(esc(title), head, "lliiirrrr"[: len(head)], lines, "verdicts")


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
