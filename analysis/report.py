"""A sweep judged, as JSON, and the sentences and cells that every report shares.

Numbers come from `verdict.py` and `claims.py`. Leaves out: the reports themselves (`terminal.py`, `html.py`,
`markdown.py`, `latex.py`).
"""

import json
import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from analysis import (
    averaged,
    claims,
    fractional,
    fractional_verdict,
    futility,
    sampled_verdict,
    search_arms,
    search_text,
    sequential,
    style,
    tables,
    text,
)
from analysis import verdict as judging
from analysis.load import Entry, Sweep, load, read_manifest
from harness.store import write_atomic

CLAIM_GLYPHS = {"supported": "✓", "supported in part": "✓", "contradicted": "✗", "no difference": "○", "undecided": "?"}
FEW_AXES = 3  # arm axes up to which the terminal shows everything
MOST = 6  # remarks of one kind
NOTHING_YET = "Nothing can be said yet: no arm and its baseline have finished on the same seed."


@dataclass(frozen=True)
class Judged:
    sweep: Sweep
    contrasts: list[judging.Contrast]
    claims: list[claims.Claim]
    interactions: list[judging.Contrast] = field(default_factory=list)  # of a fraction
    search: list[search_arms.Arm] = field(default_factory=list)

    def table(self, axis: str, read: str, metric: str) -> list[judging.Contrast]:
        return [c for c in self.contrasts if (c.axis, c.read, c.metric) == (axis, read, metric)]

    def headline(self) -> list[judging.Contrast]:
        """All arms on the spec's endpoint: what the verdict is."""
        metric = self.sweep.manifest["endpoint"]["metric"]
        return [c for c in self.contrasts if (c.read, c.metric) == ("last", metric)]


def judge(root: Path, name: str, more: Collection[str] = ()) -> Judged:
    """Loads and judges a sweep, with `more` metrics than that takes, and leaves verdict.json in its folder."""
    manifest = read_manifest(root, name)
    wanted = tables.curve_metrics(manifest["figures"]) | judging.metrics(manifest) | claims.metrics(manifest["claims"])
    sweep = load(root, name, wanted | set(more))
    found = judged(sweep)
    write_atomic(sweep.folder / "verdict.json", as_json(found))
    return found


def judged(sweep: Sweep) -> Judged:
    """A sweep that has been loaded, with the metrics that it takes at least; writes nothing."""
    found, tested = judging.judge(sweep), claims.check(sweep)
    return Judged(sweep, found, tested, fractional_verdict.judge(sweep, order=2), search_arms.read(sweep))


# -- what is said --------------------------------------------------------------------------------------------------


def progress(judged: Judged) -> str:
    """Such as "33 of 36 runs done; 2 failed, 1 new"; of a search its trials first."""
    return search_text.progress(judged.search) + judged.sweep.progress()


def remarks(judged: Judged) -> list[str]:
    """What a reader has to know before the numbers."""
    sweep, waits = judged.sweep, search_text.waits(judged.search)
    said = [*fractional_verdict.remarks(sweep), *sampled_verdict.remarks(sweep), *search_text.remarks(judged.search)]
    if controls := [axis for axis in sweep.baseline if axis in sweep.controls]:
        what = "This sweep" if len(controls) == len(sweep.baseline) else f"The axis {' and '.join(controls)}"
        said.append(
            f"{what} is a control: by mathematics its arms train alike. A trick or a trap here is an error of the "
            "instrument, or chance."
        )
    if not sweep.baseline:
        said.append("Nothing to compare: the spec names no baseline.")
    elif not judged.contrasts and not waits:
        said.append("Nothing to compare: no stratum holds the baseline and another arm.")
    elif not any(c.effect or c.pruned for c in judged.contrasts) and not waits:
        said.append(NOTHING_YET)
    coming = sum(entry.state in ("new", "running", "stopped", "stale") for entry in sweep.missing)
    if coming and any(c.effect for c in judged.headline()):
        said.append(
            f"Provisional: {text.plural(coming, 'run')} still to come. Holm's correction grows with the arms that "
            "finish, so that a trick or a trap of today may be none in the end."
        )
    lone = [", ".join(f"{axis} {level}" for axis, level in one.items()) for one in judging.without_baseline(sweep)]
    said += [f"Not compared: {one}." for one in lone[:MOST]]
    said += [f"Not compared for want of a baseline: {len(lone) - MOST} more places."] if len(lone) > MOST else []
    torn = [c for c in judged.headline() if (c.arm_diverged or c.baseline_diverged) and not averaged.of(sweep)]
    for c in torn[:MOST]:
        said.append(
            f"{', '.join([*c.stratum.values(), c.arm])}: {c.arm_diverged} of its runs diverged and "
            f"{c.baseline_diverged} of the baseline's; the difference shown is that of the pairs that survived."
        )
    said += [f"Runs diverged in {len(torn) - MOST} more comparisons."] if len(torn) > MOST else []
    return said + _pruned(sweep)


def _pruned(sweep: Sweep) -> list[str]:
    """That runs were stopped early, by which rule, and what that does to the numbers."""
    if not sweep.pruned:
        return []
    knobs = sweep.manifest.get("prune")
    rule = f"the rule {knobs['rule']}, after {knobs['after']} steps" if knobs else "the rule of another sweep"
    one = len(sweep.pruned) == 1
    return [
        f"Pruned: {len(sweep.pruned)} of {len(sweep.runs)} runs {'was' if one else 'were'} stopped early, by {rule}, "
        f"since {'it' if one else 'they'} fell behind. What is left of such an arm was chosen by how well it did, so "
        "that it is not judged: its word is pruned, and no number, curve or average has those runs. "
        f"`retry {sweep.name} RUN` trains one on."
    ]


def at_equal_tokens(judged: Judged) -> list[str]:
    """Where the word would be another if arms were compared at equal generated tokens instead of equal steps."""
    tokens = {_where(c): c for c in judged.contrasts if c.read == "tokens" and c.effect}
    pairs = [(c, tokens[_where(c)]) for c in judged.headline() if c.effect and _where(c) in tokens]
    return [
        f"{c.axis} {c.arm}{f' ({heading(c)})' if heading(c) else ''}: {c.word}, at equal tokens {other.word}"
        for c, other in pairs
        if c.word != other.word
    ]


def _where(c: judging.Contrast) -> tuple[str, ...]:
    return (c.axis, c.arm, *(f"{axis} {level}" for axis, level in sorted(c.stratum.items())))


def method(sweep: Sweep) -> list[str]:
    searched = search_text.method(sweep)
    if not sweep.baseline:
        return searched
    if averaged.of(sweep):
        return fractional_verdict.method(sweep) if fractional.design(sweep) else sampled_verdict.method(sweep)
    end, stop = sweep.manifest["endpoint"], sweep.manifest.get("stop")
    return [
        *searched,
        f"Differences are paired by seed ({len(sweep.manifest['seeds'])} planned): arms of one seed share prompts, "
        f"their order and sampling noise. {sequential.said(stop) if stop else 'Intervals: 95 % t over seeds.'}",
        "trick, trap: p < .05 after Holm's correction over all rows of an axis on one metric. neutral: 90 % interval "
        f"within ± {end['margin']:g} (entropy ± {judging.ENTROPY_MARGIN:g} nats). Under three pairs: no verdict.",
        "Seeds more: for 80 % power to find, under the same correction, the difference seen, or one of the margin's "
        "size if it is smaller.",
        f"Endpoint: mean of the last {end['last']} evaluations, never the best; whole curve: its mean height.",
    ]


def _word(c: judging.Contrast) -> str:
    """The verdict with its glyph, and the seeds that would settle it, or the chance by which it was given up."""
    word = f"{style.WORDS[c.word][2]} {c.word}"
    if c.pruned:
        return f"{word}, {text.plural(c.pruned, 'run')}"
    if c.given_up:
        return f"{word}, given up ({futility.percent(c.chance)})"
    if c.word in ("inconclusive", "description only"):
        more = "99+" if c.seeds_more is None or c.seeds_more > 99 else c.seeds_more
        return f"{word}, +{more} seed{'s' if more != 1 else ''}"
    return f"{word}, within margin" if c.within_margin and c.word != "neutral" else word


def heading(c: judging.Contrast) -> str:
    """Where: "small base, easy", empty where the sweep has one stratum."""
    return style.place(c.stratum)


def cells(c: judging.Contrast) -> list[str]:
    factor, digits, _ = text.scale(c.metric)
    means = (text.number(factor * mean, digits) for mean in (c.baseline_mean, c.arm_mean))
    pairs = str(c.effect.n if c.effect else 0)
    return [named(c), " → ".join(means), text.interval(c.effect, factor, digits), pairs, p_value(c.p_holm), _word(c)]


def named(c: judging.Contrast) -> str:
    """The arm, and what it is confounded with."""
    return f"{c.arm} {c.confounded}".rstrip()


def p_value(p: float) -> str:
    return "-" if math.isnan(p) else f"{p:.3f}" if p >= 0.001 else "<.001"


def after_word(c: judging.Contrast) -> str:
    """What stands beside the verdict's word: seeds that would settle it, or that it is within the margin."""
    return _word(c).removeprefix(f"{style.WORDS[c.word][2]} {c.word}").removeprefix(", ")


def change(relative: float) -> str:
    """0.123 -> +12 %."""
    return "-" if math.isnan(relative) else f"{text.number(100 * relative, 0, sign=True).strip()} %"


HEADER = ["arm", "baseline → arm", "difference [95 %]", "n", "p Holm", "verdict"]


def readings(judged: Judged) -> list[tuple[str, str, str]]:
    """(read, metric, how it is read) of every table that an axis has: the headline first."""
    end = judged.sweep.manifest["endpoint"]
    wanted = [("last", end["metric"], f"mean of the last {end['last']} evaluations")]
    wanted += [("tokens", end["metric"], "at equal generated tokens")]
    wanted += [("area", metric, "whole curve") for metric in dict.fromkeys((end["metric"], judging.ENTROPY))]
    there = {(c.read, c.metric) for c in judged.contrasts}
    return [(read, metric, how) for read, metric, how in wanted if (read, metric) in there]


def title_of(sweep: Sweep, metric: str, axis: str, how: str) -> str:
    return f"{metric} in {text.scale(metric)[2]}, {how}: {axis} against {sweep.baseline[axis]}"


def tested(f: claims.Finding) -> str:
    expect = "control, expected no difference" if f.control else f"expected {f.expect.replace('_', ' ')}"
    return f"{f.metric}, {f.what}, {expect}"


def where(f: claims.Finding) -> str:
    return style.place(f.stratum)


def found(f: claims.Finding) -> str:
    factor, digits, unit = text.scale(f.metric)
    few = f.effect is None or f.effect.n < judging.MIN_PAIRS
    nothing = f"{text.plural(f.pruned, 'run')} pruned" if f.pruned else "no pair of runs"
    measured = f"{text.interval(f.effect, factor, digits)} {unit}" if f.effect else nothing
    small = " (within margin)" if f.within_margin and f.outcome == "supported" and "no" not in f.expect else ""
    return f"{measured}{f' (n = {f.effect.n})' if few and f.effect else ''}, {f.outcome}{small}"


def columns(sweep: Sweep) -> list[str]:
    """What tells runs apart in a table: every axis; of many arm axes one column for the arms off their baseline."""
    if len(sweep.baseline) <= FEW_AXES:
        return list(sweep.axes)
    return [*(axis for axis in sweep.varying() if axis not in sweep.baseline), "arm"]


def labels(sweep: Sweep, entry: Entry) -> list[str]:
    """The cells of `columns`."""
    if len(sweep.baseline) <= FEW_AXES:
        return [entry.labels[axis] for axis in sweep.axes]
    arms = [f"{axis} {level}" for axis, level in sweep.shown(entry.labels).items() if axis in sweep.baseline]
    return [*(entry.labels[axis] for axis in columns(sweep)[:-1]), ", ".join(arms) or "baseline"]


def missing_rows(sweep: Sweep) -> list[list[str]]:
    return [[e.run, e.said, *labels(sweep, e), str(e.seed)] for e in sweep.missing]


# -- files ---------------------------------------------------------------------------------------------------------


def as_json(judged: Judged) -> str:
    """What verdict.json holds: strict JSON, keys in alphabetical order."""
    sweep = judged.sweep
    value = {
        "sweep": sweep.name,
        "question": sweep.manifest["question"],
        "scale": sweep.manifest["scale"],
        "endpoint": sweep.manifest["endpoint"],
        "entropy_margin": judging.ENTROPY_MARGIN,
        "alpha": judging.ALPHA,
        "control": sweep.manifest["control"],
        "seeds": sweep.manifest["seeds"],
        "stop": sweep.manifest.get("stop"),
        "runs": {"planned": len(sweep.runs), "missing": len(sweep.missing)},
        "design": sweep.manifest.get("design", {}),
        "contrasts": [asdict(c) for c in judged.contrasts],
        "interactions": [asdict(c) for c in judged.interactions],
        "search": [asdict(arm) for arm in judged.search],
        "claims": [asdict(c) for c in judged.claims],
        "missing": [asdict(entry) for entry in sweep.missing],
    }
    return json.dumps(_without_nan(value), sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _without_nan(value: Any) -> Any:
    """NaN and infinities as null: JSON has neither."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
