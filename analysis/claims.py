"""The source paper's claims against a sweep: supported, contradicted, no difference, undecided, or not testable here.

Claims are data (`grid_specs/claims.yaml`), a list of tests each; a test gives one finding per stratum that `where`
allows: a paired t interval over seeds on the spec's endpoint (the area under the curve for other metrics).
"Supported" needs all findings, so each is tested at its own 5 %; "contradicted" needs one, so that is corrected by Holm
over the claim's findings. Leaves out: verdicts on arms (`verdict.py`).
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import scores, sequential, stats, text, tokens, verdict
from analysis.load import Sweep

if TYPE_CHECKING:
    import pandas as pd

FILE = Path(__file__).resolve().parents[1] / "grid_specs" / "claims.yaml"
TRENDS = ("increasing", "not_increasing")
EXPECTATIONS = ("higher", "lower", "not_higher", "no_difference", *TRENDS)
READS = ("last", "area", "gain")  # of a test; by default the endpoint's metric is read last and any other by area
CLIPPED = "clipped/"  # metrics of the tokens that were clipped, one number a run
OUTCOMES = ("contradicted", "undecided", "no difference", "supported")  # the first that occurs decides


@dataclass(frozen=True)
class Finding:
    """One test in one stratum; `effect` is arm - baseline, or for a trend the fitted rise from first to last arm."""

    test: int
    stratum: dict[str, str]
    what: str
    expect: str
    metric: str
    read: str
    margin: float
    effect: stats.Paired | None
    within_margin: bool
    outcome: str
    seeds_more: int | None
    control: bool  # the mathematics leaves no room for an effect: it tests the instrument, not the claim


@dataclass(frozen=True)
class Claim:
    id: str
    text: str
    source: str
    note: str
    findings: list[Finding]
    untested: list[str]  # what each test without a finding would need
    word: str  # supported | supported in part | contradicted | no difference | undecided | not testable here
    why: str  # the tally, the seeds still needed, or what is missing


def known(path: Path = FILE) -> dict[str, Any]:
    """Every claim by id. Raises ValueError where the file is not a mapping of claims or an expectation is unknown."""
    import yaml

    claims = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(claims, dict):
        raise ValueError(f"{path}: takes a mapping of claims by id")
    for name, claim in claims.items():
        for test in claim["tests"]:
            for key, what, words in (("expect", "expectation", EXPECTATIONS), ("read", "reading", READS)):
                if test.get(key, words[0]) not in words:
                    raise ValueError(f"{path}: {name}: no {what} '{test[key]}' (there are: {', '.join(words)})")
    return claims


def metrics(ids: list[str]) -> set[str]:
    """The recorded metrics that these claims read."""
    found = {test["metric"] for name, claim in known().items() if name in ids for test in claim["tests"]}
    return {metric for metric in found if not metric.startswith(CLIPPED)}


def check(sweep: Sweep) -> list[Claim]:
    """The spec's claims in its order. Raises ValueError for an id that claims.yaml does not hold."""
    claims, ids = known(), sweep.manifest["claims"]
    unknown = [i for i in ids if i not in claims]
    if unknown:
        raise ValueError(f"claims: no claim '{unknown[0]}' in grid_specs/claims.yaml (there are: {', '.join(claims)})")
    return [_claim(sweep, name, claims[name]) for name in ids]


def _claim(sweep: Sweep, name: str, claim: dict[str, Any]) -> Claim:
    drafts: list[tuple[Finding, list[float]]] = []
    untested = []
    for number, test in enumerate(claim["tests"]):
        made = _measure(sweep, number, test)
        drafts += made
        if not made and not test.get("control"):
            untested.append(_needs(test))
    adjusted = stats.holm([f.effect.p if f.effect else math.nan for f, _ in drafts])
    paired, _ = sequential.tests(sweep.manifest)
    findings = [_judge(f, values, p, paired) for (f, values), p in zip(drafts, adjusted, strict=True)]
    untested = list(dict.fromkeys(untested))  # one contrast may be tested on several metrics
    word, why = _sum_up(findings, untested or [claim.get("needs", "")])
    return Claim(name, claim["text"], claim["source"], claim.get("note", ""), findings, untested, word, why)


def _measure(sweep: Sweep, number: int, test: dict[str, Any]) -> list[tuple[Finding, list[float]]]:
    """The paired values of every stratum that the sweep plans and `where` allows; not yet judged."""
    axis = next((a for a, key in sweep.manifest["keys"].items() if test["key"] in (key, a)), None)
    if axis is None or (test.get("control") and axis not in sweep.controls):
        return []
    end, metric, trend = sweep.manifest["endpoint"], test["metric"], test["expect"] in TRENDS
    read = test.get("read", "last" if metric == end["metric"] else "area")
    margin = test.get("margin", end["margin"] if metric == end["metric"] else verdict.ENTROPY_MARGIN)
    by_run = _scores(sweep, metric, read)
    paired, _ = sequential.tests(sweep.manifest)
    found = []
    for stratum in sweep.strata(axis):
        levels = {a: given[0] for a, given in sweep.axes.items()} | stratum
        if any(levels.get(a) not in allowed for a, allowed in _where(sweep, axis, test).items()):
            continue
        planned = [arm for arm in sweep.axes[axis] if sweep.having(stratum | {axis: arm})]
        if trend:
            arms = sorted((arm for arm in planned if _is_number(arm)), key=float)
            if len(arms) < 3:
                continue
            values, what = _rises(sweep, by_run, stratum, axis, arms), f"rise over {axis} {arms[0]} … {arms[-1]}"
        else:
            arm, baseline = (next((a for a in planned if _same(a, test[side])), "") for side in ("arm", "baseline"))
            if not (arm and baseline):
                continue
            ours, theirs = sweep.having(stratum | {axis: arm}), sweep.having(stratum | {axis: baseline})
            values, what = scores.pair(by_run, ours, theirs).differences, f"{axis} {arm} - {baseline}"
        draft = Finding(
            test=number,
            stratum=sweep.shown(stratum),
            what=what + (", gained by training" if read == "gain" else ""),
            expect=test["expect"],
            metric=metric,
            read=read,
            margin=margin,
            effect=paired(values) if values else None,
            within_margin=False,
            outcome="",
            seeds_more=None,
            control=bool(test.get("control")),
        )
        found.append((draft, values))
    return found


def _where(sweep: Sweep, axis: str, test: dict[str, Any]) -> dict[str, list[str]]:
    """All other arms are at their baseline unless the test names them; a control holds wherever it was tried."""
    held = {} if test.get("control") else {a: [b] for a, b in sweep.baseline.items() if a in sweep.varying(axis)}
    return held | test.get("where", {})


def _scores(sweep: Sweep, metric: str, read: str) -> dict[str, float]:
    """run id -> its number."""
    if metric.startswith(CLIPPED):
        done = {entry.run for entry in sweep.runs if entry.state == "done"}
        found = tokens.per_run(sweep, sweep.folder.parents[1])
        return {run: values[metric] for run, values in found.items() if run in done}
    gain = partial(_gain, last=sweep.manifest["endpoint"]["last"])
    return scores.run_scores(sweep, metric, gain if read == "gain" else scores.reader(sweep, read))


def _gain(curve: "pd.Series", last: int) -> float:
    """The endpoint less the first evaluation, which precedes all training."""
    values = curve.sort_index().dropna()
    return stats.endpoint(values, last) - float(values.iloc[0]) if len(values) > last else math.nan


def _rises(sweep: Sweep, by_run: dict[str, float], stratum: dict[str, str], axis: str, arms: list[str]) -> list[float]:
    """Per seed: least-squares slope of the score over the arms' numeric levels, times last - first level."""
    import numpy as np

    x = np.array([float(arm) for arm in arms])
    columns = [scores.by_seed(by_run, sweep.having(stratum | {axis: arm})) for arm in arms]
    seeds = [s for s in sorted(columns[0]) if all(not math.isnan(c.get(s, math.nan)) for c in columns)]
    return [float(np.polyfit(x, [c[s] for c in columns], 1)[0] * (x[-1] - x[0])) for s in seeds]


def _judge(draft: Finding, values: list[float], p_holm: float, paired: sequential.PairedTest) -> Finding:
    effect, margin, outcome, within = draft.effect, draft.margin, "undecided", False
    if effect is not None and effect.n >= verdict.MIN_PAIRS:
        narrow = paired(values, 0.90)
        within = -margin < narrow.low and narrow.high < margin
        outcome = outcome_of(draft.expect, effect, narrow, p_holm, margin)
    more = verdict.seeds_more(effect, outcome != "undecided", margin)
    return replace(draft, outcome=outcome, within_margin=within, seeds_more=more)


def outcome_of(expect: str, effect: stats.Paired, narrow: stats.Paired, p_holm: float, margin: float) -> str:
    """What a 95 % interval (`effect`), a 90 % one (`narrow`) and the adjusted p say of an expectation.

    "No difference" and its like are two one-sided tests at 5 %: the 90 % interval within ± margin, or under it.
    """
    within = -margin < narrow.low and narrow.high < margin
    opposed = p_holm < verdict.ALPHA
    if expect in ("higher", "increasing", "lower"):
        toward, away = (effect.high < 0, effect.mean > 0) if expect == "lower" else (effect.low > 0, effect.mean < 0)
        if toward:
            return "supported"
        return "contradicted" if away and opposed else "no difference" if within else "undecided"
    if expect in ("not_higher", "not_increasing"):
        if narrow.high < margin:
            return "supported"
        return "contradicted" if effect.mean > 0 and opposed else "undecided"
    return "supported" if within else "contradicted" if opposed else "undecided"


def _sum_up(findings: list[Finding], needs: list[str]) -> tuple[str, str]:
    """A claim stands on all of its findings: the worst outcome decides, "no difference" of a whole test included."""
    counted = [finding for finding in findings if not finding.control]
    if not counted:
        return "not testable here", f"needs {'; '.join(needs)}"
    tally = Counter(finding.outcome for finding in counted)
    why = ", ".join(f"{tally[outcome]} {outcome}" for outcome in reversed(OUTCOMES) if tally[outcome])
    why = f"{len(counted)} finding{'s' if len(counted) != 1 else ''}, {why}"
    word = next(outcome for outcome in OUTCOMES if tally[outcome])
    if word == "undecided":
        more = [finding.seeds_more for finding in counted if finding.outcome == "undecided"]
        why += f"; needs {text.seeds(None if None in more else max(m for m in more if m is not None))}"
    by_test: dict[int, set[str]] = {}
    for finding in counted:
        by_test.setdefault(finding.test, set()).add(finding.outcome)
    if word == "no difference" and {"no difference"} not in by_test.values():
        word = "supported in part"
    return word, why


def _needs(test: dict[str, Any]) -> str:
    arms = "three numeric levels" if test["expect"] in TRENDS else f"{test['arm']} and {test['baseline']}"
    where = ", ".join(f"{axis} {' or '.join(allowed)}" for axis, allowed in test.get("where", {}).items())
    return f"{test['key']} with {arms}{f' on {where}' if where else ''}"


def _same(level: str, wanted: str) -> bool:
    """Equal as text or as numbers: a spec may write 0.2 where the claim says 0.20."""
    return level == wanted or (_is_number(level) and _is_number(wanted) and float(level) == float(wanted))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
