"""The runs in the HTML report: what is missing, the table of all, and where the numbers come from.

Reads status.json and provenance.json of each run. Host names, commands and paths stay out of the page: it is made to
be sent around. Leaves out: what the runs say (`html_parts.py`).
"""

import math
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis import clock, report, savings, scores, text
from analysis.html_parts import Section, esc, table
from analysis.load import Entry, Sweep
from harness.store import Run, read_json

FILES = {"config": "config.yaml", "log": "attempts.jsonl", "error": "error.txt"}  # link -> file of a run's folder
GLYPHS = {"done": "✓", "failed": "✗", "diverged": "↯", "running": "…", "cancelled": "⊘", "stale": "!", "pruned": "✂"}


@dataclass(frozen=True)
class Found:
    """One planned run with what its folder says; seconds are NaN where nothing was timed."""

    entry: Entry
    folder: Path
    status: dict[str, Any]
    provenance: dict[str, Any]
    seconds: float


def read(root: Path, sweep: Sweep) -> list[Found]:
    found = []
    for entry in sweep.runs:
        run = Run(root / "runs" / entry.run)
        status = read_json(run.path / "status.json")
        seconds = float(status.get("seconds") or run.seconds() or math.nan)
        found.append(Found(entry, run.path, status, read_json(run.path / "provenance.json"), seconds))
    return found


def sections(root: Path, sweep: Sweep, now: datetime) -> list[Section]:
    runs = read(root, sweep)
    return [
        Section("missing", "Missing", _missing(sweep, runs)),
        Section("runs", "Runs", _runs(sweep, runs)),
        Section("provenance", "Provenance", _provenance(root, sweep, runs, now)),
    ]


def _missing(sweep: Sweep, runs: list[Found]) -> str:
    """Every planned run that is not done, by name and with its error."""
    lack = [found for found in runs if found.entry.state != "done"]
    if not lack:
        return ""
    counted = ", ".join(f"{n} {state}" for state, n in Counter(f.entry.state for f in lack).items())
    body = [[_links(f.folder), _state(f.entry.state), *_labels(sweep, f.entry), esc(_why(f))] for f in lack]
    named = report.columns(sweep)
    head = ["run", "state", *map(esc, named), "seed", "why"]
    title = f"{len(lack)} of {len(runs)} planned runs: {esc(counted)}"
    return table(title, head, f"ll{'l' * len(named)}rw", body, "long")


def _why(f: Found) -> str:
    return f"{f.entry.said}: {f.status.get('why', '')}" if f.entry.reached else str(f.status.get("error", ""))


def _runs(sweep: Sweep, runs: list[Found]) -> str:
    end = sweep.manifest["endpoint"]
    factor, digits, unit = text.scale(end["metric"])
    found = scores.run_scores(sweep, end["metric"], scores.reader(sweep, "last"), survivors=True)
    named = report.columns(sweep)
    head = [*map(esc, named), "seed", "state", "steps", f"{esc(end['metric'])}, last {end['last']} ({unit})"]
    head += ["last accuracy (%)", "seconds", "folder"]
    body = []
    for f in runs:
        score, last = factor * found.get(f.entry.run, math.nan), f.status.get("accuracy")
        accuracy = 100 * last if last is not None else math.nan
        steps = f"{f.status['step']}/{f.status['steps']}" if "steps" in f.status and "step" in f.status else "-"
        cells = [*_labels(sweep, f.entry), _state(f.entry.state), steps, text.number(score, digits)]
        cells += [text.number(accuracy, 1), text.number(f.seconds, 0), _links(f.folder)]
        body.append(cells)
    buttons = [f'<button type="button">{cell}</button>' for cell in head]
    title = "Every planned run; a press on a heading sorts"
    return table(title, buttons, f"{'l' * len(named)}rlrrrrl", body, "sortable long")


def _labels(sweep: Sweep, entry: Entry) -> list[str]:
    return [*map(esc, report.labels(sweep, entry)), str(entry.seed)]


def _state(state: str) -> str:
    return (
        f'<span class="state {esc(state)}"><span aria-hidden="true">{GLYPHS.get(state, "·")}</span> {esc(state)}</span>'
    )


def _links(folder: Path) -> str:
    """Relative to sweeps/<name>/, where the report lies: the folder, and what of its files is there."""
    here = f"../../runs/{esc(folder.name)}/"
    files = (f'<a href="{here}{file}">{name}</a>' for name, file in FILES.items() if (folder / file).exists())
    return " ".join([f'<a href="{here}"><code>{esc(folder.name)}</code></a>', *files])


# -- where the numbers come from -----------------------------------------------------------------------------------


def _provenance(root: Path, sweep: Sweep, runs: list[Found], now: datetime) -> str:
    known = [f.provenance for f in runs if f.provenance]
    dirty = sum(bool(p.get("diff")) for p in known)
    packages = Counter(f"{name} {version}" for p in known for name, version in p.get("packages", {}).items())
    lines = {
        "spec": " ".join([sweep.manifest.get("spec", ""), *sweep.manifest.get("overrides", [])]),
        "commit": _spread(Counter(str(p.get("commit") or "unknown")[:12] for p in known), len(known)),
        "uncommitted changes": f"{dirty} of {len(known)} runs" if dirty else "none" if known else "",
        "Python": _spread(Counter(p.get("python", "") for p in known), len(known)),
        "packages": _spread(packages, len(known)),
        "machines": str(len({p["host"] for p in known if p.get("host")}) or ""),
        "time spent": clock.spent(root, sweep),
        "time saved": " ".join(savings.said(root, sweep)),
        "runs last written": _span([f.status["time"] for f in runs if "time" in f.status]),
        "report written": _date(now),
    }
    rows = [f"<dt>{name}</dt><dd>{esc(value)}</dd>" for name, value in lines.items() if value]
    logs = sorted(path.name for path in sweep.folder.glob("worker-*.log"))
    links = " ".join(f'<a href="{esc(name)}">{esc(name)}</a>' for name in logs)
    rows += [f"<dt>logs of the workers</dt><dd>{links}</dd>"] if logs else []
    without = len(runs) - len(known)
    note = f'<p class="note">{without} of {len(runs)} runs have recorded no provenance.</p>' if without else ""
    return f"<dl>{''.join(rows)}</dl>{note}"


def _spread(counts: Counter[str], of: int) -> str:
    """The values; how many runs had each, where not all had it."""
    ordered = sorted(counts.items())
    return ", ".join(value if n == of else f"{value} ({n} of {of} runs)" for value, n in ordered if value)


def _span(times: list[float]) -> str:
    if not times:
        return ""
    first, last = (_date(datetime.fromtimestamp(t, UTC)) for t in (min(times), max(times)))
    return first if first == last else f"{first} to {last}"


def _date(when: datetime) -> str:
    return when.strftime("%Y-%m-%d %H:%M UTC")
