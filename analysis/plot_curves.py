"""Draws training curves: a panel per stratum (and benchmark), a line per arm with its band and the unsmoothed mean.

Takes the finished numbers of `tables.curve_table` or `tables.benchmark_table`. Leaves out: estimation and files.
"""

from typing import TYPE_CHECKING, Any

from analysis import panels, sequential, style, tables
from analysis.load import Sweep
from analysis.panels import Drawing

if TYPE_CHECKING:
    import pandas as pd

MANY = 6  # arms; beyond it a figure is wide, and bands are faint enough to see the lines through them
TALL = 5  # rows of panels; beyond it they are lower


def by_axis(sweep: Sweep, figure: str, width: float = style.WIDTH) -> Drawing | None:
    """`<metric>_by_<axis>`; None where no run has recorded the metric. Raises ValueError for another name."""
    what = tables.curves(sweep, figure)
    data = tables.curve_table(sweep, what)
    if data.empty:
        return None
    said = caption(sweep, data) + panels.held(sweep, what.lines)
    return Drawing(plot(sweep, what, data, width), data, said)


def benchmarks(sweep: Sweep, figure: str, width: float = style.WIDTH) -> Drawing | None:
    """`benchmarks_by_<axis>`: a row per stratum, a column per benchmark; None where none was evaluated.

    Six benchmarks do not fit into one column: a smaller width than `style.WIDTH` is not taken.
    """
    what = tables.benchmark_curves(sweep, figure)
    data = tables.benchmark_table(sweep, what)
    if data.empty:
        return None
    said = caption(sweep, data) + " Every panel has an accuracy axis of its own." + panels.held(sweep, what.lines)
    return Drawing(plot(sweep, what, data, max(width, style.WIDTH)), data, said)


def plot(sweep: Sweep, what: tables.Curves, data: "pd.DataFrame", widest: float = style.WIDTH) -> Any:
    from matplotlib import pyplot

    strata = [{a: v for a, v in panel.items() if a != "benchmark"} for panel in what.panels]
    by_benchmark = what.columns == "benchmark"
    places = _benchmark_places(what) if by_benchmark else panels.places(sweep, what.panels, what.columns, widest)
    rows, columns = 1 + max(r for r, _ in places), 1 + max(c for _, c in places)
    drawn = set(data[what.lines])
    arms = [arm for arm in panels.levels(sweep, what.lines) if arm in drawn]
    labels = [panels.label(sweep, what.lines, arm) for arm in arms]
    many = len(arms) > MANY
    width = min(widest, style.WIDTH if many or columns > 3 else (3.5, 5.0, 6.0)[columns - 1])
    each = 1.02 if by_benchmark else 1.65 if rows <= TALL else 1.35
    height = 0.4 + each * rows + (panels.legend_height(labels, width) if len(arms) > 1 else 0.0)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(width, height), squeeze=False, sharex=True, layout="constrained"
    )
    colours, dashes = panels.colours(sweep, what.lines), panels.dashes(sweep, what.lines)
    baseline = sweep.baseline.get(what.lines or "")
    handles: dict[str, Any] = {}
    for place, panel, stratum in zip(places, what.panels, strata, strict=True):
        axes = grid[place]
        part = panels.rows(data, panel)
        for arm in sorted(arms, key=lambda arm: arm == baseline):  # the baseline last, on top
            for _, piece in part[part[what.lines] == arm].groupby("segment"):
                handles[arm] = _line(axes, piece, colours[arm], dashes[arm], 0.03 if many else 0.13)
        if part.empty:
            panels.empty(axes)
        else:
            _bound(axes, part, ticks=3 if by_benchmark else 5)
        if by_benchmark:
            _benchmark_titles(axes, place, panel["benchmark"], panels.title(sweep, stratum))
        else:
            axes.set_title(panels.title(sweep, stratum))
    panels.hide_rest(grid, places)
    panels.label_below(grid, places, "training step", 7.0 if by_benchmark else 8.0)
    if rows == 1 and not by_benchmark:
        grid[0, 0].set_ylabel(what.label)
    if rows > 1 or by_benchmark:
        figure.supylabel(what.label, fontsize=8, color="#222222")
    if len(arms) > 1:
        panels.legend(figure, what.lines or "", [handles[arm] for arm in arms], labels)
    return figure


def _benchmark_places(what: tables.Curves) -> list[tuple[int, int]]:
    """Rows are strata, columns benchmarks, each in the order in which they come."""
    strata = [tuple(v for a, v in panel.items() if a != "benchmark") for panel in what.panels]
    names = [panel["benchmark"] for panel in what.panels]
    rows, columns = list(dict.fromkeys(strata)), list(dict.fromkeys(names))
    return [(rows.index(s), columns.index(n)) for s, n in zip(strata, names, strict=True)]


def _benchmark_titles(axes: Any, place: tuple[int, int], benchmark: str, stratum: str) -> None:
    """Over the top row the benchmark, beside the first column the stratum."""
    if place[0] == 0:
        axes.set_title(style.words(benchmark))
    if place[1] == 0:
        axes.set_ylabel(stratum.replace(", ", "\n"), fontsize=7)
    axes.tick_params(labelsize=6, pad=2)


def _line(axes: Any, line: "pd.DataFrame", colour: str, dash: Any, shade: float) -> Any:
    axes.plot(line["step"], line["raw"], color=colour, alpha=0.22, linewidth=0.6, zorder=2)
    axes.fill_between(line["step"], line["low"], line["high"], color=colour, alpha=shade, linewidth=0)
    return axes.plot(line["step"], line["mean"], color=colour, linestyle=dash, zorder=3)[0]


def _bound(axes: Any, data: "pd.DataFrame", ticks: int) -> None:
    """The range of the lines with room, so that a wide band at few seeds does not flatten them; few round ticks."""
    from matplotlib.ticker import MaxNLocator

    low, high = float(data[["mean", "raw"]].min().min()), float(data[["mean", "raw"]].max().max())
    room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_ylim(max(0.0, low - room) if low >= 0 else low - room, high + room)
    axes.yaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(min(4, ticks), integer=True, steps=[1, 2, 2.5, 5, 10]))


def caption(sweep: Sweep, data: "pd.DataFrame") -> str:
    low, high = int(data["n"].min()), int(data["n"].max())
    known = sequential.bands(sweep.manifest)
    bands = ", ".join(known[band] for band in dict.fromkeys(data["band"]) if band in known)
    seeds = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"Lines: mean of {seeds} seed{'s' if high > 1 else ''}, each smoothed (centred 11-step mean, then exponential "
        f"0.8); faint: unsmoothed mean. Band: {bands}."
    )
