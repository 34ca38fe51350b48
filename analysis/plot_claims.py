"""Draws every finding of every claim as a forest plot: effect, 95 % interval, and what it says of the claim.

A block per metric, each with its own scale, the findings grouped by claim within; claims that the sweep cannot test
are named below. Leaves out: judging (`claims.py`).
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis import claims, sequential, style, text, verdict
from analysis.claims import Claim, Finding
from analysis.load import Sweep
from analysis.panels import Drawing

if TYPE_CHECKING:
    import pandas as pd

ROW, LOW = 0.165, 0.108  # inches, of a row, and of one in a figure of more than LONG
LONG = 50


@dataclass(frozen=True)
class Row:
    """A line of a block: a finding, or the heading of a claim."""

    claim: Claim
    finding: Finding | None


def draw(sweep: Sweep) -> Drawing | None:
    """`claims`; None where the spec names no claim that the sweep tests."""
    return of_claims(sweep, claims.check(sweep))


def of_claims(sweep: Sweep, found: list[Claim]) -> Drawing | None:
    if not any(claim.findings for claim in found):
        return None
    end = sweep.manifest["endpoint"]
    said = (
        f"Paired differences over {sequential.seeds(sweep.manifest)}, {sequential.interval(sweep.manifest)}, cut at "
        f"the frame where intervals reach far beyond it ({end['metric']}: mean of the last {end['last']} evaluations "
        "unless named otherwise; other metrics: mean height of the curve). Grey: ± margin of practical equality. "
        "Mark: what the finding says of the claim."
    )
    untested = [claim.id for claim in found if not claim.findings]
    said += f" Not testable here: {', '.join(untested)}." if untested else ""
    return Drawing(_plot(found), table(found), said)


def table(found: list[Claim]) -> "pd.DataFrame":
    """A row per finding: claim, its word, what is compared and where, expectation, effect in recorded units."""
    import pandas as pd

    rows = []
    for claim in found:
        for f in claim.findings:
            numbers = {key: getattr(f.effect, key) if f.effect else math.nan for key in ("mean", "low", "high", "sd")}
            what = {
                "claim": claim.id,
                "word": claim.word,
                "metric": f.metric,
                "where": style.place(f.stratum),
                "what": f.what,
            }
            rest = {"n": f.effect.n if f.effect else 0, "margin": f.margin, "outcome": f.outcome}
            rows.append(what | {"expect": f.expect, "control": f.control} | numbers | rest)
    return pd.DataFrame(rows)


def _plot(found: list[Claim]) -> Any:
    from matplotlib import pyplot

    blocks = _blocks(found)
    heights = [len(rows) + 0.6 for _, rows in blocks]
    long = sum(heights) > LONG
    figure, grid = pyplot.subplots(
        len(blocks),
        1,
        figsize=(style.WIDTH, 0.15 + sum((LOW if long else ROW) * height + 0.38 for height in heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, (metric, rows) in zip(grid[:, 0], blocks, strict=True):
        _forest(axes, metric, rows, 5.5 if long else 6.0)
    return figure


def _blocks(found: list[Claim]) -> list[tuple[str, list[Row]]]:
    """Metric -> its rows, a heading before each claim's findings; the metric of the first finding comes first."""
    by_metric: dict[str, list[Row]] = {}
    for claim in found:
        for f in claim.findings:
            rows = by_metric.setdefault(f.metric, [])
            if not any(row.claim is claim for row in rows):
                rows.append(Row(claim, None))
            rows.append(Row(claim, f))
    return list(by_metric.items())


def _forest(axes: Any, metric: str, rows: list[Row], size: float) -> None:
    factor, _, unit = text.scale(metric)
    shown = [row.finding for row in rows if row.finding and row.finding.effect]
    margins = {f.margin for f in shown}
    reach = _reach([f for f in shown if f], factor)
    axes.axvline(0, color="#999999", linewidth=0.7, zorder=1)
    if len(margins) == 1 and shown:
        margin = factor * next(iter(margins))
        axes.axvspan(-margin, margin, color="#F0F0F0", zorder=0, linewidth=0)
    for y, row in enumerate(rows):
        if row.finding is None:
            heading = f"{row.claim.id}  {row.claim.word}"
            colour = style.OUTCOMES.get(row.claim.word, style.OUTCOMES["undecided"])[0]
            axes.text(0, y, heading, transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=size + 1,
                      fontweight="bold", color=colour)  # fmt: skip
            continue
        f = row.finding
        colour, marker, glyph = style.OUTCOMES.get(f.outcome, style.OUTCOMES["undecided"])
        on = f" on {style.place(f.stratum)}" if f.stratum else ""
        name = f"{f.what}{on}{' (control)' if f.control else ''}"
        axes.text(-0.015, y, _cut(name), transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=size,
                  parse_math=False)  # fmt: skip
        if f.effect:
            if f.effect.n >= verdict.MIN_PAIRS:
                axes.plot([factor * f.effect.low, factor * f.effect.high], [y, y], color=colour, linewidth=1.6)
            face = colour if f.outcome in ("supported", "contradicted") else "white"
            axes.plot(factor * f.effect.mean, y, marker, color=colour, markerfacecolor=face, markersize=4.2, mew=1)
        said = f"{glyph} {f.outcome or 'no pair'}, expected {_expected(f)}"
        axes.text(1.015, y, said, transform=axes.get_yaxis_transform(), va="center", color=colour, fontsize=size)
    axes.set_xlim(-reach, reach)
    axes.set_ylim(len(rows) - 0.4, -0.7)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(False)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(f"{metric} ({unit})" if unit != metric else metric, fontsize=7)


def _reach(shown: list[Finding], factor: float) -> float:
    """Half the width: every effect with room, and every interval that is at most four times as wide as the median."""
    import statistics

    means = [abs(factor * f.effect.mean) for f in shown if f.effect]
    ends = [
        factor * max(abs(f.effect.low), abs(f.effect.high))
        for f in shown
        if f.effect and f.effect.n >= verdict.MIN_PAIRS
    ]
    usual = 4 * statistics.median(ends) if ends else 0.0
    margins = [1.3 * factor * f.margin for f in shown]
    return 1.08 * max([*means, *(end for end in ends if end <= usual), *margins], default=1.0) or 1.0


def _expected(f: Finding) -> str:
    return f.expect.replace("_", " ")


def _cut(name: str, most: int = 62) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
