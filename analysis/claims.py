"""The source paper's claims against a sweep: supported, contradicted, undecided, or not testable here.

Claims are data (`grid_specs/claims.yaml`). Each test of a claim is a paired t interval over seeds in one stratum, on
the spec's endpoint (the area under the curve for metrics other than the endpoint's). Not corrected for the number
of claims: a claim names its contrast in advance. Leaves out: verdicts on arms (`verdict.py`).
"""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from analysis import stats, verdict
from analysis.load import Sweep

EXPECTATIONS = ("higher", "lower", "not_higher", "no_difference", "increasing")


@dataclass(frozen=True)
class Finding:
    """One test in one stratum; `effect` is arm - baseline, or the slope per level for `increasing`."""

    stratum: dict[str, str]
    what: str
    expect: str
    metric: str
    effect: stats.Paired | None
    outcome: str  # supported | contradicted | undecided
    seeds_more: int | None


@dataclass(frozen=True)
class Claim:
    id: str
    text: str
    source: str
    note: str
    findings: list[Finding]
    word: str  # supported | contradicted | undecided (…) | not testable here (…)


def known(path: Path | None = None) -> dict[str, Any]:
    """Every claim by id."""
    import yaml

    file = path or Path(__file__).resolve().parents[1] / "grid_specs" / "claims.yaml"
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def check(sweep: Sweep) -> list[Claim]:
    """The spec's claims in its order. Raises ValueError for an id that claims.yaml does not hold."""
    claims, ids = known(), sweep.manifest["claims"]
    unknown = [i for i in ids if i not in claims]
    if unknown:
        raise ValueError(f"claims: no claim '{unknown[0]}' in grid_specs/claims.yaml (there are: {', '.join(claims)})")
    return [_claim(sweep, i, claims[i]) for i in ids]


def _claim(sweep: Sweep, name: str, claim: dict[str, Any]) -> Claim:
    findings = [finding for test in claim["tests"] for finding in _test(sweep, test)]
    return Claim(name, claim["text"], claim["source"], claim.get("note", ""), findings, _word(claim, findings))


def _word(claim: dict[str, Any], findings: list[Finding]) -> str:
    if not findings:
        return f"not testable here (needs {claim.get('needs', 'arms or models that this sweep does not have')})"
    outcomes = [finding.outcome for finding in findings]
    if "contradicted" in outcomes:
        return "contradicted"
    if "undecided" in outcomes:
        more = [f.seeds_more for f in findings if f.outcome == "undecided"]
        known_more = [n for n in more if n is not None]
        return f"undecided (needs about {max(known_more)} more seeds)" if len(known_more) == len(more) else "undecided"
    return "supported"


def _test(sweep: Sweep, test: dict[str, Any]) -> list[Finding]:
    """A finding for every stratum that the sweep plans and `where` allows."""
    axis = next((a for a, key in sweep.manifest["keys"].items() if test["key"] in (key, a)), None)
    if axis is None:
        return []
    levels = sweep.axes[axis]
    if test["expect"] != "increasing" and not {test["arm"], test["baseline"]} <= set(levels):
        return []
    end, metric = sweep.manifest["endpoint"], test["metric"]
    read = partial(stats.endpoint, last=end["last"]) if metric == end["metric"] else stats.area
    margin = end["margin"] if metric == end["metric"] else verdict.ENTROPY_MARGIN
    scores = verdict.run_scores(sweep, metric, read)
    findings = []
    for stratum in verdict.strata(sweep, axis):
        if any(
            stratum.get(a, sweep.axes.get(a, [None])[0]) not in allowed for a, allowed in test.get("where", {}).items()
        ):
            continue
        if test["expect"] == "increasing":
            arms = [level for level in levels if verdict.planned(sweep, stratum | {axis: level})]
            values, what = _slopes(sweep, scores, stratum, axis, arms), f"slope over {axis} {', '.join(arms)}"
            if len(arms) < 3:
                continue
        else:
            arm, baseline = stratum | {axis: test["arm"]}, stratum | {axis: test["baseline"]}
            if not (verdict.planned(sweep, arm) and verdict.planned(sweep, baseline)):
                continue
            values = verdict.pair(scores, sweep, arm, baseline).differences
            what = f"{axis} {test['arm']} - {test['baseline']}"
        findings.append(_finding(stratum, what, test, values, margin))
    return findings


def _slopes(sweep: Sweep, scores: dict[str, float], stratum: dict[str, str], axis: str, arms: list[str]) -> list[float]:
    """Least-squares slope per seed of the score over the arms' numeric levels, per step between neighbours."""
    import numpy as np

    x = np.array([float(arm) for arm in arms])
    gap = float(np.mean([b - a for a, b in pairwise(x)]))
    first = verdict.by_seed(scores, sweep, stratum | {axis: arms[0]})
    columns = [verdict.by_seed(scores, sweep, stratum | {axis: arm}) for arm in arms]
    seeds = [s for s in sorted(first) if all(s in c and not math.isnan(c[s]) for c in columns)]
    return [float(np.polyfit(x, [c[s] for c in columns], 1)[0]) * gap for s in seeds]


def _finding(stratum: dict[str, str], what: str, test: dict[str, Any], values: list[float], margin: float) -> Finding:
    effect = stats.paired(values) if values else None
    if effect is None or effect.n < verdict.MIN_PAIRS:
        more: int | None = verdict.MIN_PAIRS - (effect.n if effect else 0)
        return Finding(stratum, what, test["expect"], test["metric"], effect, "undecided", more)
    outcome = outcome_of(test["expect"], effect, stats.equivalent(values, margin), margin)
    needed = stats.seeds_needed(max(abs(effect.mean), margin), effect.sd)
    more = None if math.isinf(needed) else max(1, int(needed) - effect.n)
    return Finding(
        stratum, what, test["expect"], test["metric"], effect, outcome, more if outcome == "undecided" else 0
    )


def outcome_of(expect: str, effect: stats.Paired, equivalent: bool, margin: float) -> str:
    """What a 95 % interval says of an expectation; "equivalent" is TOST at the margin.

    Raises ValueError for an unknown expectation.
    """
    above, below = effect.low > 0, effect.high < 0
    if expect in ("higher", "increasing", "lower"):
        toward, away = (below, above) if expect == "lower" else (above, below)
        return "supported" if toward else "contradicted" if away or equivalent else "undecided"
    if expect == "not_higher":
        return (
            "contradicted"
            if above and not equivalent
            else "supported"
            if effect.high < margin or equivalent
            else "undecided"
        )
    if expect == "no_difference":
        return "supported" if equivalent else "contradicted" if above or below else "undecided"
    raise ValueError(f"claims: no expectation '{expect}' (there are: {', '.join(EXPECTATIONS)})")
