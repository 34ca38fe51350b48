"""Draws how hard the prompts are for a model before it trains: prompts by their number of right responses.

A bar per level of the axis (data), grouped by the other axes (models), the arms at their baseline; from the first
training step, whose responses are sampled before any update. Leaves out: how that changes (`train/accuracy`).
"""

import math
from typing import TYPE_CHECKING, Any

from analysis import panels, style, tokens
from analysis.load import Sweep
from analysis.panels import Drawing

if TYPE_CHECKING:
    import pandas as pd

FIRST = 1  # training steps: only the first samples from the model as it was given
ROOM = 0.35  # inches of a bar; a narrower part has no number in it


def draw(sweep: Sweep, figure: str, width: float = style.WIDTH) -> Drawing:
    """`difficulty_by_<axis>`."""
    axis = panels.axis_of(sweep, figure)
    strata = panels.strata(sweep, axis)
    data = table(sweep, axis, strata)
    said = (
        "Prompts by their number of right responses in the first training step, before any update; all seeds pooled "
        "(n: prompts). Baseline arms."
    )
    return Drawing(_bars(sweep, axis, strata, data, width), data, said)


def table(sweep: Sweep, axis: str, strata: list[panels.Stratum]) -> "pd.DataFrame":
    """The stratum's axes, `axis`, right, prompts, share in percent of the bar's prompts."""
    import pandas as pd

    rows = []
    for stratum in strata:
        for level in panels.planned(sweep, stratum, axis):
            runs = [entry.run for entry in sweep.having(stratum | {axis: level})]
            counted = list(tokens.groups(sweep, runs, FIRST).values())
            for right in range(max(map(len, counted), default=0)):
                prompts = sum(groups[right] for groups in counted if right < len(groups))
                rows.append(stratum | {axis: level, "right": right, "prompts": prompts})
    found = pd.DataFrame(rows, columns=[*strata[0], axis, "right", "prompts"])
    sums = found.groupby([*strata[0], axis], observed=True)["prompts"].transform("sum")
    return found.assign(share=100 * found["prompts"] / sums)


def _bars(sweep: Sweep, axis: str, strata: list[panels.Stratum], data: "pd.DataFrame", width: float) -> Any:
    from matplotlib import colormaps, pyplot

    most = int(data["right"].max()) if len(data) else 1
    shade = [colormaps["viridis"](0.05 + 0.92 * right / most) for right in range(most + 1)]
    places, headings, height = _layout(sweep, axis, strata)
    figure, axes = pyplot.subplots(figsize=(width, 0.75 + 0.2 * height), layout="constrained")
    for (number, level), y in places.items():
        part = panels.rows(data, strata[number] | {axis: level})
        left = 0.0
        for right, share in zip(part["right"], part["share"], strict=True):
            axes.barh(y, share, 0.78, left=left, color=shade[right], edgecolor="white", linewidth=0.4)
            if share * width / 100 >= ROOM:
                ink = "white" if right < 0.6 * most else "#222222"
                axes.text(left + share / 2, y, f"{share:.0f}", ha="center", va="center", color=ink, fontsize=6)
            left += share
        said = f"n = {int(part['prompts'].sum())}" if len(part) else panels.NOT_RECORDED
        axes.text(101 if len(part) else 1, y, said, va="center", fontsize=6, color=style.MUTED)
    axes.set_yticks(list(places.values()), [style.words(level) for _, level in places])
    for text, y in headings:
        axes.text(0, y, text, transform=axes.get_yaxis_transform(), va="center", fontweight="bold", fontsize=7)
    axes.set_xlim(0, 108)
    axes.set_xticks(range(0, 101, 20))
    axes.set_ylim(height - 0.4, -0.7)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(False)
    axes.set_xlabel("prompts (%)")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in shade]
    figure.legend(
        handles,
        [str(right) for right in range(most + 1)],
        title="right responses to a prompt",
        title_fontsize=7.5,
        loc="outside upper center",
        ncols=min(most + 1, math.floor(width / 0.55)),
        handlelength=1.2,
        columnspacing=1.0,
        frameon=False,
    )
    return figure


def _layout(
    sweep: Sweep, axis: str, strata: list[panels.Stratum]
) -> tuple[dict[tuple[int, str], float], list[tuple[str, float]], float]:
    """A height for each bar, a heading over each stratum, and the height of all."""
    places: dict[tuple[int, str], float] = {}
    headings, y = [], 0.0
    for number, stratum in enumerate(strata):
        if title := panels.title(sweep, stratum):
            headings.append((title, y))
            y += 0.9
        for level in panels.planned(sweep, stratum, axis):
            places[number, level] = y
            y += 1.0
        y += 0.25
    return places, headings, y
