"""Draws a search: for each arm a row with every trial's value, in their order and against each searched axis.

Leaves out: numbers (`search.py`), files (`figures.py`).
"""

import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis import panels, search, style, text
from analysis.load import Sweep
from analysis.panels import Drawing
from analysis.search import Study, Trial

if TYPE_CHECKING:
    import pandas as pd

FIRST, ROW = 1.1, 0.92  # inches: all but the rows, a row
LEAST = 1.25  # inches: the width of a panel
WITHIN = 0.5  # of the width of a level, over which its trials are spread
BELOW, ABOVE = 0.2, 0.15  # of the range of values: room for the trials without one, and for the ring
LOST = {"diverged": "x", "failed": "+", "pruned": "|"}  # state -> mark of a trial without a value
TRIAL = "trial"  # the first column's axis


def draw(sweep: Sweep) -> Drawing | None:
    """`search`; None without a search, and before its first trial has ended."""
    if not sweep.manifest.get("search"):
        return None
    studies = search.studies(sweep.folder.parents[1], sweep.name, sweep.manifest)
    if all(trial.state == "running" for study in studies for trial in study.trials):
        return None
    end, asked = sweep.manifest["endpoint"], sweep.manifest["search"]
    seeds = f"{text.plural(len(asked['seeds']), 'seed')} ({', '.join(map(str, asked['seeds']))})"
    said = (
        f"Each point is a trial: {end['metric']}, mean of the last {end['last']} evaluations, over {seeds}. Ringed: "
        "the chosen setting; open: runs of another sweep, on its seeds; line: the best so far. At the lower edge the "
        "trials without a value: × diverged, + failed, | pruned. On a level, trials stand in their order. The best of "
        "many values looks too good; the verdict is of fresh seeds."
    )
    return Drawing(_page(sweep, studies), table(sweep, studies), said)


def table(sweep: Sweep, studies: list[Study]) -> "pd.DataFrame":
    """A row per trial: the arm's axes, trial, state, value, best (so far), chosen, imported, then the searched axes.

    Values are in shown units; `best` is NaN before the first value.
    """
    import pandas as pd

    end, over = sweep.manifest["endpoint"], search.axes(sweep.manifest)
    factor = text.scale(end["metric"])[0]
    rows = []
    for study in studies:
        for trial, best in zip(study.trials, _best(study, end["goal"]), strict=True):
            value = math.nan if trial.value is None else factor * trial.value
            rows.append(
                study.labels
                | {TRIAL: trial.number, "state": trial.state, "value": value, "best": factor * best}
                | {"chosen": trial.number == study.chosen, "imported": trial.imported}
                | {axis: trial.params.get(axis) for axis in over}
            )
    return pd.DataFrame(rows)


def _best(study: Study, goal: str) -> list[float]:
    """The best value of the trials up to each."""
    found = [search.best(Study({}, study.trials[: i + 1], None), goal) for i in range(len(study.trials))]
    return [math.nan if trial is None or trial.value is None else trial.value for trial in found]


def _page(sweep: Sweep, studies: list[Study]) -> Any:
    """A row per arm; one scale of values for all, so that arms can be compared."""
    from matplotlib import pyplot

    over, metric = search.axes(sweep.manifest), sweep.manifest["endpoint"]["metric"]
    factor, _, unit = text.scale(metric)
    columns = 1 + len(over)
    figure, grid = pyplot.subplots(
        len(studies),
        columns,
        figsize=(max(style.WIDTH, LEAST * columns), FIRST + ROW * len(studies)),
        sharex="col",
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    colours = panels.colours(sweep, sweep.arm_axis)
    longest = max(trial.number for study in studies for trial in study.trials)
    for row, study in zip(grid, studies, strict=True):
        colour = colours.get(study.labels.get(sweep.arm_axis or "", ""), style.BASELINE)
        _trials(row[0], sweep, study, colour)
        for axes, axis in zip(row[1:], over, strict=True):
            _against(axes, sweep, study, axis, colour)
        row[0].set_title(style.place(study.labels), loc="left", fontsize=7.5, pad=3)
    for axes, (axis, kind) in zip(grid[-1], [(TRIAL, {}), *over.items()], strict=True):
        axes.set_xlabel(textwrap.fill(style.words(axis), 17))
        _ticks(axes, {"low": 0, "high": max(longest, 1), "log": False} if axis == TRIAL else kind)
    values = [factor * t.value for study in studies for t in study.trials if t.value is not None]
    if values:
        reach = max(values) - min(values) or abs(max(values)) or 1.0
        grid[0, 0].set_ylim(min(values) - BELOW * reach, max(values) + ABOVE * reach)
    grid[0, 0].locator_params(axis="y", nbins=4)
    figure.supylabel(f"{metric} ({unit})", fontsize=8)
    return figure


def _trials(axes: Any, sweep: Sweep, study: Study, colour: str) -> None:
    """Values in the order of the trials."""
    factor = text.scale(sweep.manifest["endpoint"]["metric"])[0]
    best = [factor * value for value in _best(study, sweep.manifest["endpoint"]["goal"])]
    axes.step([trial.number for trial in study.trials], best, where="post", color=colour, linewidth=0.8, alpha=0.6)
    for trial in study.trials:
        _mark(axes, trial, trial.number, factor, colour, chosen=trial.number == study.chosen)


def _against(axes: Any, sweep: Sweep, study: Study, axis: str, colour: str) -> None:
    """Values of the trials that have the axis; levels stand beside each other in the spec's order."""
    factor = text.scale(sweep.manifest["endpoint"]["metric"])[0]
    kind = sweep.manifest["search"]["over"][axis]
    if kind.get("log"):
        axes.set_xscale("log")
    levels = [str(level) for level in kind.get("levels", ())]
    for trial in study.trials:
        if axis in trial.params:
            given = trial.params[axis]
            spread = WITHIN * (trial.number / max(1, len(study.trials) - 1) - 0.5)
            at = levels.index(str(given)) + spread if levels else given
            _mark(axes, trial, at, factor, colour, chosen=trial.number == study.chosen)


def _mark(axes: Any, trial: Trial, x: float, factor: float, colour: str, *, chosen: bool) -> None:
    if trial.value is not None:
        face = "white" if trial.imported else colour
        axes.plot(x, factor * trial.value, "o", color=colour, markerfacecolor=face, markersize=3, mew=0.8, zorder=3)
    if chosen and trial.value is not None:
        axes.plot(x, factor * trial.value, "o", color=colour, markerfacecolor="none", markersize=8, mew=1.1, zorder=4)
    if trial.state in LOST:
        low = axes.get_xaxis_transform()
        axes.plot(x, 0.05, LOST[trial.state], color=style.MUTED, markersize=4, mew=0.9, transform=low, zorder=3)


def _ticks(axes: Any, kind: Mapping[str, Any]) -> None:
    """The ends of a range alone, or the levels: what is between would not fit beside the next panel's."""
    from matplotlib import ticker

    if "levels" in kind:
        levels = [textwrap.shorten(style.words(str(level)), 18, placeholder="…") for level in kind["levels"]]
        long = sum(map(len, levels)) > 12
        axes.set_xticks(range(len(levels)), levels, rotation=90 if long else 0)
        axes.set_xlim(-0.6, len(levels) - 0.4)
        return
    low, high = float(kind["low"]), float(kind["high"])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.set_xticks([low, high], [_short(low), _short(high)], fontsize=6.5)
    room = 0.08
    if kind["log"]:
        axes.set_xlim(low * (low / high) ** room, high * (high / low) ** room)
    else:
        axes.set_xlim(low - room * (high - low), high + room * (high - low))


def _short(value: float) -> str:
    """In as few characters as it takes: 0.01, 1e-4, 1.25e-4."""
    mantissa, exponent = f"{value:.2e}".split("e")
    return min(f"{value:g}", f"{float(mantissa):g}e{int(exponent)}", key=len)
