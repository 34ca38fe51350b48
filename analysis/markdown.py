"""Writes sweeps/<name>/report.md: the verdict as tables, the claims, the figures that have been drawn, what is missing.

Sentences and cells are those of `report.py`. Leaves out: drawing (`drawn.py` keeps the figures up to date).
"""

from pathlib import Path

from analysis import averaged, clock, drawn, fractional_text, report, savings, search_text, text
from harness.store import write_atomic


def write(root: Path, name: str) -> Path:
    """The report of what has been recorded so far; returns its path. Raises FileNotFoundError for no such sweep."""
    judged = report.judge(root, name)
    sweep = judged.sweep
    lines = [f"# {sweep.manifest['question']}", "", f"Source: {sweep.manifest['source'] or 'not stated'}. "]
    lines[-1] += f"Sweep `{sweep.name}`, scale {sweep.manifest['scale']}: {report.progress(judged)}."
    lines += ["", *(line for sentence in report.remarks(judged) for line in (sentence, ""))]
    lines += search_text.markdown(sweep, judged.search)
    if any(c.effect for c in judged.contrasts):
        lines += fractional_text.markdown(judged) if averaged.of(sweep) else []
        for axis in sweep.baseline if not averaged.of(sweep) else ():
            lines += _tables(judged, axis)
    lines += _claims(judged)
    if figures := drawn.existing(sweep):
        lines += ["## Figures", ""]
    for figure in figures:
        stem = f"figures/{figure.stem}"
        lines += [f"![{figure.stem}]({stem}.png)", "", f"The plotted numbers: [{stem}.csv]({stem}.csv)", ""]
    if sweep.missing:
        header = ["run", "state", *report.columns(sweep), "seed"]
        lines += ["## Missing", "", *text.markdown_table(header, report.missing_rows(sweep)), ""]
    if time := clock.spent(root, sweep):
        lines += ["## Time", "", f"{time}.", ""]
        lines += [line for sentence in savings.said(root, sweep) for line in (sentence, "")]
    if sentences := report.method(sweep):
        lines += ["## Method", "", *(f"- {sentence}" for sentence in sentences), ""]
    path = sweep.folder / "report.md"
    write_atomic(path, "\n".join(lines))
    return path


def _tables(judged: report.Judged, axis: str) -> list[str]:
    """A table for each reading of an axis; a column for each axis that some row's stratum names."""
    lines: list[str] = []
    for read, metric, how in report.readings(judged):
        rows = judged.table(axis, read, metric)
        if any(c.effect for c in rows):
            names = list(dict.fromkeys(name for c in rows for name in c.stratum))
            body = [[*(c.stratum.get(name, "-") for name in names), *report.cells(c)] for c in rows]
            title = report.title_of(judged.sweep, metric, axis, how)
            header = [*names, *report.HEADER]
            lines += [f"## {title[0].upper()}{title[1:]}", "", *text.markdown_table(header, body), ""]
    return lines


def _claims(judged: report.Judged) -> list[str]:
    lines = ["## The paper's claims", ""] if judged.claims else []
    for claim in judged.claims:
        lines += [f"**{claim.id}: {claim.word}** ({claim.why}). {claim.text} *{claim.source}*", ""]
        lines += [f"- {report.tested(f)}, {report.where(f) or 'all'}: {report.found(f)}" for f in claim.findings]
        lines += [f"- not tested here: {need}" for need in claim.untested if claim.findings]
        lines += [*([""] if claim.findings else []), *([claim.note, ""] if claim.note else [])]
    return lines
