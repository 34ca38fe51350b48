"""Draws what single tokens tell: how sure the policy was of what it sampled, and which tokens were clipped most.

The numbers are those of `tokens.py`, pooled over seeds and all recorded steps. Leaves out: whole responses
(`plot_text.py`).
"""

import math
from typing import TYPE_CHECKING, Any

from analysis import panels, style, tokens
from analysis.load import Sweep
from analysis.panels import Drawing

if TYPE_CHECKING:
    import pandas as pd

LABELLED = 4  # arms; beyond it the bars are too narrow for their values
MOST = 20  # clipped tokens a panel
TALL = 4  # rows of panels; beyond it their bars are lower


# -- how sure ------------------------------------------------------------------------------------------------------


def probabilities(sweep: Sweep, figure: str, width: float = style.WIDTH) -> Drawing:
    """`probabilities_by_<axis>`: the share of sampled tokens in each interval of predicted probability."""
    axis = panels.axis_of(sweep, figure)
    strata = panels.strata(sweep, axis)
    data = probability_table(sweep, axis, strata)
    said = (
        "Share of all sampled tokens by their predicted probability, over all recorded training steps; bars: all seeds "
        "pooled, dots: each seed. Every training step counts, so a longer response weighs more."
    )
    return Drawing(_histograms(sweep, axis, strata, data, width), data, said + panels.held(sweep, axis))


def probability_table(sweep: Sweep, axis: str, strata: list[panels.Stratum]) -> "pd.DataFrame":
    """The stratum's axes, `axis`, seed ("all": pooled), interval, tokens, share in percent."""
    import pandas as pd

    found = []
    for stratum in strata:
        for arm in panels.planned(sweep, stratum, axis):
            entries = sweep.having(stratum | {axis: arm})
            counted = tokens.all_totals(sweep, [entry.run for entry in entries])
            table = tokens.probability_table(counted, {entry.run: entry.seed for entry in entries})
            found.append(_labelled(table, stratum | {axis: arm}))
    columns = [*strata[0], axis, "seed", "interval", "tokens", "share"]
    kept = [table for table in found if len(table)]
    return pd.concat(kept, ignore_index=True) if kept else pd.DataFrame(columns=columns)


def _histograms(sweep: Sweep, axis: str, strata: list[panels.Stratum], data: "pd.DataFrame", widest: float) -> Any:
    from matplotlib import pyplot

    arms = [arm for arm in panels.levels(sweep, axis) if any(arm in panels.planned(sweep, s, axis) for s in strata)]
    labels = [panels.label(sweep, axis, arm) for arm in arms]
    columns = min(2 if widest > style.NARROW else 1, len(strata))
    rows = math.ceil(len(strata) / columns)
    width = min(widest, style.WIDTH if columns > 1 else 4.6)
    height = 0.35 + 1.6 * rows + panels.legend_height(labels, width)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(width, height), squeeze=False, sharex=True, sharey=True, layout="constrained"
    )
    colours = panels.colours(sweep, axis)
    handles: dict[str, Any] = {}
    bar = 0.8 / len(arms)
    places = [divmod(i, columns) for i in range(len(strata))]
    for place, stratum in zip(places, strata, strict=True):
        axes, part = grid[place], panels.rows(data, stratum)
        axes.set_title(panels.title(sweep, stratum))
        for number, arm in enumerate(arms):
            ours = part[part[axis] == arm]
            pooled = ours[ours["seed"] == "all"]
            at = [i + (number - (len(arms) - 1) / 2) * bar for i in range(len(pooled))]
            handles[arm] = axes.bar(at, pooled["share"], 0.92 * bar, color=colours[arm], linewidth=0)
            highest = ours.groupby("interval")["share"].max()  # of the seeds too: a label stands above their dots
            for x, share, top in zip(at, pooled["share"], pooled["interval"].map(highest), strict=True):
                if len(arms) > LABELLED:
                    break
                axes.text(x, top + 2.5, f"{share:.1f}", rotation=90, ha="center", va="bottom", fontsize=5.5)
            single = ours[(ours["seed"] != "all")]
            if single["seed"].nunique() > 1:
                middles = [at[tokens.INTERVALS.index(interval)] for interval in single["interval"]]
                axes.plot(middles, single["share"], "o", color="white", mec=colours[arm], ms=1.8, mew=0.5, linestyle="")
        if part.empty:
            panels.empty(axes)
    top = max(list(data["share"]), default=100.0)
    grid[0, 0].set_ylim(0, min(118.0, 1.06 * top + (14 if len(arms) <= LABELLED else 0)))
    grid[0, 0].set_xticks(range(len(tokens.INTERVALS)), tokens.INTERVALS)
    panels.hide_rest(grid, places)
    panels.label_below(grid, places, "predicted probability of the sampled token")
    figure.supylabel("sampled tokens (%)", fontsize=8, color="#222222")
    panels.legend(figure, axis, [handles[arm] for arm in arms], labels)
    return figure


# -- which were clipped --------------------------------------------------------------------------------------------


def clipped(sweep: Sweep, figure: str, width: float = style.WIDTH) -> Drawing:
    """`clipped_tokens_by_<axis>`: per stratum and arm the tokens most often clipped above."""
    axis = panels.axis_of(sweep, figure)
    strata = sorted(panels.strata(sweep, axis), key=lambda s: len(panels.planned(sweep, s, axis)))  # fewer rows
    cells = [s | {axis: arm} for s in strata for arm in panels.planned(sweep, s, axis)]
    across = _across(sweep, axis, strata, int(width / panels.PANEL))
    data = clipped_table(sweep, cells, MOST)
    said = (
        f"The {MOST} tokens most often clipped above (A > 0, ratio over the upper bound: no gradient), summed over all "
        "updates, steps and seeds; of each step the 50 most frequent are recorded. Bars: clips per 10,000 sampled "
        "tokens. In a title: all clips, and the share of connectives and of function words among them."
    )
    return Drawing(_bars(sweep, axis, strata, data, across, width), data, said + panels.held(sweep, axis))


def clipped_table(sweep: Sweep, cells: list[panels.Stratum], most: int) -> "pd.DataFrame":
    """Per cell: rank, token, kind, count, share and per_10k (`tokens.clipped_table`), and the cell's sums.

    `clipped`: all clips; `connectives`, `function_words`: percent of them; `sampled`: tokens.
    """
    import pandas as pd

    found = []
    for cell in cells:
        counted = list(tokens.all_totals(sweep, [entry.run for entry in sweep.having(cell)]).values())
        table = tokens.clipped_table(counted, most)
        if not counted:
            continue
        if table.empty:  # recorded, and nothing was clipped
            table = pd.DataFrame({"rank": [0], "token": [""], "kind": [""], "count": [0], "share": [0.0]})
            table["per_10k"] = 0.0
        total = sum(t.high_total for t in counted)
        shares = {
            name: 100 * sum(n for t in counted for token, n in t.high.items() if tokens.kind(token) == what) / total
            if total
            else math.nan
            for name, what in (("connectives", "connective"), ("function_words", "function word"))
        }
        sampled = sum(sum(t.probability) for t in counted)
        found.append(_labelled(table, cell).assign(clipped=total, sampled=sampled, **shares))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=[*cells[0], "token", "per_10k"])


def _across(sweep: Sweep, axis: str, strata: list[panels.Stratum], most: int) -> int:
    """Panels in a row, at most `most`: whole strata beside each other where their arms are few."""
    arms = min(most, max(len(panels.planned(sweep, stratum, axis)) for stratum in strata))
    return arms * max(1, min(most // arms, len(strata)))


def _cells(sweep: Sweep, axis: str, strata: list[panels.Stratum], across: int) -> list[tuple[int, int]]:
    """(row, column) of each stratum's arms; a stratum begins a row where the last row has no room for all of it."""
    found, row, column = [], 0, 0
    for stratum in strata:
        arms = len(panels.planned(sweep, stratum, axis))
        if column and column + min(arms, across) > across:
            row, column = row + 1, 0
        for _ in range(arms):
            if column == across:
                row, column = row + 1, 0
            found.append((row, column))
            column += 1
    return found


def _bars(
    sweep: Sweep,
    axis: str,
    strata: list[panels.Stratum],
    data: "pd.DataFrame",
    across: int,
    width: float,
) -> Any:
    from matplotlib import pyplot

    places = _cells(sweep, axis, strata, across)
    most = max(list(data["rank"])) if len(data) else 5
    rows = 1 + max(row for row, _ in places)
    bar = 0.105 if rows <= TALL else 0.085
    width = width if across > 2 else min(width, 2.2 * across + 0.6)
    figure, grid = pyplot.subplots(
        rows, across, figsize=(width, 0.3 + rows * (0.62 + bar * most)), squeeze=False, layout="constrained"
    )
    numbered = iter(places)
    for stratum in strata:
        part = panels.rows(data, stratum)
        reach = 1.05 * max(list(part["per_10k"]), default=0.0) or 1.0
        for arm in panels.planned(sweep, stratum, axis):
            axes, ours = grid[next(numbered)], part[part[axis] == arm]
            _one(axes, ours, reach, most)
            heading = [panels.title(sweep, stratum), panels.label(sweep, axis, arm) + _sums(ours)]
            axes.set_title(
                "\n".join(line for line in heading if line),
                fontsize=6.5 if width > style.NARROW else 5.5,
                linespacing=1.3,
            )
    panels.hide_rest(grid, places)
    panels.label_below(grid, places, "clips / 10,000 sampled", 6.5)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in style.KINDS.values()]
    panels.legend(figure, "", handles, [_many(what) for what in style.KINDS])
    return figure


def _one(axes: Any, ours: "pd.DataFrame", reach: float, most: int) -> None:
    axes.set_xlim(0, reach)
    axes.set_ylim(most - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.grid(True, axis="x")
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(axis="y", length=0, pad=1)
    axes.tick_params(axis="x", labelsize=6)
    if ours.empty or not int(ours["clipped"].iloc[0]):
        axes.set_yticks([])
        panels.empty(axes, "none clipped" if len(ours) else panels.NOT_RECORDED)
        return
    axes.barh(range(len(ours)), ours["per_10k"], 0.72, color=[style.KINDS[k] for k in ours["kind"]])
    named = axes.set_yticks(range(len(ours)), [_name(token) for token in ours["token"]], fontsize=5.5)
    for tick in named:
        tick.label1.set_parse_math(False)
    for tick, what in zip(axes.get_yticklabels(), ours["kind"], strict=True):
        tick.set_parse_math(False)
        tick.set_color(style.KINDS[what] if what != "other" else "#222222")
        tick.set_fontweight("bold" if what == "connective" else "normal")


def _name(token: str) -> str:
    """A token that is seen: a space before a word goes, one that is all there is shows."""
    return style.printable(token.strip(tokens.MARKS) or token.replace(" ", "␣").replace("Ġ", "␣").replace("▁", "␣"))


def _sums(ours: "pd.DataFrame") -> str:
    if ours.empty:
        return ""
    first = ours.iloc[0]
    total = f": {int(first['clipped']):,} clips"
    if not first["clipped"]:
        return total
    return f"{total}\n{first['connectives']:.0f} % connectives, {first['function_words']:.0f} % function"


def _many(what: str) -> str:
    return {"connective": "connectives", "function word": "function words"}.get(what, "other tokens")


def _labelled(table: "pd.DataFrame", labels: panels.Stratum) -> "pd.DataFrame":
    """The table with its labels as its first columns."""
    columns = list(table.columns)
    return table.assign(**labels)[[*labels, *columns]]
