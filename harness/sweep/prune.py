"""`prune: {rule: median, after: 10}`: runs that fall behind stop early. Off unless a spec asks for it.

    median      a run's best value so far is behind the median of the finished ones at the same step
    halving     at steps after, after·factor, after·factor² …: a run is not among the best 1/factor that came so far
    wilcoxon    a cell is behind the best one, by a signed-rank test of values paired by seed and step

Values are the endpoint's metric at evaluations from step `after` on. Median and halving compare runs of one seed and
stratum (whatever is no arm's axis), wilcoxon the cells of a stratum. The baseline's runs are what all is compared with
and are never pruned, nor are those of controls. What is pruned is censored: it counts in no statistic, and an arm of
which a run was pruned gets no verdict. Leaves out: asking (`prune_rules.py`), looking at runs (`pruning.py`).
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.sweep.axes import Reader
from harness.tricks import nearest

if TYPE_CHECKING:
    from harness.sweep.grid import Expansion
    from harness.sweep.spec import Spec

TAKES = "{rule: median | halving | wilcoxon, after: 10}"
KNOBS: dict[str, tuple[str, ...]] = {  # rule -> what it takes beside `after`
    "median": ("least",),
    "halving": ("least", "factor"),
    "wilcoxon": ("p",),
}
WHOLE = {"after": ("steps", 1), "least": ("runs", 1), "factor": ("parts", 2)}  # knob -> its unit and least value


@dataclass(frozen=True)
class Prune:
    rule: str
    after: int  # steps before which nothing is pruned or compared
    least: int = 3  # other runs that a run is compared with, or it goes on
    factor: int = 2  # of runs at a rung one in so many goes on
    p: float = 0.05  # of steps that depend on each other: how strict the rule is, and no probability of an error


def read(reader: Reader, value: Any, *place: str) -> Prune | None:
    """None for no value; notes faults in the reader."""
    if value is None:
        return None
    if not isinstance(value, dict):
        reader.add(f"prune takes {TAKES}, not {value!r}", *place)
        return None
    rule = value.get("rule")
    if rule not in KNOBS:
        near = nearest(rule, KNOBS) if isinstance(rule, str) else ""
        reader.add(f"prune.rule takes {', '.join(KNOBS)}, not {rule!r}{near}", *place, "rule", value="rule" in value)
        return None
    words = ("rule", "after", *KNOBS[rule])
    for key in value:
        if key not in words:
            there = f"{nearest(str(key), words)} ({rule} takes: {', '.join(words)})"
            reader.add(f"prune: unknown key '{key}'{there}", *place, key)
            return None
    if "after" not in value:
        reader.add("prune.after is missing: the steps before which nothing is pruned, such as after: 10", *place)
        return None
    for key in value.keys() & WHOLE.keys():
        unit, least = WHOLE[key]
        if not isinstance(value[key], int) or isinstance(value[key], bool) or value[key] < least:
            what = f"a whole number of {unit}, {least} or more, not {value[key]!r}"
            reader.add(f"prune.{key} takes {what}", *place, key, value=True)
            return None
    p = value.get("p", 0.05)
    if not isinstance(p, int | float) or isinstance(p, bool) or not 0 < p < 1:
        reader.add(f"prune.p takes a number between 0 and 1, not {p!r}", *place, "p", value=True)
        return None
    return Prune(**value)


def check(spec: "Spec", reader: Reader) -> None:
    """Notes what else of the spec does not go with `prune`."""
    if spec.prune is None:
        return
    if spec.design.kind == "fractional":
        why = "an effect of a fraction takes all runs of a seed"
        reader.add(f"prune stops single runs, and {why}: take design full or oat", "prune")
    if spec.baseline and not set(spec.baseline) - set(spec.control):
        reader.add("prune has nothing to prune: every arm is a control, whose runs are all kept", "prune")


def described(spec: "Spec") -> dict[str, Any]:
    """For the manifest, where there is a `prune`: {} or {"prune": {rule, after, its knobs}}."""
    if spec.prune is None:
        return {}
    words = ("rule", "after", *KNOBS[spec.prune.rule])
    return {"prune": {word: getattr(spec.prune, word) for word in words}}


def said(expansion: "Expansion") -> list[str]:
    """What the plan says of it, and why nothing would ever be pruned where that is so."""
    spec = expansion.spec
    if spec.prune is None:
        return []
    lines = [f"prune: {spec.prune.rule} after {spec.prune.after} steps; pruned runs count in no statistic"]
    cells = expansion.cells or expansion.probes
    longest = max(cell.identity.train.steps for cell in cells)
    others = max(Counter(stratum(cell.labels, spec.baseline) for cell in cells).values()) - 1
    if spec.prune.after >= longest:
        lines.append(f"nothing will be pruned: no run has more than {longest} steps; give a smaller prune.after")
    elif "least" in KNOBS[spec.prune.rule] and spec.design.kind != "search" and others < spec.prune.least:
        few = f"a run is compared with {others} others at most, and prune.least is {spec.prune.least}"
        lines.append(f"nothing will be pruned: {few}; give fewer, or another rule")
    return lines


def stratum(labels: Mapping[str, str], baseline: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Where a cell stands: its levels of all axes that hold no arms."""
    return tuple(sorted((axis, level) for axis, level in labels.items() if axis not in baseline))


def is_kept(labels: Mapping[str, str], baseline: Mapping[str, str], control: Collection[str]) -> bool:
    """Whether a cell is never pruned: the baseline itself, or an arm of controls alone."""
    arms = [axis for axis in baseline if axis not in control]
    return bool(baseline) and all(labels.get(axis, baseline[axis]) == baseline[axis] for axis in arms)
