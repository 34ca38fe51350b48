"""Draws training curves: a panel per stratum, a line per arm with its band and the unsmoothed mean behind it.

Takes the finished numbers of `tables.curve_table`. Leaves out: estimation and files.
"""

import math
from typing import TYPE_CHECKING, Any

from analysis import stats, style, tables
from analysis.load import Sweep

if TYPE_CHECKING:
    import pandas as pd

MANY = 6  # arms; beyond it a figure is wide, and bands are faint enough to see the lines through them


def plot(sweep: Sweep, what: tables.Curves, data: "pd.DataFrame") -> Any:
    from matplotlib import pyplot

    places = _grid(what, sweep)
    rows, columns = 1 + max(r for r, _ in places), 1 + max(c for _, c in places)
    arms = sweep.axes[what.lines] if what.lines else [""]
    baseline = sweep.baseline.get(what.lines or "", arms[0])
    many = len(arms) > MANY
    width = style.WIDTH if many or columns > 3 else (3.5, 5.0, 6.0)[columns - 1]
    legend = math.ceil(len(arms) / _per_row(arms, baseline, width)) if many else 1
    height = 0.55 + 1.65 * rows + 0.15 * (legend - 1)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(width, height), squeeze=False, sharex=True, layout="constrained"
    )
    colours, dashes = style.arm_colours(arms, baseline), style.arm_dashes(arms, baseline)
    handles: dict[str, Any] = {}
    for place, panel in zip(places, what.panels, strict=True):
        axes = grid[place]
        axes.set_title(", ".join(style.words(level) for level in panel.values()))
        part = data[_rows(data, panel)]
        for arm in sorted(arms, key=lambda arm: arm == baseline):  # the baseline last, on top
            line = part[part[what.lines] == arm] if what.lines else part
            for _, piece in line.groupby("segment"):
                handles[arm] = _line(axes, piece, colours[arm], dashes[arm], 0.03 if many else 0.13)
        if part.empty:
            axes.text(0.5, 0.5, "nothing recorded", transform=axes.transAxes, ha="center", color=style.MUTED)
        else:
            _bound(axes, part)
    for place, axes in _indexed(grid):
        if place not in places:
            axes.set_visible(False)
    for row, column in places:
        if (row + 1, column) not in places:
            grid[row, column].set_xlabel("training step")
            grid[row, column].tick_params(labelbottom=True)
        if column == 0 and rows == 1:
            grid[row, column].set_ylabel(what.label)
    if rows > 1:
        figure.supylabel(what.label, fontsize=8, color="#222222")
    if what.lines and len(handles) > 1:
        _legend(figure, what.lines, [arm for arm in arms if arm in handles], handles, baseline)
    return figure


def _grid(what: tables.Curves, sweep: Sweep) -> list[tuple[int, int]]:
    """Where each panel goes: one axis in columns and the rest in rows; a single axis wraps after four."""
    others = sweep.varying(without=what.lines)
    if len(others) < 2:
        return [divmod(i, 4) for i in range(len(what.panels))]
    rest = list(dict.fromkeys(tuple(v for a, v in panel.items() if a != what.columns) for panel in what.panels))
    levels = [v for v in sweep.axes[what.columns or ""] if any(p[what.columns or ""] == v for p in what.panels)]
    return [
        (
            rest.index(tuple(v for a, v in panel.items() if a != what.columns)),
            levels.index(panel[what.columns or ""]),
        )
        for panel in what.panels
    ]


def _line(axes: Any, line: "pd.DataFrame", colour: str, dash: Any, shade: float) -> Any:
    axes.plot(line["step"], line["raw"], color=colour, alpha=0.22, linewidth=0.6, zorder=2)
    axes.fill_between(line["step"], line["low"], line["high"], color=colour, alpha=shade, linewidth=0)
    return axes.plot(line["step"], line["mean"], color=colour, linestyle=dash, zorder=3)[0]


def _legend(figure: Any, axis: str, arms: list[str], handles: dict[str, Any], baseline: str) -> None:
    """One for the figure, above it; as many entries in a row as its width holds."""
    figure.legend(
        [handles[arm] for arm in arms],
        [_text(arm, baseline) for arm in arms],
        title=axis,
        title_fontsize=7.5,
        loc="outside upper center",
        ncols=_per_row(arms, baseline, figure.get_figwidth()),
        columnspacing=1.4,
        handlelength=2.6,
        frameon=False,
    )


def _text(arm: str, baseline: str) -> str:
    return f"{arm} (baseline)" if arm == baseline else arm


def _per_row(arms: list[str], baseline: str, width: float) -> int:
    """How many entries of the legend fit beside each other."""
    widest = 0.5 + 0.062 * max(len(_text(arm, baseline)) for arm in arms)  # inches: handle and text at this size
    return max(1, min(len(arms), int(width / widest)))


def _bound(axes: Any, data: "pd.DataFrame") -> None:
    """The range of the lines with room, so that a wide band at few seeds does not flatten them; few round ticks."""
    from matplotlib.ticker import MaxNLocator

    low, high = float(data[["mean", "raw"]].min().min()), float(data[["mean", "raw"]].max().max())
    room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_ylim(max(0.0, low - room) if low >= 0 else low - room, high + room)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 2.5, 5, 10]))


def _rows(data: "pd.DataFrame", panel: dict[str, str]) -> "pd.Series":
    chosen = data["step"].notna()
    for axis, level in panel.items():
        chosen &= data[axis] == level
    return chosen


def _indexed(grid: Any) -> list[tuple[tuple[int, int], Any]]:
    return [((r, c), grid[r, c]) for r in range(grid.shape[0]) for c in range(grid.shape[1])]


def caption(data: "pd.DataFrame") -> str:
    low, high = int(data["n"].min()), int(data["n"].max())
    bands = ", ".join(stats.BANDS[band] for band in dict.fromkeys(data["band"]) if band in stats.BANDS)
    seeds = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"Lines: mean of {seeds} seed{'s' if high > 1 else ''}, each smoothed (centred 11-step mean, then exponential "
        f"0.8); faint: unsmoothed mean. Band: {bands}."
    )
