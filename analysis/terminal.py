"""The verdict of a sweep as text for a terminal, at most 100 columns.

Sentences and cells are those of `report.py`, layout is that of `text.py`. Leaves out: files.
"""

from itertools import groupby
from pathlib import Path

from analysis import averaged, claims, fractional_text, report, search_text, style, text
from analysis import verdict as judging
from analysis.load import Sweep


def verdict(root: Path, name: str) -> str:
    """The text that `verdict SWEEP` prints; writes verdict.json beside the manifest.

    Raises FileNotFoundError for an unknown sweep, ValueError for an unknown claim.
    """
    return said(report.judge(root, name))


def said(judged: report.Judged, everything: bool = False) -> str:
    """At most 100 columns. Whole curves and entropy of more than `FEW_AXES` arm axes only with `everything`."""
    sweep = judged.sweep
    beside = everything or len(sweep.baseline) <= report.FEW_AXES
    source = sweep.manifest["source"]
    lines = [*text.wrap(sweep.manifest["question"]), *(text.wrap(f"Source: {source}") if source else [])]
    lines += [f"{sweep.name}, scale {sweep.manifest['scale']}: {report.progress(judged)}", ""]
    for sentence in report.remarks(judged):
        lines += [*text.wrap(sentence), ""]
    lines += search_text.lines(sweep, judged.search, everything)
    if any(c.effect for c in judged.contrasts):
        lines += fractional_text.lines(judged) if averaged.of(sweep) else []
        for axis in sweep.baseline:
            lines += [*_endpoint_lines(judged, axis), ""] if not averaged.of(sweep) else []
            lines += [*_beside_lines(judged, axis), ""] if beside else []
        if changed := report.at_equal_tokens(judged):
            more = [f"and {len(changed) - report.MOST} more"] if len(changed) > report.MOST else []
            lines += [*text.wrap(f"Read at equal generated tokens: {'; '.join([*changed[: report.MOST], *more])}."), ""]
        if not beside:
            lines += [*text.wrap(f"Whole curves and entropy: `verdict {sweep.name} --all`, or the report."), ""]
    for claim in judged.claims:
        lines += [*_claim_lines(claim), ""]
    lines += _missing_lines(sweep)
    for sentence in report.method(sweep):
        lines += text.wrap(sentence, "· ")
    return "\n".join(lines).rstrip() + "\n"


def _endpoint_lines(judged: report.Judged, axis: str) -> list[str]:
    end = judged.sweep.manifest["endpoint"]
    rows: list[list[str]] = [report.HEADER]
    for place, group in groupby(judged.table(axis, "last", end["metric"]), report.heading):
        rows += [*([[place]] if place else []), *map(report.cells, group)]
    title = report.title_of(judged.sweep, end["metric"], axis, f"mean of the last {end['last']} evaluations")
    return [title, *text.aligned(rows, right="l  rr", indent=4)]


def _beside_lines(judged: report.Judged, axis: str) -> list[str]:
    """The same contrasts on the whole curve and on entropy, side by side."""
    end = judged.sweep.manifest["endpoint"]
    columns = [judged.table(axis, "area", metric) for metric in dict.fromkeys((end["metric"], judging.ENTROPY))]
    columns = [column for column in columns if any(c.effect for c in column)]
    if not columns:
        return []
    rows: list[list[str]] = [["arm", *(f"{c[0].metric}, {text.scale(c[0].metric)[2]}" for c in columns)]]
    seen = ""
    for contrasts in zip(*columns, strict=True):
        place = report.heading(contrasts[0])
        if place != seen:
            rows.append([place])
            seen = place
        row = [contrasts[0].arm]
        for c in contrasts:
            factor, digits, _ = text.scale(c.metric)
            row.append(f"{style.WORDS[c.word][2]} {text.interval(c.effect, factor, digits)} {c.word}")
        rows.append(row)
    return [f"The whole curve, mean height: {axis} against {columns[0][0].baseline}", *text.aligned(rows, indent=4)]


def _claim_lines(claim: claims.Claim) -> list[str]:
    glyph = report.CLAIM_GLYPHS.get(claim.word, "·")
    lines = [*text.wrap(f"{glyph} {claim.id} {claim.word.upper()}: {claim.why}"), *text.wrap(claim.text, "    ")]
    for test, findings in groupby(claim.findings, report.tested):
        lines += text.wrap(test, "    ", "      ")
        rows = [[report.where(f) or "all", *report.found(f).rsplit(", ", 1)] for f in findings]
        lines += text.aligned(rows, indent=6)
    if claim.findings:
        lines += [line for need in claim.untested for line in text.wrap(f"not tested here: {need}", "    ", "      ")]
    return lines


def _missing_lines(sweep: Sweep) -> list[str]:
    if not sweep.missing:
        return []
    rows = [["not done", "state", *report.columns(sweep), "seed"], *report.missing_rows(sweep)[:8]]
    more = len(sweep.missing) - 8
    return [*text.aligned(rows), *([f"  … and {more} more: see report.md"] if more > 0 else []), ""]
