"""A sweep's figures kept up to date: drawn again only when a run, the manifest or the drawing itself has changed.

    sweeps/<name>/figures/drawn.json   {"from": fingerprint, "files": [...]}

The fingerprint is a hash over the manifest, the analysis' own source text, the library that draws, and name, size and
modification time of every record of every run. Leaves out: drawing (`figures.py`).
"""

import functools
import hashlib
import json
from importlib import metadata
from pathlib import Path

from analysis import records
from analysis.load import Sweep, read_manifest
from harness.store import Run, read_json, write_atomic

KINDS = ("metrics", "evals", "counts", "samples")  # what figures are made of
WEB = ".web"  # before .png: the copy for the page, if there is one


def current(root: Path, name: str) -> list[Path]:
    """The PNGs, drawn anew where they are missing or stale. Raises what `figures.draw` raises."""
    folder = root / "sweeps" / name / "figures"
    kept = read_json(folder / "drawn.json")
    paths = [folder / file for file in kept.get("files", [])]
    if kept.get("from") == fingerprint(root, name) and all(_whole(path) for path in paths):
        return paths
    return draw(root, name)


def draw(root: Path, name: str) -> list[Path]:
    """Draws all, whatever there is, and notes from what."""
    from analysis import figures

    before = fingerprint(root, name)  # of before: a run that goes on meanwhile makes the figures stale
    paths = figures.draw(root, name)
    folder = root / "sweeps" / name / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    note = {"from": before, "files": [path.name for path in paths]}
    write_atomic(folder / "drawn.json", json.dumps(note, indent=1) + "\n")
    return paths


def existing(sweep: Sweep) -> list[Path]:
    """The PNGs that are there, current or not: the spec's in its order, then the others by name."""
    named = sweep.manifest["figures"]
    place = {name: number for number, name in enumerate(named)}
    found = (path for path in (sweep.folder / "figures").glob("*.png") if not path.stem.endswith(WEB))
    return sorted(found, key=lambda path: (place.get(path.stem, len(named)), path.stem))


def fingerprint(root: Path, name: str) -> str:
    """64 hex digits. Raises FileNotFoundError where no sweep of that name was planned."""
    manifest = read_manifest(root, name)
    parts = [json.dumps(manifest, sort_keys=True), *_drawers()]
    for run in sorted({run["run"] for run in manifest["runs"]}):
        folder = root / "runs" / run
        parts.append(f"{run} {Run(folder).state()}")
        for kind in KINDS:
            for entry in records.files(folder, kind):
                there = entry.stat()
                parts.append(f"{kind} {entry.name} {there.st_size} {there.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@functools.cache  # what this process draws with, even if a file is edited meanwhile
def _drawers() -> list[str]:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return [metadata.version("matplotlib"), *(hashlib.sha256(s.read_bytes()).hexdigest() for s in sources)]


def _whole(png: Path) -> bool:
    return all(png.with_suffix(suffix).exists() for suffix in (".png", ".pdf", ".csv"))
