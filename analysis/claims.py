"""The source paper's claims against a sweep: supported, contradicted, no difference, undecided, or not testable here.

Claims are data (`grid_specs/claims.yaml`), a list of tests each; a test gives one finding per stratum that `where`
allows: a paired t interval over seeds on the spec's endpoint (the area under the curve for other metrics).
"Supported" needs all findings, so each is tested at its own 5 %; "contradicted" needs one, so that is corrected by Holm
over the claim's findings. Leaves out: verdicts on arms (`verdict.py`).
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import claims_futility, compared, futility, scores, sequential, stats, text, tokens, verdict
from analysis.expectations import EXPECTATIONS, outcome_of
from analysis.load import Entry, Sweep

if TYPE_CHECKING:
    import pandas as pd

FILE = Path(__file__).resolve().parents[1] / "grid_specs" / "claims.yaml"
READS = ("last", "area", "gain")  # of a test; by default the endpoint's metric is read last and any other by area
CLIPPED = "clipped/"  # metrics of the tokens that were clipped, one number a run
Numbers = Callable[[str, str], dict[str, float]]  # a metric and a reading -> run id -> its number
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
    chance: float = math.nan  # that seeds up to max_seeds give an outcome; NaN as in `Claim`
    against: float = math.nan  # that they contradict
    pruned: int = 0  # runs that a rule stopped early: then there is no effect, and the outcome is undecided


@dataclass(frozen=True)
class Draft:
    """A finding before it is judged, the paired values in it, and the planned runs of each level that is compared."""

    finding: Finding
    values: list[float]
    sides: list[list[Entry]]


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
    chance: float = math.nan  # that seeds up to max_seeds decide it; NaN but where `stop` has futility and it is open
    given_up: bool = False  # that chance was too small: no more seeds


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
    return [claim for claim, _ in judged(sweep)]


def judged(sweep: Sweep, numbers: Numbers | None = None) -> list[tuple[Claim, list[Draft]]]:
    """As `check`, each with what its findings were judged from; `numbers` of the sweep's runs, where they are known."""
    numbers = numbers or numbers_of(sweep)
    claims, ids = known(), sweep.manifest["claims"]
    unknown = [i for i in ids if i not in claims]
    if unknown:
        raise ValueError(f"claims: no claim '{unknown[0]}' in grid_specs/claims.yaml (there are: {', '.join(claims)})")
    end = sweep.manifest["endpoint"]["metric"], "last"
    laws = {end: futility.law(sweep, scores.looked_up(numbers(*end)))}
    return [_claim(sweep, name, claims[name], numbers, laws) for name in ids]


def _claim(
    sweep: Sweep, name: str, claim: dict[str, Any], numbers: Numbers, laws: claims_futility.Laws
) -> tuple[Claim, list[Draft]]:
    drafts: list[Draft] = []
    untested = []
    for number, test in enumerate(claim["tests"]):
        made = _measure(sweep, number, test, numbers)
        drafts += made
        if not made and not test.get("control"):
            untested.append(compared.needs(test))
    effects = [draft.finding.effect for draft in drafts]
    p_values = [e.p if e and e.n >= verdict.MIN_PAIRS else math.nan for e in effects]
    paired, _ = sequential.tests(sweep.manifest)
    findings = [_judge(draft, p, paired) for draft, p in zip(drafts, stats.holm(p_values), strict=True)]
    stop, levels = sweep.manifest.get("stop"), stats.holm_level(p_values, verdict.ALPHA)
    findings, chance = claims_futility.judged(stop, findings, drafts, levels, laws)
    untested = list(dict.fromkeys(untested))  # one contrast may be tested on several metrics
    given_up = chance < futility.least(stop)
    instead = futility.said(chance, stop) if given_up else ""
    word, why = _sum_up(findings, untested or [claim.get("needs", "")], instead)
    plain = (name, claim["text"], claim["source"], claim.get("note", ""))
    return Claim(*plain, findings, untested, word, why, chance, given_up), drafts


def _measure(sweep: Sweep, number: int, test: dict[str, Any], numbers: Numbers) -> list[Draft]:
    """The paired values of every stratum that the sweep plans and `where` allows; not yet judged."""
    axis = next((a for a, key in sweep.manifest["keys"].items() if test["key"] in (key, a)), None)
    if axis is None or (test.get("control") and axis not in sweep.controls):
        return []
    end, metric = sweep.manifest["endpoint"], test["metric"]
    read = test.get("read", "last" if metric == end["metric"] else "area")
    margin = test.get("margin", end["margin"] if metric == end["metric"] else verdict.ENTROPY_MARGIN)
    paired, _ = sequential.tests(sweep.manifest)
    found = []
    for place in compared.of(sweep, axis, test, numbers(metric, read)):
        values = [] if scores.is_censored(*place.sides) else place.values
        finding = Finding(
            test=number,
            stratum=sweep.shown(place.stratum),
            what=place.what + (", gained by training" if read == "gain" else ""),
            expect=test["expect"],
            metric=metric,
            read=read,
            margin=margin,
            effect=paired(values) if values else None,
            within_margin=False,
            outcome="",
            seeds_more=None,
            control=bool(test.get("control")),
            pruned=sum(entry.state == "pruned" for side in place.sides for entry in side),
        )
        found.append(Draft(finding, values, place.sides))
    return found


def numbers_of(sweep: Sweep) -> Numbers:
    """Reads each metric once."""
    return cache(partial(_scores, sweep))


def _scores(sweep: Sweep, metric: str, read: str) -> dict[str, float]:
    """run id -> its number."""
    if metric.startswith(CLIPPED):
        done = {entry.run for entry in sweep.runs if entry.state == "done"}
        found = tokens.per_run(sweep, sweep.folder.parents[1])
        return {run: values[metric] for run, values in found.items() if run in done}
    gain = partial(_gain, last=sweep.manifest["endpoint"]["last"])
    return scores.run_scores(sweep, metric, gain if read == "gain" else scores.reader(sweep, read), survivors=True)


def _gain(curve: "pd.Series", last: int) -> float:
    """The endpoint less the first evaluation, which precedes all training."""
    values = curve.sort_index().dropna()
    return stats.endpoint(values, last) - float(values.iloc[0]) if len(values) > last else math.nan


def _judge(draft: Draft, p_holm: float, paired: sequential.PairedTest) -> Finding:
    finding = draft.finding
    effect, margin, outcome, within = finding.effect, finding.margin, "undecided", False
    if effect is not None and effect.n >= verdict.MIN_PAIRS:
        narrow = paired(draft.values, 0.90)
        within = -margin < narrow.low and narrow.high < margin
        outcome = outcome_of(finding.expect, effect, narrow, p_holm, margin)
    more = 0 if finding.pruned else verdict.seeds_more(effect, outcome != "undecided", margin)
    return replace(finding, outcome=outcome, within_margin=within, seeds_more=more)


def _sum_up(findings: list[Finding], needs: list[str], given_up: str = "") -> tuple[str, str]:
    """A claim stands on all of its findings: the worst outcome decides, "no difference" of a whole test included.

    `given_up` is said in place of the seeds that an undecided claim needs.
    """
    counted = [finding for finding in findings if not finding.control]
    if not counted:
        return "not testable here", f"needs {'; '.join(needs)}"
    tally = Counter(finding.outcome for finding in counted)
    why = ", ".join(f"{tally[outcome]} {outcome}" for outcome in reversed(OUTCOMES) if tally[outcome])
    why = f"{len(counted)} finding{'s' if len(counted) != 1 else ''}, {why}"
    word = next(outcome for outcome in OUTCOMES if tally[outcome])
    if word == "undecided":
        pruned = sum(finding.pruned > 0 for finding in counted)
        more = [finding.seeds_more for finding in counted if finding.outcome == "undecided" and not finding.pruned]
        why += f" ({pruned} for pruned runs)" if pruned else ""
        if more:
            needed = text.seeds(None if None in more else max(m for m in more if m is not None))
            why += f"; {given_up or f'needs {needed}'}"
    by_test: dict[int, set[str]] = {}
    for finding in counted:
        by_test.setdefault(finding.test, set()).add(finding.outcome)
    if word == "no difference" and {"no difference"} not in by_test.values():
        word = "supported in part"
    return word, why
