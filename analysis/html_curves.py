"""The curves of the HTML report as numbers: per metric, stratum and arm the mean over seeds with its band, raw and
smoothed, and every seed beside them. The page draws them; it estimates nothing.

Numbers are rounded to five significant digits. Leaves out: drawing (`page/report.js`).
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from analysis import smooth, stats, style, tables, text
from analysis.load import Sweep

if TYPE_CHECKING:
    import pandas as pd

Json = dict[str, Any]
READINGS: dict[str, smooth.Reading] = {"smooth": "paper", "raw": "raw"}  # the page's names -> smooth.py's
NO_ARM = "all runs"


def wanted() -> set[str]:
    return {key for key, _, _ in tables.METRICS.values()}


def lines_axis(sweep: Sweep) -> str | None:
    """The axis whose levels are lines: the arms', or where no baseline is named the first that varies."""
    return sweep.arm_axis or next(iter(sweep.varying()), None)


def payload(sweep: Sweep) -> Json:
    """What the page's script reads; `metrics` is empty where nothing is recorded."""
    axis = lines_axis(sweep)
    arms = sweep.axes[axis] if axis else [NO_ARM]
    named = sweep.baseline.get(axis or "")
    baseline = named or arms[0]
    colours, dashes = style.arm_colours(arms, baseline), style.arm_dashes(arms, baseline)
    panels = sweep.strata(axis)
    return {
        "axis": style.words(axis or ""),
        "arms": [
            {"name": arm, "colour": _ink(colours[arm]), "dash": _dash(dashes[arm]), "baseline": arm == named}
            for arm in arms
        ],
        "panels": [", ".join(style.words(level) for level in panel.values()) or sweep.name for panel in panels],
        "metrics": [
            {"label": label, "lines": lines}
            for key, label, factor in _metrics(sweep)
            if (lines := _lines(sweep, axis, panels, arms, key, factor))
        ],
        "bands": stats.BANDS,
    }


def markup() -> str:
    """The empty places that the script fills."""
    note = (
        "Drag over a panel to zoom; turn the wheel after a click into it, or with Ctrl; double-click to see all. With "
        "the keyboard: arrows move along the steps, + and - zoom, Esc resets. All panels share their axes."
    )
    return (
        '<div id="controls"><label>Metric <select id="metric"></select></label>'
        '<label><input type="checkbox" id="smooth" checked> smoothed</label>'
        '<label><input type="checkbox" id="seeds"> single seeds</label>'
        '<label><input type="checkbox" id="band" checked> bands</label>'
        '<button type="button" id="reset" hidden>reset zoom</button></div>'
        '<div id="legend" role="group" aria-label="arms shown"></div><div id="panels"></div>'
        f'<p id="said" class="note"></p><p class="note screen">{note}</p>'
        "<noscript><p>The curves need JavaScript; the Markdown report has them as figures.</p></noscript>"
    )


def _metrics(sweep: Sweep) -> list[tuple[str, str, float]]:
    """The figures' metrics, the spec's endpoint first."""
    key = sweep.manifest["endpoint"]["metric"]
    factor, _, unit = text.scale(key)
    label = f"{key} ({'%' if factor == 100 else unit})" if unit != key else key
    known = {metric[0]: metric for metric in tables.METRICS.values()}
    return [known.get(key, (key, label, factor)), *(m for k, m in known.items() if k != key)]


def _lines(
    sweep: Sweep, axis: str | None, panels: list[dict[str, str]], arms: list[str], key: str, factor: float
) -> list[Json]:
    frame = sweep.frame[sweep.frame["metric"] == key].dropna(subset=["value"])
    by_run = {
        str(run): part.set_index("step")["value"].sort_index() * factor
        for run, part in frame.groupby("run", observed=True)
    }
    found = []
    for place, panel in enumerate(panels):
        for number, arm in enumerate(arms):
            entries = [e for e in sweep.having(panel | ({axis: arm} if axis else {})) if e.run in by_run]
            if entries:
                line = _line([by_run[e.run] for e in entries])
                for seed, entry in zip(line["seeds"], entries, strict=True):
                    seed |= {"seed": entry.seed} | ({"state": entry.state} if entry.state != "done" else {})
                found.append({"panel": place, "arm": number} | line)
    return found


def _line(curves: "list[pd.Series]") -> Json:
    """One arm in one stratum. A mean ends where the first seed ends: over survivors it would jump."""
    import pandas as pd

    seeds: list[Json] = [{} for _ in curves]
    line: Json = {"n": len(curves), "seeds": seeds}
    for name, reading in READINGS.items():
        read = [smooth.smooth(curve, reading) for curve in curves]
        shared = pd.DataFrame(dict(enumerate(r.mean for r in read))).dropna().sort_index()
        band = stats.seed_band(shared, read[0].std.reindex(shared.index) if len(read) == 1 else None)
        line["band"] = band["band"].iloc[0] if len(band) else "none"
        line["x"] = [int(step) for step in shared.index]
        line["cuts"] = _cuts(shared.index.to_series())
        line[name] = {column: rounded(band[column]) for column in ("mean", "low", "high")}
        for seed, one in zip(seeds, read, strict=True):
            seed["x"] = [int(step) for step in one.mean.index]
            seed["cuts"] = _cuts(one.mean.index.to_series())
            seed[name] = rounded(one.mean)
    return line


def _cuts(steps: "pd.Series") -> list[int]:
    """Where a new piece of the line begins, after a gap in the record."""
    pieces = smooth.segments(steps)
    return [i for i in range(1, len(pieces)) if pieces.iloc[i] != pieces.iloc[i - 1]]


def rounded(values: Iterable[float]) -> list[float | None]:
    """Five significant digits; what is not finite as null."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]


def _ink(colour: str) -> str:
    """Near-black would sink in the dark: there the page has an ink of its own."""
    return "var(--ink)" if colour == style.BASELINE else colour


def _dash(dash: Any) -> str:
    """matplotlib's dashes, in line widths, for a line of 1.8 pixels."""
    return "" if dash == "-" else " ".join(f"{1.8 * length:g}" for length in dash[1])
