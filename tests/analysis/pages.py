"""What the tests of the HTML report read it with, and a sweep that has everything that can go wrong in a page."""

import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from analysis import load, tables
from harness import store
from tests.analysis.conftest import change_manifest, write_sweep

EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """The cells of every table row, the scripts, and every attribute that could name a resource."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.scripts: list[str] = []
        self.links: list[tuple[str, str, str]] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [(tag, key, value or "") for key, value in attrs if key in ("src", "href", "srcset", "data")]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "script":
            self.scripts.append("")
        self.inside = tag if tag in ("td", "th", "script") else self.inside

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "script"):
            self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in ("td", "th"):
            self.rows[-1][-1] += data
        elif self.inside == "script":
            self.scripts[-1] += data

    def data(self) -> dict[str, Any]:
        return json.loads(self.scripts[0], parse_constant=lambda c: pytest.fail(c))

    def line(self, metric: str, panel: str, arm: str, view: int = 0) -> dict[str, Any]:
        """The line that the page draws there, with its steps."""
        data = self.data()
        shown, lines = data["views"][view], next(m["lines"] for m in data["metrics"] if m["label"] == metric)
        place = [shown["panels"].index(panel), [a["name"] for a in shown["arms"]].index(arm)]
        line = lines[next(cell for *where, cell in shown["places"] if where == place)]
        seeds = [seed | {"x": data["grids"][seed["x"]]} for seed in line["seeds"]]
        return line | {"x": data["grids"][line["x"]], "seeds": seeds}


def busy_sweep(root: Path) -> Path:
    """40 runs of 50 steps with every metric, a label that is a script, and one run of each way to be missing."""

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        lift = 0.1 * (labels["arm"] == "other") * math.log1p(step)
        wave = 0.02 * math.sin(step * (seed + 2) + len(labels["model"]))
        return {key: (0.2 + 0.01 * seed + lift + wave) for key, _, _ in tables.METRICS.values()}

    axes = {"model": ["small_base", "large"], "arm": ["plain", EVIL, "other", "a_much_longer_name"], "data": ["easy"]}
    write_sweep(root, axes, {"arm": "plain"}, curve, seeds=5, steps=50, every=5)
    change_manifest(root, question=f"Is {EVIL} shown, and {{{{data}}}}?", source='arXiv:2508.08221 "x" </script>')
    runs = {(e.labels["model"], e.labels["arm"], e.seed): e.run for e in load.load(root, "made").runs}
    states = (("failed", {"error": f'ValueError: "{EVIL}"'}), ("diverged", {}), ("cancelled", {}), ("stopped", {}))
    for seed, (state, fields) in enumerate(states):
        store.Run(root / "runs" / runs["large", "a_much_longer_name", seed]).write_status(state, **fields)
    return root
