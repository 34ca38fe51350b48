"""The house style: sizes, colours, line styles. Colour is the arm, the same in every panel and figure."""

from collections.abc import Sequence
from typing import Any

# The five of Okabe and Ito's palette with a contrast of at least 3:1 on white.
QUALITATIVE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7A5195", "#8C6D31")
BASELINE = "#222222"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 2)), (0, (3, 3)))
WORD_COLOURS = {"trick": "#00734F", "trap": "#B64200", "neutral": "#555555"}

RC: Any = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "pdf.fonttype": 42,
    "svg.hashsalt": "trick-or-trap",
    "figure.constrained_layout.use": True,
}


def arm_colours(arms: Sequence[str], baseline: str) -> dict[str, str]:
    """The baseline near-black; ordered (numeric) arms along a sequential map, named ones from the palette."""
    others = [arm for arm in arms if arm != baseline]
    if len(others) > 1 and all(_is_number(arm) for arm in arms):
        from matplotlib import colormaps, colors

        shades = [0.15 + 0.65 * i / (len(others) - 1) for i in range(len(others))]
        ranked = {
            arm: colors.to_hex(colormaps["viridis"](s))
            for arm, s in zip(sorted(others, key=float), shades, strict=True)
        }
    else:
        ranked = {arm: QUALITATIVE[i % len(QUALITATIVE)] for i, arm in enumerate(others)}
    return {arm: BASELINE if arm == baseline else ranked[arm] for arm in arms}


def arm_dashes(arms: Sequence[str], baseline: str) -> dict[str, Any]:
    """Solid for the baseline, so that the figure reads in grey as well."""
    others = iter(DASHES[1:] * (1 + len(arms)))
    return {arm: DASHES[0] if arm == baseline else next(others) for arm in arms}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
