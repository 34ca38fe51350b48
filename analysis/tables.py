"""The numbers behind each figure: one smoothed curve with its band per arm and stratum, and the effects.

What a figure's CSV holds is one of these tables, whole. Leaves out: drawing (`figures.py`).
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis import smooth, stats, verdict
from analysis.load import Sweep, read_manifest

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

METRICS = {  # the short names that a spec's `figures` use: key, axis label, factor
    "accuracy": ("eval/accuracy", "held-out accuracy (%)", 100.0),
    "greedy_accuracy": ("eval/greedy_accuracy", "held-out accuracy, greedy (%)", 100.0),
    "entropy": ("policy/entropy", "policy entropy (nats)", 1.0),
    "length": ("length/mean", "response length (tokens)", 1.0),
    "reward_std": ("train/reward_std", "reward standard deviation", 1.0),
    "train_accuracy": ("train/accuracy", "training accuracy (%)", 100.0),
    "truncated": ("length/truncated_share", "truncated responses (%)", 100.0),
    "clipped": ("clip/high", "tokens clipped above (%)", 100.0),
    "gradient": ("grad/norm", "gradient norm before clipping", 1.0),
}


@dataclass(frozen=True)
class Curves:
    """What `<metric>_by_<axis>` means in one sweep: lines are the levels of `lines`, panels the other axes' strata."""

    key: str
    label: str
    factor: float
    lines: str | None  # the arm axis; where no baseline is named, the axis in the figure's name
    columns: str | None  # the axis laid out from left to right; the others go downwards
    panels: list[dict[str, str]]


def curves(sweep: Sweep, figure: str) -> Curves:
    """Raises ValueError for a metric or an axis that is not there."""
    key, label, factor = metric_of(figure)
    by = figure.partition("_by_")[2]
    if by not in sweep.axes:
        have = ", ".join(sweep.axes) or "none"
        raise ValueError(f"figures: '{figure}': the sweep has no axis '{by}' (there are: {have})")
    lines = by if by in sweep.baseline or not sweep.baseline else sweep.arm_axis
    panels, others = sweep.strata(lines), sweep.varying(without=lines)
    columns = by if by in others else others[-1] if others else None
    return Curves(key, label, factor, lines, columns, panels)


def metric_of(figure: str) -> tuple[str, str, float]:
    short, by, _ = figure.partition("_by_")
    if not by or short not in METRICS:
        raise ValueError(f"figures: no figure '{figure}'; use <metric>_by_<axis> with a metric of {', '.join(METRICS)}")
    return METRICS[short]


def metrics_wanted(root: "Path", name: str) -> set[str]:
    """The metrics that the figures and the verdict of a sweep read."""
    manifest = read_manifest(root, name)
    figures = {metric_of(figure)[0] for figure in manifest["figures"]}
    return figures | {verdict.ENTROPY, manifest["endpoint"]["metric"]}


def curve_table(sweep: Sweep, what: Curves) -> "pd.DataFrame":
    """panel axes, line axis, step, mean, low, high, n, band, raw, segment; in the axis label's unit.

    Each seed is smoothed by itself, then averaged; `raw` is the mean of the unsmoothed values. Steps that some seed
    has not reached are left out: a mean over survivors would jump. Seeds without a value at all are not in n.
    """
    import pandas as pd

    lines = [what.lines] if what.lines else []
    keys = [*sweep.varying(without=what.lines), *lines]
    frame = sweep.frame[sweep.frame["metric"] == what.key].dropna(subset=["value"])
    tables = []
    for panel in what.panels:
        for arm in sweep.axes[what.lines] if what.lines else [""]:
            labels = panel | ({what.lines: arm} if what.lines else {})
            runs = {entry.run for entry in sweep.having(labels)}
            curves = {
                run: part.set_index("step")["value"] * what.factor
                for run, part in frame[frame["run"].isin(runs)].groupby("run", observed=True)
            }
            if curves:
                tables.append(_line(curves).assign(**labels))
    if not tables:
        return pd.DataFrame()
    table = pd.concat(tables, ignore_index=True)
    return table[[*keys, *(column for column in table.columns if column not in keys)]]


def _line(curves: "dict[Any, pd.Series]") -> "pd.DataFrame":
    import pandas as pd

    smoothed = {run: smooth.smooth(curve) for run, curve in curves.items()}
    shared = pd.DataFrame({run: s.mean for run, s in smoothed.items()}).dropna().sort_index()
    within = next(iter(smoothed.values())).std.reindex(shared.index) if len(smoothed) == 1 else None
    band = stats.seed_band(shared, within)
    band["raw"] = pd.DataFrame(curves).reindex(shared.index).mean(axis=1)
    table = band.rename_axis("step").reset_index()
    return table.assign(segment=smooth.segments(table["step"]))


def effect_table(contrasts: list[verdict.Contrast]) -> "pd.DataFrame":
    """A row per contrast: what it compares, effect, 95 % interval, interval at Holm's level, p, word."""
    import pandas as pd

    rows = []
    for c in contrasts:
        numbers = {key: getattr(c.effect, key) if c.effect else math.nan for key in ("mean", "low", "high", "sd")}
        what = {"metric": c.metric, "read": c.read, **c.stratum, "axis": c.axis, "arm": c.arm, "baseline": c.baseline}
        holm = {"low_holm": c.low_holm, "high_holm": c.high_holm, "p_holm": c.p_holm}
        pairs = {"n": c.effect.n if c.effect else 0}
        rows.append(what | numbers | pairs | holm | {"word": c.word, "within_margin": c.within_margin})
    return pd.DataFrame(rows)
