"""Writes sweeps/<name>/report.html: one file that opens offline, asks nothing of any network, and prints.

Sections come from the `html_….py` beside this file, curves as JSON from `html_curves.py`, style and behaviour from
`page/`; here the order of things and the page around them. A Content-Security-Policy in the page forbids every request
and every script but ours; pictures are inside it. Leaves out: numbers and sentences, which are those of `report.py`,
and drawing figures (`drawn.py` keeps them up to date; what is there is shown).
"""

import base64
import hashlib
import html
import json
import re
from datetime import UTC, datetime
from pathlib import Path

from analysis import (
    depends,
    factors,
    html_cards,
    html_curves,
    html_figures,
    html_parts,
    html_runs,
    html_search,
    html_stability,
    html_summary,
    html_verdict,
    report,
    style,
)
from analysis.html_parts import Section
from harness.store import write_atomic

ORDER = (
    "search",
    "verdict",
    "claims",
    "missing",
    "stability",
    "curves",
    "arms",
    "figures",
    "runs",
    "method",
    "provenance",
)
PAGE = Path(__file__).resolve().parent / "page"


def judge(root: Path, name: str) -> report.Judged:
    """`report.judge` with the metrics that the page takes as well. Raises FileNotFoundError for no such sweep."""
    return report.judge(root, name, html_curves.wanted())


def write(root: Path, name: str, judged: report.Judged | None = None) -> Path:
    """The report of what `judge` gave, or of what has been recorded so far; returns its path. Raises as it does."""
    judged = judged or judge(root, name)
    curves = html_curves.payload(judged.sweep)
    axes = judged.sweep.baseline if any(c.effect for c in judged.headline()) else {}
    analysed = {axis: factors.analyse(judged.sweep, axis) for axis in axes}
    whom = {axis: depends.sentence(found) for axis, found in analysed.items()}
    brief = {axis: depends.short(found) for axis, found in analysed.items()}
    made = html_summary.sections(judged) + html_runs.sections(root, judged.sweep, datetime.now(UTC))
    made += [
        Section("search", "The search", html_search.body(judged)),
        Section("verdict", "Verdict", html_verdict.body(judged, whom)),
        Section("curves", "Curves", html_curves.markup() if curves["metrics"] else ""),
        Section("stability", "Stability", html_stability.body(judged.sweep)),
        Section("arms", "Arm by arm", html_cards.body(judged, brief)),
        Section("figures", "Figures", html_figures.body(judged.sweep)),
    ]
    sections = sorted(made, key=lambda section: ORDER.index(section.id))
    path = judged.sweep.folder / "report.html"
    write_atomic(path, page(html_summary.header(judged), sections, curves))
    return path


def page(header: str, sections: list[Section], curves: dict[str, object]) -> str:
    """The whole document. Each marker is filled once: what a spec wrote is never read as a marker."""
    script = (PAGE / "report.js").read_text(encoding="utf-8")
    shown = [section for section in sections if section.body]
    parts = {
        "title": html.escape(html_parts.plain(header)),
        "hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": colours() + (PAGE / "report.css").read_text(encoding="utf-8"),
        "header": header,
        "links": " ".join(f'<a href="#{section.id}">{section.title}</a>' for section in shown),
        "body": "\n".join(html_parts.framed(section) for section in shown),
        "data": in_script(curves),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], (PAGE / "report.html").read_text(encoding="utf-8"))


def colours() -> str:
    """The words' colours of the figures, as variables."""
    pairs = "".join(f"--{html_parts.slug(word)}:{colour};" for word, (colour, _, _) in style.WORDS.items())
    return f":root{{{pairs}}}\n"


def in_script(value: dict[str, object]) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"[<>&\u2028\u2029]", lambda m: f"\\u{ord(m[0]):04x}", text)
