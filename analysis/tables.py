"""The numbers behind each figure: one smoothed curve with its band per arm and stratum, and the effects.

What a figure's CSV holds is one of these tables, whole. Leaves out: drawing (`figures.py`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from analysis import fractional, panels, smooth, stats, tokens, verdict
from analysis.load import Sweep
from harness.config import nearest
from harness.store import Run

if TYPE_CHECKING:
    import pandas as pd

METRICS = {  # the short names that a spec's `figures` use: key, axis label, factor
    "accuracy": ("eval/accuracy", "held-out accuracy (%)", 100.0),
    "greedy_accuracy": ("eval/greedy_accuracy", "held-out accuracy, greedy (%)", 100.0),
    "entropy": ("policy/entropy", "policy entropy (nats)", 1.0),
    "length": ("length/mean", "response length (tokens)", 1.0),
    "reward_std": ("train/reward_std", "reward standard deviation", 1.0),
    "train_accuracy": ("train/accuracy", "training accuracy (%)", 100.0),
    "truncated": ("length/truncated_share", "truncated responses (%)", 100.0),
    "repeats": ("length/repeat_share", "truncated responses that repeat (%)", 100.0),
    "right_length": ("length/correct", "length of right responses (tokens)", 1.0),
    "wrong_length": ("length/wrong", "length of wrong responses (tokens)", 1.0),
    "clipped": ("clip/high", "tokens clipped above (%)", 100.0),
    "clipped_low": ("clip/low", "tokens clipped below (%)", 100.0),
    "zero_variance": ("train/zero_variance_share", "groups without contrast (%)", 100.0),
    "gradient": ("grad/norm", "gradient norm before clipping", 1.0),
}


# The source paper's benchmarks in its order, as parts of a name; what is not among them keeps the order of the record.
PAPER_ORDER = ("math500", "olympiad", "amc", "minerva", "aime24", "aime25")


@dataclass(frozen=True)
class Curves:
    """What `<metric>_by_<axis>` means in one sweep: lines are the levels of `lines`, panels the other axes' strata."""

    key: str
    label: str
    factor: float
    lines: str | None  # the axis whose levels are lines, the arms' if possible
    columns: str | None  # the axis laid out from left to right; the others go downwards
    panels: list[dict[str, str]]


def curves(sweep: Sweep, figure: str) -> Curves:
    """Lines are the arms. By another axis (models, data) they are still the arms where one axis holds them, and that
    axis's own levels, each with its arms at the baseline, where several do or none.

    Raises ValueError for a metric or an axis that is not there.
    """
    key, label, factor = metric_of(figure)
    by = panels.axis_of(sweep, figure)
    lines = sweep.arm_axis if len(sweep.baseline) == 1 else by
    shown = panels.strata(sweep, lines)
    return Curves(key, label, factor, lines, _columns(sweep, shown, by), shown)


def benchmark_curves(sweep: Sweep, figure: str) -> Curves:
    """Lines are the levels of the axis that the name ends with, rows the strata, columns the benchmarks."""
    by = panels.axis_of(sweep, figure)
    each = [stratum | {"benchmark": name} for stratum in panels.strata(sweep, by) for name in benchmarks(sweep)]
    return Curves("", "held-out accuracy (%)", 100.0, by, "benchmark", each)


def benchmarks(sweep: Sweep) -> list[str]:
    """Of every recorded `eval/<benchmark>/accuracy`, in the paper's order, then in that of the first evaluation."""
    recorded = [str(key).split("/")[1] for key in sweep.frame["metric"].unique() if _is_benchmark(str(key))]
    first = next((lines for e in sweep.runs if (lines := Run(tokens.folder(sweep) / e.run).read("evals"))), [])
    order = list(dict.fromkeys(line["benchmark"] for line in first))

    def rank(name: str) -> tuple[int, int, str]:
        short = name.lower().replace("-", "").replace("_", "")
        known = next((i for i, part in enumerate(PAPER_ORDER) if part in short), len(PAPER_ORDER))
        return known, order.index(name) if name in order else len(order), name

    return sorted(recorded, key=rank)


def _is_benchmark(key: str) -> bool:
    parts = key.split("/")
    return len(parts) == 3 and parts[0] == "eval" and parts[2] == "accuracy"


def _columns(sweep: Sweep, shown: list[dict[str, str]], by: str) -> str | None:
    differ = panels.varying(shown)
    return by if by in differ else differ[-1] if differ else None


def metric_of(figure: str) -> tuple[str, str, float]:
    """Raises ValueError for a name that is not of the form <metric>_by_<axis> with a metric of METRICS."""
    short, by, _ = figure.partition("_by_")
    if not by or short not in METRICS:
        raise ValueError(
            f"figures: no figure '{figure}'; use <metric>_by_<axis> with a metric of {', '.join(METRICS)}"
            f"{nearest(short, METRICS)}"
        )
    return METRICS[short]


def curve_metrics(named: Iterable[str]) -> set[str]:
    """The recorded keys of those figures that are curves of a metric."""
    shorts = {figure.partition("_by_")[0] for figure in named}
    return {METRICS[short][0] for short in shorts if short in METRICS}


def benchmark_table(sweep: Sweep, what: Curves) -> "pd.DataFrame":
    """`curve_table` of each benchmark, with its name in the column `benchmark`."""
    import pandas as pd

    found = []
    for name in dict.fromkeys(panel["benchmark"] for panel in what.panels):
        strata = [{a: v for a, v in p.items() if a != "benchmark"} for p in what.panels if p["benchmark"] == name]
        table = curve_table(sweep, replace(what, key=f"eval/{name}/accuracy", panels=strata))
        found.append(table.assign(benchmark=name))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def curve_table(sweep: Sweep, what: Curves) -> "pd.DataFrame":
    """panel axes, line axis, step, mean, low, high, n, band, raw, segment; in the axis label's unit.

    Each seed is smoothed by itself, then averaged; `raw` is the mean of the unsmoothed values. Steps that some seed
    has not reached are left out: a mean over survivors would jump. A step that a seed skips (it has no truncated
    response, say) is read off the line between its neighbours, if those are within one smoothing window. Seeds without
    a value at all are not in n.
    """
    import pandas as pd

    lines = [what.lines] if what.lines else []
    keys = [*sweep.varying(without=what.lines), *lines]
    frame = sweep.frame[sweep.frame["metric"] == what.key].dropna(subset=["value"])
    tables = []
    for panel in what.panels:
        for arm in panels.levels(sweep, what.lines):
            labels = panel | ({what.lines: arm} if what.lines else {})
            entries = {entry.run: entry for entry in sweep.having(labels)}
            curves = {
                run: part.set_index("step")["value"] * what.factor
                for run, part in frame[frame["run"].isin(entries)].groupby("run", observed=True)
            }
            if fractional.design(sweep):
                by_seed = fractional.seed_means([(entries[str(run)], curve) for run, curve in curves.items()])
                curves = {entry.run: curve for entry, curve in by_seed}
            if curves:
                tables.append(_line(curves).assign(**labels))
    if not tables:
        return pd.DataFrame()
    table = pd.concat(tables, ignore_index=True)
    known = [key for key in keys if key in table.columns]  # in a fraction the other arms are averaged over
    return table[[*known, *(column for column in table.columns if column not in known)]]


def _line(curves: "dict[Any, pd.Series]") -> "pd.DataFrame":
    import pandas as pd

    smoothed = {run: smooth.smooth(curve) for run, curve in curves.items()}
    steps = sorted(set().union(*(s.mean.index for s in smoothed.values())))
    shared = pd.DataFrame({run: _bridged(s.mean, steps) for run, s in smoothed.items()}, index=steps).dropna()
    within = next(iter(smoothed.values())).std.reindex(shared.index) if len(smoothed) == 1 else None
    band = stats.seed_band(shared, within)
    band["raw"] = pd.DataFrame(curves).reindex(shared.index).mean(axis=1)
    table = band.rename_axis("step").reset_index()
    return table.assign(segment=smooth.segments(table["step"]))


def _bridged(curve: "pd.Series", steps: list[int]) -> "pd.Series":
    """The curve at all `steps`: between two values at most a window apart by interpolation, elsewhere NaN."""
    import numpy as np
    import pandas as pd

    if curve.empty:
        return pd.Series(math.nan, index=steps)
    known = curve.index.to_numpy()
    after = np.searchsorted(known, steps).clip(0, len(known) - 1)
    before = (np.searchsorted(known, steps, side="right") - 1).clip(0)
    inside = (known[before] <= steps) & (known[after] >= steps) & (known[after] - known[before] <= smooth.WINDOW)
    return pd.Series(np.where(inside, np.interp(steps, known, curve.to_numpy()), math.nan), index=steps)


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
