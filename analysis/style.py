"""The house style: sizes, colours, line styles, marks. Colour is the arm, the same in every panel and figure."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

# Okabe and Ito's colours with a contrast of at least 3:1 on white, and two of the same weight.
QUALITATIVE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7A5195", "#8C6D31")
BASELINE = "#222222"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 2)), (0, (3, 3)))
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
MUTED = "#6E6E6E"
WIDTH = 7.0  # inches: two columns of most venues
NARROW = 3.3  # inches: one column

# word -> colour, matplotlib marker, glyph in text; the mark repeats the colour, so that grey print tells the same
WORDS: dict[str, tuple[str, str, str]] = {
    "trick": ("#00734F", "^", "▲"),
    "trap": ("#B64200", "v", "▼"),
    "neutral": ("#444444", "o", "○"),
    "inconclusive": ("#8A8A8A", "D", "?"),
    "description only": ("#8A8A8A", "|", "·"),
    "pruned": ("#7A6A00", "X", "✂"),
    "higher": ("#0072B2", ">", "↑"),
    "lower": ("#7A5195", "<", "↓"),
}

# what a clipped token is (tokens.py) -> colour
KINDS = {"connective": "#D55E00", "function word": "#0072B2", "other": "#9A9A9A"}

# outcome of a finding of a claim -> colour, matplotlib marker, glyph in text
OUTCOMES: dict[str, tuple[str, str, str]] = {
    "supported": ("#00734F", "^", "✓"),
    "contradicted": ("#B64200", "v", "✗"),
    "no difference": ("#444444", "o", "○"),
    "undecided": ("#8A8A8A", "D", "?"),
}

NARROW_TITLES: Any = {"axes.titlesize": 6.5}  # beside RC, in a figure of one column

RC: Any = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "axes.labelcolor": "#222222",
    "axes.edgecolor": "#777777",
    "axes.linewidth": 0.7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.color": "#777777",
    "ytick.color": "#777777",
    "xtick.labelcolor": "#222222",
    "ytick.labelcolor": "#222222",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#E8E8E8",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "axes.unicode_minus": True,
    "pdf.fonttype": 42,
    "svg.hashsalt": "trick-or-trap",
}


def arm_colours(arms: Sequence[str], baseline: str) -> dict[str, str]:
    """The baseline near-black; ordered (numeric) arms along a sequential map, named ones from the palette."""
    others = [arm for arm in arms if arm != baseline]
    if len(others) > 1 and all(_is_number(arm) for arm in arms):
        from matplotlib import colormaps, colors

        shades = [0.12 + 0.58 * i / (len(others) - 1) for i in range(len(others))]
        ranked = {
            arm: colors.to_hex(colormaps["plasma"](shade))
            for arm, shade in zip(sorted(others, key=float), shades, strict=True)
        }
    else:
        ranked = {arm: QUALITATIVE[i % len(QUALITATIVE)] for i, arm in enumerate(others)}
    return {arm: BASELINE if arm == baseline else ranked[arm] for arm in arms}


def arm_dashes(arms: Sequence[str], baseline: str) -> dict[str, Any]:
    """Solid for the baseline, so that the figure reads in grey as well."""
    others = iter(DASHES[1:] * (1 + len(arms)))
    return {arm: DASHES[0] if arm == baseline else next(others) for arm in arms}


def words(level: str) -> str:
    """A label for people: small_base -> small base."""
    return level.replace("_", " ")


def place(stratum: Mapping[str, str]) -> str:
    """Where, for people: "small base, easy"; empty for a sweep of one stratum."""
    return ", ".join(words(level) for level in stratum.values())


def printable(text: str, family: str = "DejaVu Sans") -> str:
    """Text as the font can show it: control characters and glyphs that it lacks as their code, such as \\u4e2d.

    A model's tokens may hold anything; matplotlib would warn and draw a box.
    """
    known = _glyphs(family)
    return "".join(c if ord(c) in known and c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@functools.cache
def _glyphs(family: str) -> frozenset[int]:
    from matplotlib import font_manager

    return frozenset(font_manager.get_font(font_manager.findfont(family)).get_charmap())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
