"""Draws a sweep's figures: curves by stratum and arm with seed bands, and the effects with their intervals.

Every figure is a PNG, a PDF and a CSV of exactly the plotted numbers. Estimation is in `smooth.py`, `stats.py` and
`verdict.py`; here only drawing. Runs that are missing are named in the caption, never left out in silence.
"""

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import smooth, stats, style, verdict
from analysis.load import Sweep, load, read_manifest

if TYPE_CHECKING:
    import pandas as pd

METRICS = {  # the short names that a spec's `figures` use
    "accuracy": ("eval/accuracy", "held-out accuracy (%)", 100.0),
    "entropy": ("policy/entropy", "policy entropy (nats)", 1.0),
    "length": ("length/mean", "response length (tokens)", 1.0),
    "reward_std": ("train/reward_std", "reward standard deviation", 1.0),
    "train_accuracy": ("train/accuracy", "training accuracy (%)", 100.0),
    "truncated": ("length/truncated_share", "truncated responses (%)", 100.0),
    "clipped": ("clip/high", "tokens clipped above (%)", 100.0),
    "gradient": ("grad/norm", "gradient norm before clipping", 1.0),
}


def draw(root: Path, name: str) -> list[Path]:
    """The spec's figures and `effects`; returns the PNGs. A sweep without a finished run draws nothing.

    Raises ValueError for a figure name that is no `<metric>_by_<axis>`.
    """
    manifest = read_manifest(root, name)
    wanted = manifest["figures"]
    metrics = {_metric(figure)[0] for figure in wanted} | {"policy/entropy", manifest["endpoint"]["metric"]}
    sweep = load(root, name, metrics)
    if sweep.frame.empty:
        return []
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = []
    with pyplot.rc_context(style.RC):
        for figure in wanted:
            data = curve_table(sweep, *_metric(figure)[::2])
            if len(data):
                drawn.append(_save(sweep, figure, _curves(sweep, data, _metric(figure)[1]), data))
        table = effect_table(verdict.judge(sweep))
        if len(table):
            drawn.append(_save(sweep, "effects", _effects(sweep, table), table))
    return drawn


def _metric(figure: str) -> tuple[str, str, float]:
    short, by, _ = figure.partition("_by_")
    if not by or short not in METRICS:
        raise ValueError(f"figures: no figure '{figure}'; use <metric>_by_<axis> with a metric of {', '.join(METRICS)}")
    return METRICS[short]


# -- the plotted numbers -------------------------------------------------------------------------------------------


def curve_table(sweep: Sweep, metric: str, factor: float) -> "pd.DataFrame":
    """stratum axes, arm, step, mean, low, high, n: each seed smoothed as the paper does, then a t band over seeds."""
    import pandas as pd

    axis, tables = sweep.arm_axis, []
    frame = sweep.frame[sweep.frame["metric"] == metric].dropna(subset=["value"])
    keys = [*sweep.strata, *([axis] if axis else [])]
    groups = frame.groupby(keys, sort=False) if keys else [((), frame)]
    for labels, part in groups:
        curves = {run: smooth.smooth(c.set_index("step")["value"] * factor).mean for run, c in part.groupby("run")}
        shared = pd.DataFrame(curves).dropna()  # steps that every seed has reached: no survivor's mean
        if len(shared):
            band = stats.seed_band(shared).reset_index(names="step")
            tables.append(band.assign(**dict(zip(keys, labels, strict=True)))[[*keys, *band.columns]])
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def effect_table(contrasts: list[verdict.Contrast]) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for c in contrasts:
        numbers = {key: getattr(c.effect, key) if c.effect else math.nan for key in ("mean", "low", "high", "sd", "n")}
        what = {"metric": c.metric, "read": c.read, **c.stratum, "axis": c.axis, "arm": c.arm, "baseline": c.baseline}
        rows.append(what | numbers | {"p_holm": c.p_holm, "word": c.word})
    return pd.DataFrame(rows)


# -- drawing -------------------------------------------------------------------------------------------------------


def _curves(sweep: Sweep, data: "pd.DataFrame", label: str) -> Any:
    from matplotlib import pyplot

    panels = list(verdict.strata(sweep, sweep.arm_axis or ""))
    columns = min(4, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(max(3.4, 2.05 * columns), 0.6 + 2.1 * rows), squeeze=False, sharex=True
    )
    axis = sweep.arm_axis
    arms = sweep.axes[axis] if axis else [""]
    baseline = sweep.manifest["baseline"].get(axis, arms[0]) if axis else ""
    colours, dashes = style.arm_colours(arms, baseline), style.arm_dashes(arms, baseline)
    handles: dict[str, Any] = {}
    for place, panel in zip(axes.flat, panels, strict=False):
        part = (
            data[[all(row[a] == level for a, level in panel.items()) for _, row in data.iterrows()]] if panel else data
        )
        place.set_title(", ".join(level.replace("_", " ") for level in panel.values()))
        for arm in arms:
            line = part[part[axis] == arm] if axis else part
            if line.empty:
                continue
            (handle,) = place.plot(line["step"], line["mean"], color=colours[arm], linestyle=dashes[arm], zorder=3)
            place.fill_between(line["step"], line["low"], line["high"], color=colours[arm], alpha=0.13, linewidth=0)
            handles.setdefault(arm, handle)
        if part.empty:
            place.text(0.5, 0.5, "no finished run", transform=place.transAxes, ha="center", color="#777777")
        else:
            _bound(place, part)
        place.locator_params(nbins=4)
    for place in list(axes.flat)[len(panels) :]:
        place.set_visible(False)
    figure.supxlabel("training step", fontsize=8)
    figure.supylabel(label, fontsize=8)
    if axis and len(handles) > 1:
        ordered = [arm for arm in arms if arm in handles]
        texts = [f"{arm} (baseline)" if arm == baseline else arm for arm in ordered]
        figure.legend(
            [handles[arm] for arm in ordered],
            texts,
            title=axis,
            title_fontsize=7.5,
            loc="outside upper center",
            ncols=min(4, len(ordered)),
            frameon=False,
        )
    return figure


def _bound(axes: Any, data: "pd.DataFrame") -> None:
    """The range of the means with room, so that a wide band at few seeds does not flatten the curves."""
    low, high = float(data["mean"].min()), float(data["mean"].max())
    room = 0.25 * (high - low) or 1.0
    axes.set_ylim(max(0.0, low - room) if low >= 0 else low - room, high + room)


def _effects(sweep: Sweep, table: "pd.DataFrame") -> Any:
    """Forest plot of the endpoint's contrasts, in points of accuracy where it is an accuracy."""
    from matplotlib import pyplot

    end = sweep.manifest["endpoint"]
    rows = table[(table["metric"] == end["metric"]) & (table["read"] != "area")].reset_index(drop=True)
    factor, unit = (100.0, "points") if "accuracy" in end["metric"] else (1.0, end["metric"])
    figure, axes = pyplot.subplots(figsize=(6.2, 0.9 + 0.26 * len(rows)))
    names = []
    for place, row in rows.iterrows():
        colour = style.WORD_COLOURS.get(row["word"], "#8A8A8A")
        if not math.isnan(row["low"]):
            axes.plot([factor * row["low"], factor * row["high"]], [place, place], color=colour, linewidth=1.6)
        if not math.isnan(row["mean"]):
            axes.plot(factor * row["mean"], place, "o", color=colour, markersize=4)
        stratum = ", ".join(str(row[a]).replace("_", " ") for a in sweep.strata)
        names.append(f"{stratum}{': ' if stratum else ''}{row['arm']} - {row['baseline']}")
        pairs = 0 if math.isnan(row["n"]) else int(row["n"])
        where = axes.get_yaxis_transform()
        axes.text(1.01, place, f"{row['word']} (n={pairs})", color=colour, va="center", transform=where, fontsize=7)
    margin = factor * end["margin"]
    axes.axvspan(-margin, margin, color="#EFEFEF", zorder=0)
    axes.axvline(0, color="#555555", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(False)
    axes.set_xlabel(f"paired difference of {end['metric']}, mean of the last {end['last']} evaluations ({unit})")
    return figure


def _save(sweep: Sweep, name: str, figure: Any, data: "pd.DataFrame") -> Path:
    from matplotlib import pyplot

    folder = sweep.folder / "figures"
    folder.mkdir(exist_ok=True)
    figure.supxlabel(f"{figure.get_supxlabel()}\n{_caption(sweep, name)}".strip(), fontsize=6.5, color="#444444")
    data.to_csv(folder / f"{name}.csv", index=False, float_format="%.9g", lineterminator="\n")
    figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
    figure.savefig(folder / f"{name}.png", dpi=300, metadata={"Software": None})
    pyplot.close(figure)
    return folder / f"{name}.png"


def _caption(sweep: Sweep, name: str) -> str:
    seeds, missing = len(sweep.manifest["seeds"]), len(sweep.missing)
    band = f"grey: ± {sweep.manifest['endpoint']['margin']:g} margin; bars: 95 % paired t intervals over seeds"
    if name != "effects":
        band = "11-step centred mean, then exponential smoothing 0.8; band: 95 % t interval over seeds"
    lack = f"; {missing} of {len(sweep.manifest['runs'])} runs missing" if missing else ""
    return textwrap.fill(f"{sweep.name}, scale {sweep.manifest['scale']}, {seeds} seeds; {band}{lack}", 130)
