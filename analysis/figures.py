"""Writes a sweep's figures: each a PNG, a PDF and a CSV of exactly the plotted numbers.

The numbers come from `tables.py` and `verdict.py`, the drawing from `plot_curves.py` and `plot_effects.py`; here only
files and captions. Runs that are missing are named in the caption, never left out in silence.
"""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import plot_curves, plot_effects, style, tables, verdict
from analysis.load import Sweep, load

if TYPE_CHECKING:
    import pandas as pd


def draw(root: Path, name: str) -> list[Path]:
    """The spec's figures and `effects`; returns the PNGs. A sweep without a recorded step draws nothing.

    Raises ValueError for a figure that is no `<metric>_by_<axis>` of this sweep.
    """
    sweep = load(root, name, tables.metrics_wanted(root, name))
    if sweep.frame.empty:
        return []
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = []
    with pyplot.rc_context(style.RC):
        for figure in sweep.manifest["figures"]:
            what = tables.curves(sweep, figure)
            data = tables.curve_table(sweep, what)
            if len(data):
                drawn.append(_save(sweep, figure, plot_curves.plot(sweep, what, data), data, plot_curves.caption(data)))
        shown = [c for c in verdict.judge(sweep) if c.read == "last" or c.metric == verdict.ENTROPY]
        if any(c.effect for c in shown):
            data = tables.effect_table(shown)
            drawn.append(_save(sweep, "effects", plot_effects.plot(sweep, shown), data, plot_effects.caption(sweep)))
    return drawn


def _save(sweep: Sweep, name: str, figure: Any, data: "pd.DataFrame", caption: str) -> Path:
    from matplotlib import pyplot

    folder = sweep.folder / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    data.to_csv(folder / f"{name}.csv", index=False, float_format="%.9g", lineterminator="\n")
    text = f"{sweep.name}, scale {sweep.manifest['scale']}. {caption}{_lack(sweep)}"
    wide = textwrap.fill(text, int(figure.get_figwidth() * 21.5))
    lines = wide.count("\n") + 1
    height = figure.get_figheight() + 0.115 * lines + 0.06
    figure.set_figheight(height)
    figure.get_layout_engine().set(rect=(0, (0.115 * lines + 0.06) / height, 1, 1 - (0.115 * lines + 0.06) / height))
    figure.text(0.012, 0.03 / height, wide, fontsize=6, color=style.MUTED, va="bottom", linespacing=1.15)
    figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
    figure.savefig(folder / f"{name}.png", dpi=300, metadata={"Software": None})
    pyplot.close(figure)
    return folder / f"{name}.png"


def _lack(sweep: Sweep) -> str:
    if not sweep.missing:
        return ""
    axes = sweep.varying()
    named = [
        f"{', '.join(style.words(e.labels[a]) for a in axes)} seed {e.seed} ({e.state})" for e in sweep.missing[:3]
    ]
    more = f" and {len(sweep.missing) - 3} more" if len(sweep.missing) > 3 else ""
    return f" Not done, {len(sweep.missing)} of {len(sweep.runs)} runs: {'; '.join(named)}{more}."
