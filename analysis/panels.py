"""What the figures share: which strata get a panel and where it stands, titles, legends, a place without a record.

A stratum gets a panel when it plans at least two levels of the axis that is compared: in a one-at-a-time design all
others hold one run each. Leaves out: numbers (`tables.py`, `tokens.py`), files (`figures.py`).
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis import fractional, style
from analysis.load import NOT_SET, Sweep
from harness.config import nearest

if TYPE_CHECKING:
    import pandas as pd

Stratum = dict[str, str]
NOT_RECORDED = "not recorded"
PANEL = 1.65  # inches: the least width of a panel of curves


class Drawing(NamedTuple):
    """A figure that is not yet a file."""

    figure: Any
    data: "pd.DataFrame"  # exactly the plotted numbers
    caption: str


def axis_of(sweep: Sweep, figure: str) -> str:
    """The axis that a figure's name ends with. Raises ValueError where the sweep has none of that name."""
    by = figure.partition("_by_")[2]
    if by not in sweep.axes:
        have = ", ".join(sweep.axes) or "none"
        raise ValueError(
            f"figures: '{figure}': the sweep has no axis '{by}' (there are: {have}){nearest(by, sweep.axes)}"
        )
    return by


def levels(sweep: Sweep, axis: str | None) -> list[str]:
    """What is compared along an axis, in the spec's order; a run that the axis does not reach is no level of it."""
    found = sweep.axes[axis] if axis else [""]
    return [level for level in found if level != NOT_SET] or found


def strata(sweep: Sweep, axis: str | None) -> list[Stratum]:
    """Those that plan two levels of `axis` or more; all of them where none does.

    Along an axis that is no arm's (models, data) the arms stand at their baselines.
    """
    of = fractional.design(sweep)
    every = fractional.strata(sweep, of) if of is not None and axis in of["factors"] else sweep.strata(axis)
    if axis is None:
        return every
    if axis not in sweep.baseline:
        every = sweep.plain(every) or every
    several = [s for s in every if len(planned(sweep, s, axis)) > 1]
    return several or every


def planned(sweep: Sweep, stratum: Stratum, axis: str) -> list[str]:
    return [level for level in levels(sweep, axis) if sweep.having(stratum | {axis: level})]


def title(sweep: Sweep, stratum: Stratum) -> str:
    return style.place(sweep.shown(stratum))


def held(sweep: Sweep, axis: str | None) -> str:
    """The sentence that says where the other arms stand; empty where there are none."""
    of = fractional.design(sweep)
    if of is not None and axis in of["factors"]:
        runs = of["runs"] // 2
        return f" A fraction: every level is the mean of {runs} runs a seed, over both levels of every other arm."
    others = [f"{style.words(a)} = {level}" for a, level in sweep.baseline.items() if a != axis]
    return f" Unless a title says otherwise: {', '.join(others)}." if others else ""


def varying(panels: Sequence[Stratum]) -> list[str]:
    """The axes along which the panels differ, in the order of the panels' own keys."""
    return [axis for axis in (panels[0] if panels else {}) if len({panel[axis] for panel in panels}) > 1]


def places(sweep: Sweep, panels: Sequence[Stratum], columns: str | None, width: float) -> list[tuple[int, int]]:
    """(row, column) of each panel: the axis `columns` from left to right and the rest downwards.

    Panels that differ along one axis only, and those of an axis with more levels than the width holds, wrap.
    """
    differ, per_row = varying(panels), int(width / PANEL)
    if len(differ) < 2 or columns not in differ or len({panel[columns] for panel in panels}) > per_row:
        return [divmod(i, per_row) for i in range(len(panels))]
    rest = list(dict.fromkeys(tuple(panel[a] for a in differ if a != columns) for panel in panels))
    there = {panel[columns] for panel in panels}
    across = [level for level in sweep.axes.get(columns, sorted(there)) if level in there]
    return [
        (rest.index(tuple(panel[a] for a in differ if a != columns)), across.index(panel[columns])) for panel in panels
    ]


def rows(data: "pd.DataFrame", wanted: Stratum) -> "pd.DataFrame":
    """The rows with these labels."""
    chosen = data[next(iter(wanted))].notna() if wanted and len(data) else slice(None)
    for axis, level in wanted.items() if len(data) else ():
        chosen &= data[axis] == level
    return data[chosen]


def colours(sweep: Sweep, axis: str | None) -> dict[str, str]:
    """Near-black is the baseline's, or where the sweep has none the first level's."""
    arms = levels(sweep, axis)
    return style.arm_colours(arms, sweep.baseline.get(axis or "", "" if sweep.baseline else arms[0]))


def dashes(sweep: Sweep, axis: str | None) -> dict[str, Any]:
    arms = levels(sweep, axis)
    return style.arm_dashes(arms, sweep.baseline.get(axis or "", arms[0]))


def label(sweep: Sweep, axis: str | None, arm: str) -> str:
    """An arm for people: what it is, and whether the others are compared with it."""
    text = style.words(arm)
    return f"{text} (baseline)" if axis and sweep.baseline.get(axis) == arm else text


def legend(figure: Any, heading: str, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """One for the figure, above it; as many entries in a row as its width holds."""
    figure.legend(
        list(handles),
        list(labels),
        title=style.words(heading),
        title_fontsize=7.5,
        loc="outside upper center",
        ncols=per_row(labels, figure.get_figwidth()),
        columnspacing=1.4,
        handlelength=2.6,
        frameon=False,
    )


def legend_height(labels: Sequence[str], width: float) -> float:
    """Inches that `legend` takes."""
    return 0.2 + 0.15 * math.ceil(len(labels) / per_row(labels, width)) if labels else 0.0


def per_row(labels: Sequence[str], width: float) -> int:
    """How many entries of the legend fit beside each other."""
    widest = 0.5 + 0.062 * max(map(len, labels))  # inches: handle and text at this size
    return max(1, min(len(labels), int(width / widest)))


def empty(axes: Any, text: str = NOT_RECORDED) -> None:
    """A panel of a planned stratum that has nothing to show says so."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=style.MUTED)
    axes.tick_params(axis="y", left=False, labelleft=False)
    axes.grid(False)


def label_below(grid: Any, used: Iterable[tuple[int, int]], text: str, size: float = 8.0) -> None:
    """The x axis of the lowest panel of each column: its ticks, and what they mean."""
    taken = list(used)
    for row, column in taken:
        if (row + 1, column) not in taken:
            grid[row, column].set_xlabel(text, fontsize=size)
            grid[row, column].tick_params(labelbottom=True)


def hide_rest(grid: Any, used: Iterable[tuple[int, int]]) -> None:
    """Cells of a grid of axes that no panel fills."""
    taken = set(used)
    for row in range(grid.shape[0]):
        for column in range(grid.shape[1]):
            if (row, column) not in taken:
                grid[row, column].set_visible(False)
