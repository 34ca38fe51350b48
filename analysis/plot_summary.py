"""Draws where each arm ends: the endpoint's mean over seeds with its 95 % t interval, every seed beside it.

A panel per stratum, a row per arm of one axis: the spec's main one, or the one that is named. The interval is of the
arm alone; arms share seeds, so differences are known better than these intervals suggest. Leaves out: those
differences (`plot_effects.py`).
"""

import math
from typing import TYPE_CHECKING, Any

from analysis import panels, scores, sequential, stats, style, text
from analysis.load import Sweep
from analysis.panels import Drawing

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"  # in the place of a seed: the mean


def draw(sweep: Sweep) -> Drawing | None:
    """`summary`: by the spec's main axis of arms; None where it has none, or nothing has finished."""
    return _draw(sweep, sweep.arm_axis, style.WIDTH) if sweep.arm_axis else None


def by_axis(sweep: Sweep, figure: str, width: float = style.WIDTH) -> Drawing | None:
    """`summary_by_<axis>`; None where nothing has finished."""
    return _draw(sweep, panels.axis_of(sweep, figure), width)


def _draw(sweep: Sweep, axis: str, width: float) -> Drawing | None:
    strata = panels.strata(sweep, axis)
    data = table(sweep, axis, strata)
    if data.empty:
        return None
    end = sweep.manifest["endpoint"]
    said = (
        f"{end['metric']}, mean of the last {end['last']} evaluations. Large: mean over seeds with a 95 % t interval "
        "(three seeds or more); small: each seed. Intervals are of each arm alone; differences, which pair seeds, are "
        "in the figure `effects`. Line: mean of the baseline."
        f"{sequential.beside(sweep.manifest)}"
    )
    return Drawing(_plot(sweep, axis, strata, data, width), data, said + panels.held(sweep, axis))


def table(sweep: Sweep, axis: str, strata: list[panels.Stratum]) -> "pd.DataFrame":
    """The stratum's axes, `axis`, seed ("all": the mean), value, low, high, n; in the unit in which it is shown."""
    import pandas as pd

    end = sweep.manifest["endpoint"]
    factor = text.scale(end["metric"])[0]
    by_run = scores.run_scores(sweep, end["metric"], scores.reader(sweep, "last"))
    rows: list[dict[str, Any]] = []
    for stratum in strata:
        for arm in panels.planned(sweep, stratum, axis):
            entries = sweep.having(stratum | {axis: arm})
            found = {e.seed: factor * by_run[e.run] for e in entries if not math.isnan(by_run.get(e.run, math.nan))}
            if not found:
                continue
            mean = stats.paired(list(found.values()))  # of one sample it is the interval of a mean
            low, high = (mean.low, mean.high) if mean.n >= stats.MIN_PAIRS else (math.nan, math.nan)
            common = stratum | {axis: arm}
            rows.append(common | {"seed": ALL, "value": mean.mean, "low": low, "high": high, "n": mean.n})
            rows += [common | {"seed": str(seed), "value": value, "n": 1} for seed, value in found.items()]
    return pd.DataFrame(rows)


def _plot(sweep: Sweep, axis: str, strata: list[panels.Stratum], data: "pd.DataFrame", widest: float) -> Any:
    from matplotlib import pyplot

    arms = [arm for arm in panels.levels(sweep, axis) if arm in set(data[axis])]
    columns = min(int(widest / panels.PANEL), len(strata))
    rows = math.ceil(len(strata) / columns)
    width = min(widest, style.WIDTH if columns > 2 else 2.6 * columns + 0.9)
    figure, grid = pyplot.subplots(
        rows,
        columns,
        figsize=(width, 0.35 + rows * (0.4 + 0.18 * len(arms))),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    colours, baseline = panels.colours(sweep, axis), sweep.baseline.get(axis)
    places = [divmod(i, columns) for i in range(len(strata))]
    for place, stratum in zip(places, strata, strict=True):
        axes, part = grid[place], panels.rows(data, stratum)
        axes.set_title(panels.title(sweep, stratum))
        for y, arm in enumerate(arms):
            _dots(axes, y, part[part[axis] == arm], colours[arm], line=arm == baseline)
        axes.set_yticks(range(len(arms)), [panels.label(sweep, axis, arm) for arm in arms])
        axes.set_ylim(len(arms) - 0.4, -0.7)
        axes.tick_params(axis="y", length=0)
        axes.grid(False, axis="y")
        axes.grid(True, axis="x")
        axes.locator_params(axis="x", nbins=4)
    metric = sweep.manifest["endpoint"]["metric"]
    _, _, unit = text.scale(metric)
    panels.hide_rest(grid, places)
    panels.label_below(grid, places, f"{metric} ({'%' if unit == 'points' else unit})")
    return figure


def _dots(axes: Any, y: float, ours: "pd.DataFrame", colour: str, line: bool) -> None:
    if ours.empty:
        return
    mean, single = ours[ours["seed"] == ALL].iloc[0], ours[ours["seed"] != ALL]
    if line:
        axes.axvline(mean["value"], color=colour, linewidth=0.6, zorder=1)
    axes.plot([mean["low"], mean["high"]], [y, y], color=colour, linewidth=1.6, zorder=2)
    axes.plot(single["value"], [y + 0.28] * len(single), "o", color=colour, ms=1.8, alpha=0.55, mew=0)
    axes.plot(mean["value"], y, "o", color=colour, ms=4.2, zorder=3)
