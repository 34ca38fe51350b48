"""The verdict as text, as Markdown and as JSON. Numbers come from `verdict.py` and `claims.py`; here only wording."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analysis import claims
from analysis import verdict as judging
from analysis.load import Sweep, load, read_manifest
from harness.store import write_atomic

GLYPHS = {
    "trick": "▲",
    "trap": "▼",
    "neutral": "=",
    "inconclusive": "?",
    "description only": "·",
    "higher": "↑",
    "lower": "↓",
}


def verdict(root: Path, name: str) -> str:
    """The text that `verdict SWEEP` prints, at most 100 columns; writes verdict.json beside the manifest.

    Raises FileNotFoundError for an unknown sweep.
    """
    sweep, contrasts, found = _judged(root, name)
    write_atomic(sweep.folder / "verdict.json", _json(sweep, contrasts, found))
    lines = [sweep.manifest["question"], sweep.manifest["source"], ""]
    for title, part in _sections(sweep, contrasts):
        lines += [title, *_aligned(_rows(sweep, part)), ""]
    if not contrasts:
        lines += ["Nothing to compare: the spec names no baseline with another arm beside it.", ""]
    for claim in found:
        lines += [f"{claim.id}  {claim.word.upper()}", *_wrap(claim.text, "    ")]
        lines += [f"    {line}" for finding in claim.findings for line in _wrap(_finding(finding), "  - ")]
        lines.append("")
    lines += _missing(sweep)
    lines += [line for sentence in _method(sweep) for line in _wrap(sentence, "")]
    return "\n".join(lines).rstrip() + "\n"


def markdown(root: Path, name: str) -> Path:
    """sweeps/<name>/report.md with the figures there are; returns its path."""
    sweep, contrasts, found = _judged(root, name)
    write_atomic(sweep.folder / "verdict.json", _json(sweep, contrasts, found))
    lines = [f"# {sweep.manifest['question']}", "", f"Source: {sweep.manifest['source']}", ""]
    for title, part in _sections(sweep, contrasts):
        header, *rows = _rows(sweep, part)
        lines += [f"## {title}", "", *_markdown_table(header, rows), ""]
    if found:
        lines += ["## The paper's claims", ""]
    for claim in found:
        lines += [f"**{claim.id}: {claim.word}.** {claim.text} ({claim.source})", ""]
        lines += [f"- {_finding(finding)}" for finding in claim.findings]
        lines += ["", claim.note, ""] if claim.note else [""]
    figures = sorted((sweep.folder / "figures").glob("*.png"))
    if figures:
        lines += ["## Figures", ""]
    for figure in figures:
        csv = f"figures/{figure.stem}.csv"
        lines += [f"![{figure.stem}](figures/{figure.name})", "", f"The plotted numbers: [{csv}]({csv})", ""]
    lines += ["## Method", "", *(_missing(sweep) or ["Every planned run is done.", ""]), " ".join(_method(sweep)), ""]
    path = sweep.folder / "report.md"
    write_atomic(path, "\n".join(lines))
    return path


def _judged(root: Path, name: str) -> tuple[Sweep, list[judging.Contrast], list[claims.Claim]]:
    end = read_manifest(root, name)["endpoint"]
    sweep = load(root, name, {end["metric"], "policy/entropy"})
    return sweep, judging.judge(sweep), claims.check(sweep)


def _sections(sweep: Sweep, contrasts: list[judging.Contrast]) -> list[tuple[str, list[judging.Contrast]]]:
    end, axis = sweep.manifest["endpoint"], sweep.arm_axis
    against = f"against {axis} = {sweep.manifest['baseline'][axis]}" if axis else ""
    unit = "points" if _is_share(end["metric"]) else end["metric"]
    sections = [
        (f"{end['metric']}, mean of the last {end['last']} evaluations, {against} ({unit})", end["metric"], False),
        (f"{end['metric']}, mean height of the whole curve, {against} ({unit})", end["metric"], True),
        (f"policy entropy, mean height of the whole curve, {against} (nats)", "policy/entropy", True),
    ]
    split = [
        (title, [c for c in contrasts if c.metric == metric and (c.read == "area") == area])
        for title, metric, area in sections
    ]
    return [(title, part) for title, part in split if part]


def _rows(sweep: Sweep, contrasts: list[judging.Contrast]) -> list[list[str]]:
    header = [
        *sweep.strata,
        contrasts[0].axis,
        "baseline",
        "arm",
        "difference",
        "95 % interval",
        "n",
        "p (Holm)",
        "",
        "verdict",
    ]
    return [header, *(_row(sweep, c) for c in contrasts)]


def _row(sweep: Sweep, c: judging.Contrast) -> list[str]:
    factor, digits = (100.0, 1) if _is_share(c.metric) else (1.0, 3)
    word = c.word
    if word == "inconclusive":
        word += _more(c.seeds_more)
    if c.word == "description only" and c.seeds_more:
        word += _more(c.seeds_more)
    effect = c.effect
    return [
        *(c.stratum[axis] for axis in sweep.strata),
        c.arm,
        _number(factor * c.baseline_mean, digits),
        _number(factor * c.arm_mean, digits),
        _number(factor * effect.mean, digits, sign=True) if effect else "-",
        f"{_number(factor * effect.low, digits, sign=True)} … {_number(factor * effect.high, digits, sign=True)}"
        if effect and not math.isnan(effect.low)
        else "-",
        str(effect.n) if effect else "0",
        f"{c.p_holm:.3f}" if not math.isnan(c.p_holm) else "-",
        GLYPHS[c.word],
        word,
    ]


def _more(seeds: int | None) -> str:
    if seeds is None or seeds > 99:
        return " (over 99 seeds more)"
    return f" ({seeds} seed{'s' if seeds != 1 else ''} more)"


def _finding(finding: claims.Finding) -> str:
    factor, digits, unit = (100.0, 1, " points") if _is_share(finding.metric) else (1.0, 3, "")
    where = ", ".join(finding.stratum.values())
    head = (
        f"{where + ': ' if where else ''}{finding.metric}, {finding.what}, expected {finding.expect.replace('_', ' ')}"
    )
    effect = finding.effect
    if effect is None or math.isnan(effect.low):
        return f"{head}: {finding.outcome}, {effect.n if effect else 0} pairs of runs"
    numbers = [_number(factor * x, digits, sign=True) for x in (effect.mean, effect.low, effect.high)]
    return f"{head}: {finding.outcome}, {numbers[0]} [{numbers[1]}, {numbers[2]}]{unit}, n = {effect.n}"


def _missing(sweep: Sweep) -> list[str]:
    if not sweep.missing:
        return []
    lines = [f"Missing: {len(sweep.missing)} of {len(sweep.manifest['runs'])} runs are not done."]
    for run in sweep.missing[:8]:
        labels = ", ".join(f"{axis}={level}" for axis, level in run.labels.items())
        lines.append(f"  {run.state:8} {run.run}  {labels}, seed {run.seed}")
    if len(sweep.missing) > 8:
        lines.append(f"  … and {len(sweep.missing) - 8} more")
    return [*lines, ""]


def _method(sweep: Sweep) -> list[str]:
    end, seeds = sweep.manifest["endpoint"], sweep.manifest["seeds"]
    return [
        f"Differences are paired by seed ({len(seeds)} planned: arms of one seed share prompts, their order and "
        "sampling noise); intervals are 95 % t intervals over seeds; words follow p after Holm's correction over all "
        f"rows of a table; neutral means that the 90 % interval lies within ± {end['margin']:g} "
        f"(± {judging.ENTROPY_MARGIN:g} nats); seeds more: for 80 % power to find the difference seen, or one of the "
        "margin's size, under the same correction. Claims are not corrected.",
    ]


def _json(sweep: Sweep, contrasts: list[judging.Contrast], found: list[claims.Claim]) -> str:
    value = {
        "sweep": sweep.name,
        "question": sweep.manifest["question"],
        "endpoint": sweep.manifest["endpoint"],
        "seeds": sweep.manifest["seeds"],
        "contrasts": [asdict(c) for c in contrasts],
        "claims": [asdict(c) for c in found],
        "missing": [asdict(m) for m in sweep.missing],
    }
    return json.dumps(_without_nan(value), sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _without_nan(value: Any) -> Any:
    """NaN and infinities as null: JSON has neither."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float, digits: int, sign: bool = False) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


def _is_share(metric: str) -> bool:
    return "accuracy" in metric


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines]


def _wrap(text: str, lead: str) -> list[str]:
    import textwrap

    return textwrap.wrap(" ".join(text.split()), 98 - len(lead), initial_indent=lead, subsequent_indent=" " * len(lead))
