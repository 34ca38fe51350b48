"""Draws the effects as a forest plot: a row per arm and stratum, the endpoint with its word, the entropy beside it.

Takes the judged contrasts of `verdict.py`. Leaves out: estimation and files.
"""

from typing import Any

from analysis import sequential, style, tables, verdict
from analysis.load import Sweep
from analysis.panels import Drawing

LONG = 40  # rows; beyond it they are lower


def draw(sweep: Sweep) -> Drawing | None:
    """`effects`; None where no arm and its baseline have finished on the same seed."""
    shown = [c for c in verdict.judge(sweep) if c.read == "last" or c.metric == verdict.ENTROPY]
    if not any(c.effect for c in shown):
        return None
    return Drawing(plot(sweep, shown), tables.effect_table(shown), caption(sweep))


def plot(sweep: Sweep, contrasts: list[verdict.Contrast]) -> Any:
    """Rows share their height between the two panels; the interval of the endpoint sets the wider one."""
    from matplotlib import pyplot

    end = sweep.manifest["endpoint"]
    main = [c for c in contrasts if c.metric == end["metric"] and c.read == "last"]
    beside = {_place(c): c for c in contrasts if c.metric == verdict.ENTROPY and c.effect and c.read == "area"}
    several = len(sweep.baseline) > 1
    if several:  # an arm's strata below each other
        order = [(axis, arm) for axis in sweep.baseline for arm in sweep.axes[axis]]
        main.sort(key=lambda c: order.index((c.axis, c.arm)))
    rows, headings = _layout(main, several)
    height = max(rows.values()) + 1.4
    figure, panels = pyplot.subplots(
        1,
        2 if beside else 1,
        figsize=(style.WIDTH if beside else 5.4, 0.85 + (0.185 if height < LONG else 0.15) * height),
        width_ratios=[2.1, 1] if beside else [1],
        squeeze=False,
        layout="constrained",
    )
    left = panels[0, 0]
    share = "accuracy" in end["metric"]
    unit = "points" if share else end["metric"]
    _forest(left, rows, {_place(c): c for c in main}, 100.0 if share else 1.0, end["margin"], long=True)
    against = "the baseline" if several else " = ".join(*sweep.baseline.items())
    left.set_xlabel(f"{end['metric']} less that of {against} ({unit})")
    left.set_yticks([rows[_place(c)] for c in main], [_label(c, several) for c in main])
    for heading, y in headings:
        left.text(
            0, y, heading, transform=left.get_yaxis_transform(), ha="right", va="center", fontweight="bold", size=7
        )
    if beside:
        _forest(panels[0, 1], rows, beside, 1.0, verdict.ENTROPY_MARGIN, long=False)
        panels[0, 1].set_xlabel("entropy (nats)")
        panels[0, 1].set_yticks([])
    for axes in panels[0]:
        axes.set_ylim(height - 0.4, -0.8)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(False)
        axes.locator_params(axis="x", nbins=(4 if several else 6) if axes is left else 3)
    return figure


def _place(c: verdict.Contrast) -> tuple[object, ...]:
    return (c.axis, *c.stratum.items(), c.arm)


def _label(c: verdict.Contrast, several: bool) -> str:
    """The arm, and its stratum where no heading has it."""
    on = f" on {style.place(c.stratum)}" if several and c.stratum else ""
    return f"{style.words(c.arm)} {c.confounded}".rstrip() + on


def _layout(
    contrasts: list[verdict.Contrast], several: bool
) -> tuple[dict[tuple[object, ...], float], list[tuple[str, float]]]:
    """A height for each contrast, and a heading over each stratum; over each axis where several are compared."""
    rows: dict[tuple[object, ...], float] = {}
    headings, y, seen = [], -1.0, None
    for c in contrasts:
        group = (c.axis,) if several else (c.axis, *c.stratum.items())
        if group != seen:
            against = f"{style.words(c.axis)}, against {style.words(c.baseline)}"
            y += 1.35 if seen else 1.0
            headings.append((against if several else style.place(c.stratum) or style.words(c.axis), y))
            seen = group
        y += 1.0
        rows[_place(c)] = y
    return rows, headings


def _forest(
    axes: Any,
    rows: dict[tuple[object, ...], float],
    found: dict[Any, verdict.Contrast],
    factor: float,
    margin: float,
    *,
    long: bool,
) -> None:
    """Thick: 95 % interval; thin: at Holm's level, cut at the frame, which the thick ones set."""
    axes.axvspan(-factor * margin, factor * margin, color="#F0F0F0", zorder=0, linewidth=0)
    axes.axvline(0, color="#999999", linewidth=0.7, zorder=1)
    reach = [-factor * margin, factor * margin]
    for place, c in found.items():
        if place in rows and c.word == "pruned":
            _beside(axes, rows[place], c, long, style.WORDS["pruned"][0])
        if c.effect is None or place not in rows:
            continue
        y, (colour, marker, _) = rows[place], style.WORDS[c.word]
        if c.effect.n >= verdict.MIN_PAIRS:
            axes.plot([factor * c.low_holm, factor * c.high_holm], [y, y], color=colour, linewidth=0.6, zorder=2)
            axes.plot([factor * c.effect.low, factor * c.effect.high], [y, y], color=colour, linewidth=2.0, zorder=3)
            reach += [factor * c.effect.low, factor * c.effect.high]
        reach.append(factor * c.effect.mean)
        face = "white" if c.word in ("neutral", "inconclusive") else colour
        size = 3.8 if c.word == "inconclusive" else 5
        axes.plot(
            factor * c.effect.mean, y, marker, color=colour, markerfacecolor=face, markersize=size, mew=1, zorder=4
        )
        _beside(axes, y, c, long, colour)
    room = 0.08 * (max(reach) - min(reach))
    axes.set_xlim(min(reach) - room, max(reach) + room)


def _beside(axes: Any, y: float, c: verdict.Contrast, long: bool, colour: str) -> None:
    said = _short(c, long)
    axes.text(1.02, y, said, transform=axes.get_yaxis_transform(), va="center", color=colour, fontsize=6.5)


def _short(c: verdict.Contrast, long: bool) -> str:
    if c.word == "pruned":
        return f"pruned, {c.pruned} run{'s' if c.pruned != 1 else ''}" if long else c.word
    pairs = c.effect.n if c.effect else 0
    few = f" (n = {pairs})" if c.missing_pairs or pairs < verdict.MIN_PAIRS else ""
    if not long:
        return c.word if c.word != "description only" else ""
    if c.given_up:
        return f"inconclusive, given up{few}"
    if c.word == "inconclusive":
        more = "99 or more" if c.seeds_more is None or c.seeds_more > 99 else str(c.seeds_more)
        return f"inconclusive, +{more} seed{'s' if more != '1' else ''}{few}"
    small = ", within margin" if c.within_margin and c.word in ("trick", "trap") else ""
    return f"{c.word}{small}{few}"


def caption(sweep: Sweep) -> str:
    end = sweep.manifest["endpoint"]
    return (
        f"Paired differences over {sequential.seeds(sweep.manifest)} (mean of the last {end['last']} evaluations; "
        f"for entropy, mean height of the curve). Thick: {sequential.interval(sweep.manifest)}; thin: at Holm's "
        f"level over an axis's rows, cut at the frame. Grey: ± margin ({end['margin']:g}; entropy "
        f"{verdict.ENTROPY_MARGIN:g} nats). +: about how many seeds more would settle it."
    )
