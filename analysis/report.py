"""The verdict of a sweep as terminal text, as Markdown and as JSON, and the sentences that every report shares.

Numbers come from `verdict.py` and `claims.py`, layout from `text.py`; here only what is said, in which order. Leaves
out: the HTML report (`html.py`).
"""

import json
import math
from collections.abc import Collection
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from analysis import claims, style, tables, text
from analysis import verdict as judging
from analysis.load import Sweep, load
from harness.store import write_atomic

CLAIM_GLYPHS = {"supported": "✓", "supported in part": "✓", "contradicted": "✗", "no difference": "○", "undecided": "?"}
NOTHING_YET = "Nothing can be said yet: no arm and its baseline have finished on the same seed."


@dataclass(frozen=True)
class Judged:
    sweep: Sweep
    contrasts: list[judging.Contrast]
    claims: list[claims.Claim]

    def table(self, axis: str, read: str, metric: str) -> list[judging.Contrast]:
        return [c for c in self.contrasts if (c.axis, c.read, c.metric) == (axis, read, metric)]


def verdict(root: Path, name: str) -> str:
    """The text that `verdict SWEEP` prints, at most 100 columns; writes verdict.json beside the manifest.

    Raises FileNotFoundError for an unknown sweep, ValueError for an unknown claim.
    """
    judged = judge(root, name)
    sweep = judged.sweep
    source = sweep.manifest["source"]
    lines = [*text.wrap(sweep.manifest["question"]), *(text.wrap(f"Source: {source}") if source else [])]
    lines += [f"{sweep.name}, scale {sweep.manifest['scale']}: {sweep.progress()}", ""]
    for sentence in remarks(judged):
        lines += [*text.wrap(sentence), ""]
    if any(c.effect for c in judged.contrasts):
        for axis in sweep.baseline:
            lines += [*_endpoint_lines(judged, axis), "", *_beside_lines(judged, axis), ""]
    for claim in judged.claims:
        lines += [*_claim_lines(claim), ""]
    lines += _missing_lines(sweep)
    for sentence in method(sweep):
        lines += text.wrap(sentence, "· ")
    return "\n".join(lines).rstrip() + "\n"


def markdown(root: Path, name: str) -> Path:
    """Draws the figures anew and writes sweeps/<name>/report.md around them; returns its path."""
    from analysis import figures

    drawn = figures.draw(root, name)
    judged = judge(root, name)
    sweep = judged.sweep
    lines = [f"# {sweep.manifest['question']}", "", f"Source: {sweep.manifest['source'] or 'not stated'}. "]
    lines[-1] += f"Sweep `{sweep.name}`, scale {sweep.manifest['scale']}: {sweep.progress()}."
    lines += ["", *(line for sentence in remarks(judged) for line in (sentence, ""))]
    if any(c.effect for c in judged.contrasts):
        for axis in sweep.baseline:
            lines += _markdown_tables(judged, axis)
    if judged.claims:
        lines += ["## The paper's claims", ""]
    for claim in judged.claims:
        lines += [f"**{claim.id}: {claim.word}** ({claim.why}). {claim.text} *{claim.source}*", ""]
        lines += [f"- {tested(f)}, {where(f) or 'all'}: {found(f)}" for f in claim.findings]
        lines += [f"- not tested here: {need}" for need in claim.untested if claim.findings]
        lines += [*([""] if claim.findings else []), *([claim.note, ""] if claim.note else [])]
    if drawn:
        lines += ["## Figures", ""]
    for figure in drawn:
        stem = f"figures/{figure.stem}"
        lines += [f"![{figure.stem}]({stem}.png)", "", f"The plotted numbers: [{stem}.csv]({stem}.csv)", ""]
    if sweep.missing:
        lines += [
            "## Missing",
            "",
            *text.markdown_table(["run", "state", *sweep.axes, "seed"], missing_rows(sweep)),
            "",
        ]
    if sentences := method(sweep):
        lines += ["## Method", "", *(f"- {sentence}" for sentence in sentences), ""]
    path = sweep.folder / "report.md"
    write_atomic(path, "\n".join(lines))
    return path


def judge(root: Path, name: str, more: Collection[str] = ()) -> Judged:
    """Loads and judges a sweep, with `more` metrics than that takes, and leaves verdict.json in its folder."""
    wanted = tables.metrics_wanted(root, name)
    tested = {test["metric"] for claim in claims.known().values() for test in claim["tests"]}
    sweep = load(root, name, wanted | tested | set(more))
    judged = Judged(sweep, judging.judge(sweep), claims.check(sweep))
    write_atomic(sweep.folder / "verdict.json", _json(judged))
    return judged


# -- what is said --------------------------------------------------------------------------------------------------


def remarks(judged: Judged) -> list[str]:
    """What a reader has to know before the numbers."""
    sweep, said = judged.sweep, []
    if sweep.manifest["control"]:
        said.append(
            "This sweep is a control: by mathematics its arms train alike. A trick or a trap here is an error of the "
            "instrument, or chance."
        )
    if not sweep.baseline:
        said.append("Nothing to compare: the spec names no baseline.")
    elif not judged.contrasts:
        said.append("Nothing to compare: no stratum holds the baseline and another arm.")
    elif not any(c.effect for c in judged.contrasts):
        said.append(NOTHING_YET)
    for lone in judging.without_baseline(sweep):
        said.append(f"Not compared: {', '.join(f'{axis} {level}' for axis, level in lone.items())}.")
    for c in judged.contrasts:
        if c.read == "last" and (c.arm_diverged or c.baseline_diverged):
            said.append(
                f"{', '.join([*c.stratum.values(), c.arm])}: {c.arm_diverged} of its runs diverged and "
                f"{c.baseline_diverged} of the baseline's; the difference shown is that of the pairs that survived."
            )
    return said


def method(sweep: Sweep) -> list[str]:
    if not sweep.baseline:
        return []
    end = sweep.manifest["endpoint"]
    return [
        f"Differences are paired by seed ({len(sweep.manifest['seeds'])} planned): arms of one seed share prompts, "
        "their order and sampling noise. Intervals: 95 % t over seeds.",
        "trick, trap: p < .05 after Holm's correction over all rows of an axis on one metric. neutral: 90 % interval "
        f"within ± {end['margin']:g} (entropy ± {judging.ENTROPY_MARGIN:g} nats). Under three pairs: no verdict.",
        "Seeds more: for 80 % power to find, under the same correction, the difference seen, or one of the margin's "
        "size if it is smaller.",
        f"Endpoint: mean of the last {end['last']} evaluations, never the best; whole curve: its mean height.",
    ]


def _word(c: judging.Contrast) -> str:
    """The verdict with its glyph, and the seeds that would settle it."""
    word = f"{style.WORDS[c.word][2]} {c.word}"
    if c.word in ("inconclusive", "description only"):
        more = "99+" if c.seeds_more is None or c.seeds_more > 99 else c.seeds_more
        return f"{word}, +{more} seed{'s' if more != 1 else ''}"
    return f"{word}, within margin" if c.within_margin and c.word != "neutral" else word


def _heading(c: judging.Contrast) -> str:
    return ", ".join(style.words(level) for level in c.stratum.values())


def cells(c: judging.Contrast) -> list[str]:
    factor, digits, _ = text.scale(c.metric)
    means = (text.number(factor * mean, digits) for mean in (c.baseline_mean, c.arm_mean))
    p = "-" if math.isnan(c.p_holm) else f"{c.p_holm:.3f}" if c.p_holm >= 0.001 else "<.001"
    pairs = str(c.effect.n if c.effect else 0)
    return [c.arm, " → ".join(means), text.interval(c.effect, factor, digits), pairs, p, _word(c)]


HEADER = ["arm", "baseline → arm", "difference [95 %]", "n", "p Holm", "verdict"]


def title_of(sweep: Sweep, metric: str, axis: str, how: str) -> str:
    return f"{metric} in {text.scale(metric)[2]}, {how}: {axis} against {sweep.baseline[axis]}"


def _endpoint_lines(judged: Judged, axis: str) -> list[str]:
    end = judged.sweep.manifest["endpoint"]
    rows: list[list[str]] = [HEADER]
    for heading, group in groupby(judged.table(axis, "last", end["metric"]), _heading):
        rows += [*([[heading]] if heading else []), *map(cells, group)]
    title = title_of(judged.sweep, end["metric"], axis, f"mean of the last {end['last']} evaluations")
    return [title, *text.aligned(rows, right="l  rr", indent=4)]


def _beside_lines(judged: Judged, axis: str) -> list[str]:
    """The same contrasts on the whole curve and on entropy, side by side."""
    end = judged.sweep.manifest["endpoint"]
    columns = [judged.table(axis, "area", metric) for metric in dict.fromkeys((end["metric"], judging.ENTROPY))]
    columns = [column for column in columns if any(c.effect for c in column)]
    if not columns:
        return []
    rows: list[list[str]] = [["arm", *(f"{c[0].metric}, {text.scale(c[0].metric)[2]}" for c in columns)]]
    seen = ""
    for contrasts in zip(*columns, strict=True):
        heading = _heading(contrasts[0])
        if heading != seen:
            rows.append([heading])
            seen = heading
        row = [contrasts[0].arm]
        for c in contrasts:
            factor, digits, _ = text.scale(c.metric)
            row.append(f"{style.WORDS[c.word][2]} {text.interval(c.effect, factor, digits)} {c.word}")
        rows.append(row)
    return [f"The whole curve, mean height: {axis} against {columns[0][0].baseline}", *text.aligned(rows, indent=4)]


def _markdown_tables(judged: Judged, axis: str) -> list[str]:
    end, lines = judged.sweep.manifest["endpoint"], []
    parts = [("last", end["metric"], f"mean of the last {end['last']} evaluations")]
    parts += [("area", metric, "whole curve") for metric in dict.fromkeys((end["metric"], judging.ENTROPY))]
    for read, metric, how in parts:
        rows = judged.table(axis, read, metric)
        if any(c.effect for c in rows):
            names = list(rows[0].stratum)
            body = [[*c.stratum.values(), *cells(c)] for c in rows]
            title = title_of(judged.sweep, metric, axis, how)
            lines += [f"## {title[0].upper()}{title[1:]}", "", *text.markdown_table([*names, *HEADER], body), ""]
    return lines


def _claim_lines(claim: claims.Claim) -> list[str]:
    glyph = CLAIM_GLYPHS.get(claim.word, "·")
    lines = [*text.wrap(f"{glyph} {claim.id} {claim.word.upper()}: {claim.why}"), *text.wrap(claim.text, "    ")]
    for test, findings in groupby(claim.findings, tested):
        lines += text.wrap(test, "    ", "      ")
        rows = [[where(f) or "all", *found(f).rsplit(", ", 1)] for f in findings]
        lines += text.aligned(rows, indent=6)
    if claim.findings:
        lines += [line for need in claim.untested for line in text.wrap(f"not tested here: {need}", "    ", "      ")]
    return lines


def tested(f: claims.Finding) -> str:
    expect = "control, expected no difference" if f.control else f"expected {f.expect.replace('_', ' ')}"
    return f"{f.metric}, {f.what}, {expect}"


def where(f: claims.Finding) -> str:
    return ", ".join(style.words(level) for level in f.stratum.values())


def found(f: claims.Finding) -> str:
    factor, digits, unit = text.scale(f.metric)
    few = f.effect is None or f.effect.n < judging.MIN_PAIRS
    measured = f"{text.interval(f.effect, factor, digits)} {unit}" if f.effect else "no pair of runs"
    small = " (within margin)" if f.within_margin and f.outcome == "supported" and "no" not in f.expect else ""
    return f"{measured}{f' (n = {f.effect.n})' if few and f.effect else ''}, {f.outcome}{small}"


def missing_rows(sweep: Sweep) -> list[list[str]]:
    return [[e.run, e.state, *(e.labels[axis] for axis in sweep.axes), str(e.seed)] for e in sweep.missing]


def _missing_lines(sweep: Sweep) -> list[str]:
    if not sweep.missing:
        return []
    rows = [["not done", "state", *sweep.axes, "seed"], *missing_rows(sweep)[:8]]
    more = len(sweep.missing) - 8
    return [*text.aligned(rows), *([f"  … and {more} more: see report.md"] if more > 0 else []), ""]


# -- files ---------------------------------------------------------------------------------------------------------


def _json(judged: Judged) -> str:
    sweep = judged.sweep
    value = {
        "sweep": sweep.name,
        "question": sweep.manifest["question"],
        "scale": sweep.manifest["scale"],
        "endpoint": sweep.manifest["endpoint"],
        "entropy_margin": judging.ENTROPY_MARGIN,
        "alpha": judging.ALPHA,
        "control": sweep.manifest["control"],
        "seeds": sweep.manifest["seeds"],
        "runs": {"planned": len(sweep.runs), "missing": len(sweep.missing)},
        "contrasts": [asdict(c) for c in judged.contrasts],
        "claims": [asdict(c) for c in judged.claims],
        "missing": [asdict(entry) for entry in sweep.missing],
    }
    return json.dumps(_without_nan(value), sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _without_nan(value: Any) -> Any:
    """NaN and infinities as null: JSON has neither."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
