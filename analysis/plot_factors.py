"""Draws what matters and for whom: each arm's mean effect over models and data, and its effect by model and by data.

Every arm is averaged over the strata that have it, so arms with other strata are not comparable with each other;
whether an effect depends on the model or the data is tested on the part of the sweep that crosses them (`factors.py`).
Leaves out: single strata (`plot_effects.py`).
"""

import math
from typing import TYPE_CHECKING, Any

from analysis import averages, factors, fractional, panels, sampled, scores, sequential, stats, style, text
from analysis.load import Sweep
from analysis.panels import Drawing

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"  # in the place of a level: over all strata
ROW = 0.17  # inches


def main_effects(sweep: Sweep) -> Drawing | None:
    """`main_effects`: per arm the mean difference over all its strata; None without a pair."""
    data = table(sweep)
    data = data[data["by"] == ALL] if len(data) else data
    if data.empty:
        return None
    said = (
        f"Difference in {sweep.manifest['endpoint']['metric']} from the baseline, averaged over "
        f"all strata in which the arm is compared (models, data; other arms at {_others(sweep)}) within each seed; "
        "95 % t interval over seeds (three or more). A mean over unlike models may hide opposite effects: "
        f"see `interactions`. {_grey(sweep)}{sequential.beside(sweep.manifest)}"
    )
    return Drawing(_forest(sweep, data), data, said)


def interactions(sweep: Sweep) -> Drawing | None:
    """`interactions`: per arm the mean difference at each level of every other axis; None where nothing varies."""
    data = table(sweep)
    data = data[data["by"] != ALL] if len(data) else data
    if data.empty:
        return None
    data = tested(sweep, data)
    said = (
        f"Difference in {sweep.manifest['endpoint']['metric']} from the baseline by model, data "
        "or whatever else varies, averaged within each seed over the strata of "
        f"that level; 95 % t interval over seeds (three or more). {_grey(sweep)} p, ω²: whether the arms' effects "
        "depend on it, by analysis of variance of the part that is crossed, seeds and strata as blocks; uncorrected."
        f"{sequential.beside(sweep.manifest)}"
    )
    return Drawing(_lines(sweep, data), data, said)


def table(sweep: Sweep) -> "pd.DataFrame":
    """axis, arm, by ("all", or an axis that is no arm's), level, mean, low, high, n, strata; in shown units.

    n: seeds that have a pair in all of the level's `strata`. Intervals are NaN under three seeds.
    """
    import pandas as pd

    end = sweep.manifest["endpoint"]
    factor = text.scale(end["metric"])[0]
    if of := fractional.design(sweep):
        return _of_fraction(sweep, of, factor)
    score = {r: factor * v for r, v in scores.run_scores(sweep, end["metric"], scores.reader(sweep, "last")).items()}
    every = averages.effects(sweep, score, averages.difference)
    rows = []
    for axis, arm in averages.arms(sweep, every):
        ours = [e for e in every if (e.axis, e.arm) == (axis, arm)]
        for by, level, cut in _cuts(sweep, [e for e in ours if e.values or e.pruned]):
            chosen = averages.whole(cut)
            values = list(averages.mean([e.values for e in chosen]).values())
            if values:
                found = stats.paired(values)
                bounds = (found.low, found.high) if found.n >= stats.MIN_PAIRS else (math.nan, math.nan)
                row = {"axis": axis, "arm": arm, "by": by, "level": level, "mean": found.mean}
                rows.append(row | {"low": bounds[0], "high": bounds[1], "n": found.n, "strata": len(chosen)})
    return pd.DataFrame(rows)


def _of_fraction(sweep: Sweep, of: dict[str, Any], factor: float) -> "pd.DataFrame":
    """`table` of the main effects, with the intervals that their verdict has."""
    import pandas as pd

    end, every = sweep.manifest["endpoint"], fractional.strata(sweep, of)
    score = scores.run_scores(sweep, end["metric"], scores.reader(sweep, "last"))
    cuts = [(ALL, ALL, every)]
    cuts += [(by, lv, [s for s in every if s[by] == lv]) for by in panels.varying(every) for lv in sweep.axes[by]]
    rows = []
    for effect in fractional.effects(of):
        for by, level, chosen in cuts if len(effect.names) == 1 else ():
            block = fractional.mean_blocks(sweep, of, chosen, score)
            if values := fractional.by_seed(block, effect.signs, 0).differences:
                found = stats.paired(values)
                bounds = (found.low, found.high) if found.n >= stats.MIN_PAIRS else (math.nan, math.nan)
                row = {"axis": effect.name, "arm": of["factors"][effect.name][1], "by": by, "level": level}
                row |= {"mean": factor * found.mean, "low": factor * bounds[0], "high": factor * bounds[1]}
                rows.append(row | {"n": found.n, "strata": len(chosen), "confounded": effect.confounded})
    return pd.DataFrame(rows)


def tested(sweep: Sweep, data: "pd.DataFrame") -> "pd.DataFrame":
    """With the columns p_interaction and omega of `factors.analyse`, NaN where the sweep does not cross the two."""
    terms = {
        term.factors: (term.p, term.omega)
        for axis in dict.fromkeys(data["axis"])
        for term in factors.analyse(sweep, axis).terms
    }
    found = [terms.get(pair, (math.nan, math.nan)) for pair in zip(data["axis"], data["by"], strict=True)]
    return data.assign(p_interaction=[p for p, _ in found], omega=[omega for _, omega in found])


def _cuts(sweep: Sweep, ours: list[averages.Effect]) -> list[tuple[str, str, list[averages.Effect]]]:
    """All strata; and for each axis that is no arm's and varies among them, those at each of its levels."""
    cuts = [(ALL, ALL, ours)]
    for by in panels.varying([e.stratum for e in ours]):
        if by not in sweep.baseline:
            for level in sweep.axes[by]:
                cuts.append((by, level, [e for e in ours if e.stratum[by] == level]))
    return [(by, level, chosen) for by, level, chosen in cuts if chosen]


def _grey(sweep: Sweep) -> str:
    return f"Grey: ± margin of practical equality ({_unit(sweep)[0]:g})."


def _others(sweep: Sweep) -> str:
    if sampled.design(sweep):
        return "the levels that were sampled"
    return "both of their levels" if fractional.design(sweep) else "their baseline"


def _unit(sweep: Sweep) -> tuple[float, str]:
    """(margin, axis label) in shown units."""
    end = sweep.manifest["endpoint"]
    factor, _, unit = text.scale(end["metric"])
    return factor * end["margin"], f"difference ({unit})"


def _colour(sweep: Sweep, axis: str, arm: str) -> str:
    return panels.colours(sweep, axis)[arm]


# -- main effects --------------------------------------------------------------------------------------------------


def _forest(sweep: Sweep, data: "pd.DataFrame") -> Any:
    from matplotlib import pyplot

    margin, unit = _unit(sweep)
    places, headings, y = [], [], 0.0
    for axis in dict.fromkeys(data["axis"]):
        headings.append((f"{style.words(axis)}, against {style.words(sweep.baseline[axis])}", y))
        for _, row in data[data["axis"] == axis].iterrows():
            y += 1.0
            places.append((y, row))
        y += 1.2
    figure, axes = pyplot.subplots(figsize=(5.4, 0.5 + ROW * y), layout="constrained")
    axes.axvspan(-margin, margin, color="#F0F0F0", zorder=0, linewidth=0)
    axes.axvline(0, color="#999999", linewidth=0.7, zorder=1)
    for at, row in places:
        colour = _colour(sweep, row["axis"], row["arm"])
        axes.plot([row["low"], row["high"]], [at, at], color=colour, linewidth=1.6, zorder=2)
        axes.plot(row["mean"], at, "o", color=colour, ms=4.5, zorder=3)
        said = f"n = {row['n']}; {row['strata']} strat{'a' if row['strata'] != 1 else 'um'}"
        axes.text(1.02, at, said, transform=axes.get_yaxis_transform(), va="center", fontsize=6, color=style.MUTED)
    for heading, at in headings:
        axes.text(0, at, heading, transform=axes.get_yaxis_transform(), ha="right", va="center", fontweight="bold",
                  fontsize=7)  # fmt: skip
    beside = [f" {row['confounded']}".rstrip() if "confounded" in row else "" for _, row in places]
    names = [style.words(row["arm"]) + more for (_, row), more in zip(places, beside, strict=True)]
    axes.set_yticks([at for at, _ in places], names)
    axes.set_ylim(y - 0.4, -0.8)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(False)
    axes.set_xlabel(unit)
    return figure


# -- interactions --------------------------------------------------------------------------------------------------


def _lines(sweep: Sweep, data: "pd.DataFrame") -> Any:
    """A row per arm axis, a column per axis along which effects may differ; the levels side by side."""
    from matplotlib import pyplot

    margin, unit = _unit(sweep)
    down, across = list(dict.fromkeys(data["axis"])), list(dict.fromkeys(data["by"]))
    width = style.WIDTH if len(across) > 1 else 4.6
    height = 0.35 + (1.75 if len(down) < 4 else 1.4) * len(down)
    figure, grid = pyplot.subplots(
        len(down), len(across), figsize=(width, height), squeeze=False, sharex="col", sharey="row",
        layout="constrained",
        width_ratios=[max(2, data[data["by"] == by]["level"].nunique()) for by in across],
    )  # fmt: skip
    for i, axis in enumerate(down):
        arms = [arm for arm in panels.levels(sweep, axis) if arm in set(data[data["axis"] == axis]["arm"])]
        handles: list[Any] = []
        for j, by in enumerate(across):
            handles = _panel(sweep, grid[i, j], data, axis, by, arms, margin) or handles
            if i == len(down) - 1:
                grid[i, j].set_xlabel(style.words(by))
        heading = f"{style.words(axis)}, against {style.words(sweep.baseline[axis])}"
        grid[i, -1].legend(handles, [style.words(arm) for arm in arms], title=heading, title_fontsize=6.5, fontsize=6.5,
                           loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, alignment="left")  # fmt: skip
    if len(down) > 1:
        figure.supylabel(unit, fontsize=8, color="#222222")
    else:
        grid[0, 0].set_ylabel(unit)
    return figure


def _panel(
    sweep: Sweep, axes: Any, data: "pd.DataFrame", axis: str, by: str, arms: list[str], margin: float
) -> list[Any]:
    levels = [level for level in sweep.axes[by] if level in set(data[data["by"] == by]["level"])]
    axes.axhspan(-margin, margin, color="#F0F0F0", zorder=0, linewidth=0)
    axes.axhline(0, color="#999999", linewidth=0.7, zorder=1)
    handles: list[Any] = []
    for place, arm in enumerate(arms):
        ours = panels.rows(data, {"axis": axis, "arm": arm, "by": by})
        colour = _colour(sweep, axis, arm)
        x = [levels.index(level) + 0.5 * (place - (len(arms) - 1) / 2) / max(1, len(arms)) for level in ours["level"]]
        axes.vlines(x, ours["low"], ours["high"], color=colour, linewidth=1.1, zorder=2)
        handles += axes.plot(x, ours["mean"], style.MARKS[place % len(style.MARKS)], color=colour, ms=3.8, zorder=3)
    of = panels.rows(data, {"axis": axis, "by": by})
    if len(of) and not math.isnan(of["p_interaction"].iloc[0]):
        said = f"p = {of['p_interaction'].iloc[0]:.2g}, ω² = {of['omega'].iloc[0]:.2f}"
        axes.set_title(said, fontsize=6.5, color=style.MUTED, pad=2)
    axes.set_xticks(range(len(levels)), [style.words(level).replace(" ", "\n") for level in levels])
    axes.set_xlim(-0.5, len(levels) - 0.5)
    axes.locator_params(axis="y", nbins=5)
    return handles
