"""Makes the data files of the paper's scale: training sets as the paper draws them, evaluation sets in one shape.

Every file has one row {"question", "answer"} a line, and `manifest.json` says what went in and what was left out. The
same seed and the same sources give the same bytes. Leaves out: how a source is read (`sources.py`), the rules
(`clean.py`).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from harness.data import clean, sources
from harness.data.sources import Item, Source
from harness.tasks import grading
from harness.tricks import nearest

SCALES = ("paper",)  # the miniature scale generates its problems


def prepare(
    out: Path,
    given: Sequence[str] = (),
    without: Sequence[str] = (),
    seed: int = 0,
    folder: Path | None = None,
    only: Sequence[str] = (),
) -> dict[str, Any]:
    """Writes a file per role and the manifest, which it returns.

    `given` are `role=FILE_OR_HUB_ID`, `without` roles to leave out, `only` those to make where not all are wanted.
    Nothing is written before every source is found.

    Raises ValueError for an unknown role or an empty result, FileNotFoundError naming every role without data.
    """
    known = sources.load(folder or sources.FOLDER)
    named = _named(given, known)
    for role in (*without, *only):
        _known(role, known)
    chosen = {role: source for role, source in known.items() if role not in without and role in (only or known)}
    files = _found(chosen, named)
    roles = sorted(chosen, key=lambda role: (chosen[role].kind, role))  # evaluation sets first
    held_out: dict[str, set[str]] = {}
    made: dict[str, tuple[list[Item], dict[str, Any]]] = {}
    for role in roles:
        raw = sources.items(chosen[role], files[role])
        if chosen[role].kind == "benchmark":
            held_out[role] = {clean.fingerprint(item.question) for item in raw}
        kept, dropped = _kept(chosen[role], raw, held_out, _seed(seed, role))
        if not kept:
            raise ValueError(f"{role}: no row is left of {len(raw)} ({_said(dropped)})")
        made[role] = kept, _entry(chosen[role], files[role], raw, kept, dropped)
    out.mkdir(parents=True, exist_ok=True)
    for role, (kept, entry) in made.items():
        entry["file"], entry["sha256"] = _write(out / f"{role}.jsonl", kept)
    manifest = {
        "seed": seed,
        "not_deduplicated_against": sorted(
            role for role in known if role not in chosen and known[role].kind == "benchmark"
        ),
        "sets": {role: entry for role, (_, entry) in made.items()},
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


def lines(manifest: dict[str, Any]) -> list[str]:
    """The manifest for a terminal: a line per set, then what it dropped."""
    shown = []
    for role, entry in manifest["sets"].items():
        said = f"  (dropped: {_said(entry['dropped'])})" if entry["dropped"] else ""
        shown.append(f"{role:<14} {entry['rows']:>6} of {entry['read']:>6} rows{said}")
        if entry["expected"] not in (0, entry["read"]):
            shown.append(f"{'':<14} the usual file has {entry['expected']} rows: is this another split?")
        if entry["asked"] > entry["rows"]:
            shown.append(f"{'':<14} {entry['asked']} were asked for")
    if missing := manifest["not_deduplicated_against"]:
        shown.append(f"training sets may hold questions of {', '.join(missing)}, which were left out")
    return shown


def _kept(
    source: Source, raw: list[Item], held_out: dict[str, set[str]], seed: int
) -> tuple[list[Item], dict[str, int]]:
    dropped = clean.Dropped()
    if source.kind == "benchmark":  # in its own order, repeated questions as well
        full = [item for item in raw if item.question and item.answer]
        dropped.add("no question or no answer", len(raw) - len(full))
        kept = clean.take(full, range(len(full)), 0, 1.0, grading.readable, dropped)
    else:
        fit = clean.usable(raw, held_out, bool(source.difficulty), dropped)
        indices = clean.order(fit, source.draw, seed)
        kept = clean.take(fit, indices, source.size, source.true_false_share, grading.readable, dropped)
    return kept, dropped.counts


def _entry(
    source: Source, files: list[Path], raw: list[Item], kept: list[Item], dropped: dict[str, int]
) -> dict[str, Any]:
    levels = [item.difficulty for item in kept if item.difficulty is not None]
    return {
        "rows": len(kept),
        "read": len(raw),
        "dropped": dropped,
        "expected": source.rows,
        "asked": source.size,
        "true_false_rows": sum(clean.is_true_false(item.answer) for item in kept),
        "mean_difficulty": round(float(np.mean(levels)), 4) if levels else None,
        "sources": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
        "rule": source.model_dump(exclude_defaults=True),
    }


def _write(path: Path, items: list[Item]) -> tuple[str, str]:
    """(name, sha256) of the file."""
    rows = [{key: value for key, value in asdict(item).items() if value is not None} for item in items]
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(data)
    return path.name, hashlib.sha256(data).hexdigest()


def _found(chosen: dict[str, Source], named: dict[str, str]) -> dict[str, list[Path]]:
    found, missing = {}, []
    for role, source in chosen.items():
        try:
            found[role] = sources.place(source, named.get(role))
        except FileNotFoundError as error:
            missing.append(f"  {role}: {error}")
    if missing:
        raise FileNotFoundError(
            "no data for\n" + "\n".join(missing) + "\ngive a file with --source ROLE=FILE, or leave a set out with "
            "--without ROLE (training sets are then not checked against it)"
        )
    return found


def _named(given: Sequence[str], known: dict[str, Source]) -> dict[str, str]:
    named = {}
    for word in given:
        role, equals, value = word.partition("=")
        if not equals or not value:
            raise ValueError(f"--source {word}: takes ROLE=FILE or ROLE=HUB_ID, such as math500=test.jsonl")
        _known(role, known)
        named[role] = value
    return named


def _known(role: str, known: dict[str, Source]) -> None:
    if role not in known:
        have = f"there are: {', '.join(known)}; a new one is a file experiments/data/source/NAME.yaml"
        raise ValueError(f"no data set '{role}'{nearest(role, known)} ({have})")


def _seed(seed: int, role: str) -> int:
    """A stream of its own for each set, so that a new set changes no other."""
    return int.from_bytes(hashlib.sha256(f"{seed} {role}".encode()).digest()[:8], "big")


def _said(dropped: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in dropped.items()) or "nothing dropped"
