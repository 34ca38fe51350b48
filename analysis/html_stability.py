"""The HTML report's section on collapses: how often the runs of an arm fail to hold what they gained.

Rates, intervals and the definition are those of `rates.py`. Leaves out: how well the arms do (`html_verdict.py`).
"""

import math

from analysis import rates, report, text
from analysis.html_parts import breakable, esc, stratum, table
from analysis.load import Sweep

HEAD = ["arm", "collapsed", "share [95 %]", "baseline", "share [95 %]", "p Fisher, Holm", "how", "where"]


def body(sweep: Sweep) -> str:
    """A row per arm with a collapse on either side; the others are named. Empty where no run has ended."""
    ended = rates.ends(sweep)
    found = {axis: rates.rates(sweep, axis, ended) for axis in sweep.baseline}
    known = [rate for of_axis in found.values() for rate in of_axis if rate.ours.runs]
    if not known:
        return ""
    rows: list[list[str]] = []
    calm = []
    for axis, of_axis in found.items():
        arms = {arm: _summed(of_axis, arm) for arm in dict.fromkeys(rate.arm for rate in of_axis)}
        torn = {arm: rate for arm, rate in arms.items() if rate.ours.collapsed or rate.theirs.collapsed}
        rows += [[f"{esc(axis)} <small>against {esc(sweep.baseline[axis])}</small>"]] if torn else []
        rows += [_row(rate, of_axis) for rate in torn.values()]
        calm += [f"{axis} {arm}" for arm in arms if arm not in torn]
    title = "Runs that collapsed, over all places of an arm, beside the baseline's in the same places"
    shown = table(title, HEAD, "lrirrrww", rows, "stability") if rows else ""
    said = f"<p>No run of these collapsed: {esc(', '.join(calm))}.</p>" if calm and rows else ""
    none = f"<p>None of {text.plural(len(ended), 'run')} collapsed.</p>" if not rows else ""
    return f'{none}{shown}{said}<p class="note">{esc(rates.rule(sweep))}</p>'


def _summed(of_axis: list[rates.Rate], arm: str) -> rates.Rate:
    """The arm over all its places: the pooled rate, which is left out where there is one place."""
    mine = [rate for rate in of_axis if rate.arm == arm]
    return next((rate for rate in mine if rate.stratum is None), mine[0])


def _row(rate: rates.Rate, of_axis: list[rates.Rate]) -> list[str]:
    how = ", ".join(f"{count} {reason}" for reason, count in rate.ours.reasons.items())
    places = [
        f"{stratum(r.stratum)} ({r.ours.collapsed} of {r.ours.runs})"
        for r in of_axis
        if r.arm == rate.arm and r.stratum is not None and r.ours.collapsed
    ]
    ours, theirs = _share(rate.ours), _share(rate.theirs)
    return [f"<b>{breakable(rate.arm)}</b>", *ours, *theirs, esc(report.p_value(rate.p_holm)), how, "; ".join(places)]


def _share(share: rates.Share) -> list[str]:
    if math.isnan(share.share):
        return ["no run has ended", "-"]
    interval = f"{100 * share.share:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"
    return [f"{share.collapsed} of {share.runs}", interval]
