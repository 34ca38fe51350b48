"""The curves of the HTML report as numbers: per metric and cell the mean over seeds with its band, raw and smoothed,
and every seed beside them; per axis a view that says which cells stand in which panel. The page draws them; it
estimates nothing.

Numbers are rounded to five significant digits. Where a sweep is too large for a page that is sent around, single seeds
are left out, those of the last metrics first, then steps between steps, and the page says so. Leaves out: drawing
(`page/report.js`).
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from analysis import fractional, panels, sequential, smooth, stats, style, tables, text
from analysis.load import Entry, Sweep

if TYPE_CHECKING:
    import pandas as pd

Json = dict[str, Any]
READINGS: dict[str, smooth.Reading] = {"smooth": "paper", "raw": "raw"}  # the page's names -> smooth.py's
NO_ARM = "all runs"
LIMIT = 1_400_000  # characters: half of the page, pictures are the other
NUMBER = 7  # characters that a number takes, its comma included


def wanted() -> set[str]:
    return {key for key, _, _ in tables.METRICS.values()}


def payload(sweep: Sweep, limit: int = LIMIT) -> Json:
    """What the page's script reads; `metrics` is empty where nothing is recorded."""
    cells: dict[tuple[str, ...], list[Entry]] = {}
    views = [_view(sweep, axis, cells) for axis in _axes(sweep)]
    grids: dict[tuple[int, ...], int] = {}
    metrics = [
        {"label": label, "lines": lines}
        for key, label, factor in _metrics(sweep)
        if any(lines := _lines(sweep, list(cells.values()), key, factor))
    ]
    said = _fit(metrics, limit)
    for line in _every(metrics):
        line["x"] = grids.setdefault(tuple(line["x"]), len(grids))
    return {
        "views": views,
        "metrics": metrics,
        "grids": list(grids),
        "bands": sequential.bands(sweep.manifest),
        "left_out": said,
    }


def markup() -> str:
    """The empty places that the script fills."""
    note = (
        "Drag over a panel to zoom; turn the wheel after a click into it, or with Ctrl; double-click to see all. With "
        "the keyboard: arrows move along the steps, + and - zoom, Esc resets. All panels share their axes."
    )
    return (
        '<div id="controls"><label id="compare">Compare <select id="axis"></select></label>'
        '<label>Metric <select id="metric"></select></label>'
        '<label><input type="checkbox" id="smooth" checked> smoothed</label>'
        '<label><input type="checkbox" id="seeds"> single seeds</label>'
        '<label><input type="checkbox" id="band" checked> bands</label>'
        '<button type="button" id="reset" hidden>reset zoom</button></div>'
        '<div id="legend" role="group" aria-label="arms shown"></div><div id="panels"></div>'
        f'<p id="said" class="note"></p><p class="note screen">{note}</p>'
        "<noscript><p>The curves need JavaScript; the Markdown report has them as figures.</p></noscript>"
    )


# -- what stands where ---------------------------------------------------------------------------------------------


def _axes(sweep: Sweep) -> list[str | None]:
    """The axes whose levels are lines: the arms' first, then models, data and the like; None where nothing varies."""
    others = [axis for axis in sweep.varying() if axis not in sweep.baseline]
    return [*sweep.baseline, *others] or [None]


def _view(sweep: Sweep, axis: str | None, cells: dict[tuple[str, ...], list[Entry]]) -> Json:
    """The arms of an axis, its panels, and `places`: [panel, arm, cell]. New cells are added to `cells`."""
    arms = panels.levels(sweep, axis) if axis else [NO_ARM]
    strata, named = panels.strata(sweep, axis), sweep.baseline.get(axis or "")
    colours, dashes = style.arm_colours(arms, named or arms[0]), style.arm_dashes(arms, named or arms[0])
    places = []
    for panel, stratum in enumerate(strata):
        for number, arm in enumerate(arms):
            entries = sweep.having(stratum | ({axis: arm} if axis else {}))
            if entries:
                key = tuple(entry.run for entry in entries)
                cells.setdefault(key, entries)
                places.append([panel, number, list(cells).index(key)])
    return {
        "axis": style.words(axis or ""),
        "arms": [
            {"name": arm, "colour": _ink(colours[arm]), "dash": _dash(dashes[arm]), "baseline": arm == named}
            for arm in arms
        ],
        "panels": [panels.title(sweep, stratum) or sweep.name for stratum in strata],
        "places": places,
    }


def _metrics(sweep: Sweep) -> list[tuple[str, str, float]]:
    """The figures' metrics, the spec's endpoint first."""
    key = sweep.manifest["endpoint"]["metric"]
    factor, _, unit = text.scale(key)
    label = f"{key} ({'%' if factor == 100 else unit})" if unit != key else key
    known = {metric[0]: metric for metric in tables.METRICS.values()}
    return [known.get(key, (key, label, factor)), *(m for k, m in known.items() if k != key)]


# -- lines ---------------------------------------------------------------------------------------------------------


def _lines(sweep: Sweep, cells: list[list[Entry]], key: str, factor: float) -> list[Json | None]:
    """A line per cell, None where none of its runs has recorded the metric."""
    frame = sweep.frame.loc[sweep.frame["metric"] == key, ["run", "step", "value"]].dropna(subset=["value"])
    by_run = {
        str(run): part.set_index("step")["value"].sort_index() * factor
        for run, part in frame.groupby("run", observed=True)
    }
    found: list[Json | None] = []
    for cell in cells:
        runs = [(entry, by_run[entry.run]) for entry in cell if entry.run in by_run]
        runs = fractional.seed_means(runs) if fractional.design(sweep) else runs
        entries = [entry for entry, _ in runs]
        line = _line([curve for _, curve in runs]) if runs else None
        for seed, entry in zip(line["seeds"] if line else [], entries, strict=True):
            seed |= {"seed": entry.seed} | ({"state": entry.state} if entry.state != "done" else {})
        found.append(line)
    return found


def _line(curves: "list[pd.Series]") -> Json:
    """One cell. A mean ends where the first seed ends: over survivors it would jump."""
    import pandas as pd

    seeds: list[Json] = [{} for _ in curves]
    line: Json = {"n": len(curves), "seeds": seeds}
    for name, reading in READINGS.items():
        read = [smooth.smooth(curve, reading) for curve in curves]
        shared = pd.DataFrame(dict(enumerate(r.mean for r in read))).dropna().sort_index()
        band = stats.seed_band(shared, read[0].std.reindex(shared.index) if len(read) == 1 else None)
        line["band"] = band["band"].iloc[0] if len(band) else "none"
        line |= _steps(shared) | {name: {column: rounded(band[column]) for column in ("mean", "low", "high")}}
        for seed, one in zip(seeds, read, strict=True):
            seed |= _steps(one.mean) | {name: rounded(one.mean)}
    return line


def _steps(values: "pd.Series | pd.DataFrame") -> Json:
    """The steps of a line, and where a new piece of it begins, after a gap in the record."""
    x = tuple(map(int, values.index))
    return {"x": list(x), "cuts": list(_cuts(x))}


@lru_cache(maxsize=256)  # most lines have the same steps
def _cuts(steps: tuple[int, ...]) -> tuple[int, ...]:
    import pandas as pd

    pieces = smooth.segments(pd.Series(steps, dtype=float)).tolist()
    return tuple(i for i in range(1, len(pieces)) if pieces[i] != pieces[i - 1])


def rounded(values: Iterable[float]) -> list[float | None]:
    """Five significant digits; what is not finite as null."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]


# -- what a page can hold ------------------------------------------------------------------------------------------


def _every(metrics: list[Json]) -> list[Json]:
    """Every line and every seed's."""
    lines = _means(metrics)
    return lines + [seed for line in lines for seed in line["seeds"]]


def _means(metrics: list[Json]) -> list[Json]:
    return [line for metric in metrics for line in metric["lines"] if line]


def _fit(metrics: list[Json], limit: int) -> str:
    """Thins the lines in place until they fit, single seeds from the last metric on; the sentence that says how."""
    said = 0
    for metric in reversed(metrics):
        if _size(metrics) > limit:
            said += 1
            for line in _means([metric]):
                line["seeds"] = []
    every = 1
    while _size(metrics) > limit and every < 64:
        every *= 2
        for line in _means(metrics):
            _halve(line)
    if not said:
        return ""
    seeds = "single seeds" + (f" of {text.plural(said, 'metric')}, the last listed" if said < len(metrics) else "")
    steps = f", and of longer curves all but each {every}th step" if every > 2 else ""
    steps = ", and of longer curves each second step" if every == 2 else steps
    return f"Left out, for the size of this page: {seeds}{steps}. They are in the run folders."


def _size(metrics: list[Json]) -> int:
    """About: a point of a line is two readings of three numbers, one of a seed two numbers."""
    points = sum(6 * len(line["x"]) + 2 * sum(len(s["x"]) for s in line["seeds"]) for line in _means(metrics))
    return NUMBER * points


def _halve(line: Json) -> None:
    """Every second point of a line with more than 40, its last among them; a cut stays where its piece begins."""
    count = len(line["x"])
    if count <= 40:
        return
    kept = range((count - 1) % 2, count, 2)
    line["x"] = [line["x"][i] for i in kept]
    moved = {sum(i < cut for i in kept) for cut in line["cuts"]}
    line["cuts"] = sorted(cut for cut in moved if 0 < cut < len(kept))
    for name in READINGS:
        line[name] = {column: [values[i] for i in kept] for column, values in line[name].items()}


def _ink(colour: str) -> str:
    """Near-black would sink in the dark: there the page has an ink of its own."""
    return "var(--ink)" if colour == style.BASELINE else colour


def _dash(dash: Any) -> str:
    """matplotlib's dashes, in line widths, for a line of 1.8 pixels."""
    return "" if dash == "-" else " ".join(f"{1.8 * length:g}" for length in dash[1])
