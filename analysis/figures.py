"""Writes a sweep's figures: each a PNG, a PDF and a CSV of exactly the plotted numbers, and a small PNG for the page.

The numbers come from `tables.py`, `tokens.py` and `verdict.py`, the drawing from `plot_*.py`; here only names, files
and captions. Runs that are missing are named in the caption, never left out in silence. Which figure of the source
paper is which stands in docs/figures.md.
"""

import textwrap
from collections.abc import Callable, Collection
from pathlib import Path

from analysis import (
    claims,
    panels,
    plot_claims,
    plot_compute,
    plot_curves,
    plot_difficulty,
    plot_effects,
    plot_factors,
    plot_search,
    plot_summary,
    plot_text,
    plot_tokens,
    style,
    tables,
    verdict,
)
from analysis.load import Sweep, load, read_manifest
from analysis.panels import Drawing
from harness.config import nearest
from harness.store.files import replacing

BY_AXIS: dict[str, Callable[..., Drawing | None]] = {  # <name>_by_<axis>, beside a curve of every metric
    "benchmarks": plot_curves.benchmarks,
    "probabilities": plot_tokens.probabilities,
    "clipped_tokens": plot_tokens.clipped,
    "clipped_text": plot_text.draw,
    "difficulty": plot_difficulty.draw,
    "summary": plot_summary.by_axis,
}
WHOLE: dict[str, Callable[[Sweep], Drawing | None]] = {  # of a whole sweep
    "effects": plot_effects.draw,
    "claims": plot_claims.draw,
    "summary": plot_summary.draw,
    "main_effects": plot_factors.main_effects,
    "interactions": plot_factors.interactions,
    "effect_vs_compute": plot_compute.draw,
    "search": plot_search.draw,
}
ALWAYS = ("effects", "search")  # drawn whatever the spec names; the second of a search only

DPI, WEB_DPI, WEB_COLOURS = 300, 130, 256


def draw(root: Path, name: str, only: Collection[str] = (), width: float = style.WIDTH) -> list[Path]:
    """The spec's figures and those of ALWAYS, or `only` those named; returns the PNGs.

    Of another width (inches; `style.NARROW` for one column) are those of BY_AXIS and the curves, and all go into the
    folder figures/narrow. A sweep without a recorded step draws nothing but `search`, and no figure is drawn of which
    nothing is recorded. Raises ValueError for a figure that is no `<name>_by_<axis>` of this sweep and none of WHOLE.
    """
    named = list(dict.fromkeys(only or [*read_manifest(root, name)["figures"], *ALWAYS]))
    for figure in named:
        check(figure)
    sweep = load(root, name, wanted(root, name, named))
    if sweep.frame.empty:  # a search may have trials before it has a run that anything else is about
        named = [figure for figure in named if figure == "search"]
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = []
    with pyplot.rc_context(style.RC | ({} if width > style.NARROW else style.NARROW_TITLES)):
        for figure in named:
            made = of_sweep(sweep, figure, width)
            if made:
                folder = sweep.folder / "figures" / ("" if width == style.WIDTH else "narrow")
                drawn.append(_save(sweep, folder / f"{figure}.png", made))
    return drawn


def of_sweep(sweep: Sweep, figure: str, width: float = style.WIDTH) -> Drawing | None:
    """One figure by its name; None where nothing of it is recorded. Raises ValueError for an axis that is not there."""
    if figure in WHOLE:
        return WHOLE[figure](sweep)
    return BY_AXIS.get(figure.partition("_by_")[0], plot_curves.by_axis)(sweep, figure, width)


def check(figure: str) -> None:
    """Raises ValueError for a name of no figure, with the nearest; whether its axis is there depends on the sweep."""
    short, by, axis = figure.partition("_by_")
    if figure in WHOLE or (by and (short in BY_AXIS or short in tables.METRICS)):
        return
    every = [*BY_AXIS, *tables.METRICS]
    near = nearest(figure, WHOLE) if not by else nearest(short, every).replace("'?", f"_by_{axis}'?")
    raise ValueError(
        f"figures: no figure '{figure}'{near}; use one of {', '.join(WHOLE)}, or <name>_by_<axis> with a name of "
        f"{', '.join(every)}"
    )


def wanted(root: Path, name: str, named: Collection[str]) -> set[str] | None:
    """The metrics that these figures read; None for all, since benchmarks are named by the runs."""
    if any(figure.startswith("benchmarks_by_") for figure in named):
        return None
    manifest = read_manifest(root, name)
    tested = claims.metrics(manifest["claims"]) if "claims" in named else set()
    return tables.curve_metrics(named) | verdict.metrics(manifest) | tested


def _save(sweep: Sweep, path: Path, made: Drawing) -> Path:
    from matplotlib import pyplot

    figure = made.figure
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path.with_suffix(".csv")) as file:  # two sweeps may end, and draw, at once
        made.data.to_csv(file, index=False, float_format="%.9g", lineterminator="\n")
    text = f"{sweep.name}, scale {sweep.manifest['scale']}. {made.caption}{_lack(sweep)}"
    wide = textwrap.fill(text, int(figure.get_figwidth() * 21.5))
    room = 0.115 * (wide.count("\n") + 1) + 0.06  # inches
    height = figure.get_figheight() + room
    figure.set_figheight(height)
    figure.get_layout_engine().set(rect=(0, room / height, 1, 1 - room / height))
    note = figure.text(0.012, 0.03 / height, wide, fontsize=6, color=style.MUTED, va="bottom", linespacing=1.15)
    note.set_parse_math(False)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    figure.set_layout_engine("none")  # what the first drawing placed stays
    with replacing(path.with_suffix(".pdf")) as file:
        figure.savefig(file, format="pdf", metadata={"CreationDate": None})
    pyplot.close(figure)
    _small(path)
    return path


def _small(png: Path) -> None:
    """<name>.web.png for the page: fewer pixels and colours, a tenth of the bytes."""
    from PIL import Image

    with Image.open(png) as image:
        size = (round(image.width * WEB_DPI / DPI), round(image.height * WEB_DPI / DPI))
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    # the default method averages thin lines away: a green arm may come out blue
    few = small.quantize(WEB_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    with replacing(png.with_suffix(".web.png")) as file:
        few.save(file, format="png", optimize=True)


def _lack(sweep: Sweep) -> str:
    if not sweep.missing:
        return ""
    named = [f"{panels.title(sweep, e.labels) or 'baseline'} seed {e.seed} ({e.said})" for e in sweep.missing[:3]]
    more = f" and {len(sweep.missing) - 3} more" if len(sweep.missing) > 3 else ""
    said = f" Not done, {len(sweep.missing)} of {len(sweep.runs)} runs: {'; '.join(named)}{more}."
    if not sweep.pruned:
        return said
    left = f"Left out from their first step on: {len(sweep.pruned)} pruned"
    return f"{said} {left}; an arm with one is in no difference and no mean of scores."
