"""What the notebooks call: a sweep read whole, figures as pictures, verdicts and claims as frames.

Axes are found by the configuration key that they set (`tricks.advantage`), so that a notebook runs on any sweep that
has such an axis, whatever its name and scale. Leaves out: files (`figures.py`, `report.py`).
"""

import base64
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import depends, factors, figures, report, stats, style, text
from analysis.load import Sweep, load
from harness.config import nearest

if TYPE_CHECKING:
    import pandas as pd

DPI = 110
UNKNOWN = "Nothing of this is recorded in this sweep."


@dataclass(frozen=True)
class Picture:
    """One figure, shown with its caption; `data` holds exactly the plotted numbers, None where nothing is recorded."""

    name: str
    png: bytes
    data: "pd.DataFrame | None"
    caption: str

    def _repr_html_(self) -> str:
        from html import escape

        if self.data is None:
            return f"<p>{escape(self.name)}: {UNKNOWN}</p>"
        picture = base64.b64encode(self.png).decode()
        return f'<img alt="{escape(self.name)}" src="data:image/png;base64,{picture}"><p>{escape(self.caption)}</p>'


def read(root: str | Path, name: str) -> report.Judged:
    """A sweep with every metric, judged. Raises FileNotFoundError naming the sweeps that exist."""
    return report.judged(load(Path(root), name))


def axis(sweep: Sweep, key: str) -> str:
    """The axis that sets a configuration key, or has that name. Raises ValueError with those there are."""
    keys = {name: sweep.manifest["keys"].get(name) or name for name in sweep.axes}
    for name, sets in keys.items():
        if key in (name, sets):
            return name
    have = ", ".join(f"{name} ({sets})" if sets != name else name for name, sets in keys.items())
    raise ValueError(f"the sweep has no axis over {key}{nearest(key, keys.values())} (there are: {have})")


def figure(judged: report.Judged, kind: str, key: str = "") -> Picture:
    """`<kind>_by_<axis>` of the axis that sets `key`; without it a figure of the whole sweep, such as `summary`.

    Raises ValueError for no figure of that kind.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    name = f"{kind}_by_{axis(judged.sweep, key)}" if key else kind
    figures.check(name)
    with pyplot.rc_context(style.RC):
        made = figures.of_sweep(judged.sweep, name)
        if made is None:
            return Picture(name, b"", None, "")
        drawn = io.BytesIO()
        made.figure.savefig(drawn, format="png", dpi=DPI, metadata={"Software": None})
        pyplot.close(made.figure)
    return Picture(name, drawn.getvalue(), made.data, made.caption)


def verdicts(judged: report.Judged, key: str) -> "pd.DataFrame":
    """A row per arm and place on the spec's endpoint, in its unit: difference, 95 % interval, n, p after Holm, word."""
    import pandas as pd

    name = axis(judged.sweep, key)
    rows = []
    for c in judged.table(name, "last", judged.sweep.manifest["endpoint"]["metric"]):
        place = {"where": report.heading(c) or "everywhere", "arm": c.arm, "baseline": c.baseline}
        rows.append(place | _numbers(c.effect, c.metric) | {"p Holm": c.p_holm, "verdict": c.word})
    return pd.DataFrame(rows)


def for_whom(judged: report.Judged, key: str) -> str:
    """On what the effect of an axis depends, in a sentence."""
    return depends.sentence(factors.analyse(judged.sweep, axis(judged.sweep, key)))


def claims(judged: report.Judged, *ids: str) -> "pd.DataFrame":
    """A row per finding of those of these claims that the sweep names; one without a finding says what it needs."""
    import pandas as pd

    rows = []
    for claim in judged.claims:
        if claim.id in ids:
            for f in claim.findings:
                tested = {"test": report.tested(f), "where": report.where(f) or "everywhere", "finding": f.outcome}
                rows.append({"claim": claim.id, "outcome": claim.word} | tested | _numbers(f.effect, f.metric))
            if not claim.findings:
                rows.append({"claim": claim.id, "outcome": claim.word, "test": claim.why})
    return pd.DataFrame(rows)


def _numbers(effect: stats.Paired | None, metric: str) -> dict[str, float]:
    factor, digits, _ = text.scale(metric)
    values = {"difference": effect.mean, "low": effect.low, "high": effect.high} if effect else {}
    shown = {key: round(factor * value, digits + 1) for key, value in values.items()}
    return {key: shown.get(key, math.nan) for key in ("difference", "low", "high")} | {"n": effect.n if effect else 0}
