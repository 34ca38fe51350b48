"""A grid spec: one question, what varies, and what each level sets. Grid YAML -> Spec.

    question, source     what the sweep asks, and where the question comes from
    base, set            where every cell starts; what is set after the axes (`set` items may carry a `when`)
    axes                 name -> values of one key, or named levels that set several keys; each may carry a `when`
    exclude, include     cells to leave out (a partial match or an expression); whole cells to add
    design, seeds        which combinations (`design.py`); replicates, the same seeds in every cell
    stop                 whether seeds are added until all is decided (`stop.py`)
    prune                whether runs that fall behind stop early (`prune.py`)
    baseline, endpoint   what arms are compared with, and on which metric
    claims, figures      what the verdict and the figures are about

Every fault is found in one pass and shown with its line and a caret. Leaves out: the cells (`expand.py`).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.sweep import axes as reading
from harness.sweep import design as designs
from harness.sweep import keys, selection, yaml12
from harness.sweep import prune as prunes
from harness.sweep import stop as stops
from harness.sweep.axes import Axis, Choice, Reader, Setting
from harness.sweep.design import Design
from harness.sweep.prune import Prune
from harness.sweep.selection import Exclusion, Inclusion, Rule
from harness.sweep.stop import Stop
from harness.tricks import nearest

# Figures of a whole sweep; every other is drawn by an axis. `analysis.figures` draws both.
WHOLE_FIGURES = ("effects", "claims", "summary", "main_effects", "interactions", "effect_vs_compute", "search")

WORDS = {
    "question": "one sentence that the sweep answers (required)",
    "source": "where the question comes from, for readers",
    "base": "group choices and dotted keys that every cell starts from",
    "set": "dotted keys set after the axes: a mapping, or a list of mappings that may carry `when`",
    "axes": "what varies: axis -> list of values, {key, values, when}, or named levels",
    "exclude": "cells to leave out: partial matches or expressions",
    "include": "whole cells to add",
    "design": f"which combinations: {designs.TAKES}",
    "seeds": "replicates, the same in every cell: a number, or {n: 3, start: 100}",
    "stop": f"add seeds in rounds, only where nothing is decided yet: {stops.TAKES}",
    "prune": f"stop runs that fall behind, by one of Optuna's rules: {prunes.TAKES}",
    "baseline": "axis -> level that arms are compared with",
    "claims": "ids of claims that the verdict is about",
    "figures": "names of figures to draw",
    "endpoint": "{metric, last, goal, margin} of the verdict, and sd of a paired difference for the plan",
    "control": "axes whose arms must not differ, an A/A control; true for all",
    "resources": "{minutes, gpus, cpus, mem_gb} of one run",
}
RESOURCES = {
    "minutes": "runtime.minutes_per_run",
    "gpus": "runtime.gpus",
    "cpus": "runtime.cpus",
    "mem_gb": "runtime.mem_gb",
}


@dataclass(frozen=True)
class Endpoint:
    """What a verdict compares: the mean of the last `last` values of `metric`; `margin` is practical equality.

    `sd` is what the plan takes for the standard deviation of a paired difference before runs have shown it.
    """

    metric: str = "eval/accuracy"
    last: int = 2
    goal: Literal["max", "min"] = "max"
    margin: float = 0.01
    sd: float | None = None


@dataclass(frozen=True)
class Spec:
    """A whole spec, checked as far as it can be without building a cell."""

    document: yaml12.Document
    question: str
    source: str
    choices: dict[str, str]  # group -> choice, for every group
    base: tuple[Setting, ...]
    rules: tuple[Rule, ...]
    axes: tuple[Axis, ...]
    exclude: tuple[Exclusion, ...]
    include: tuple[Inclusion, ...]
    design: Design
    seeds: tuple[int, ...]
    baseline: dict[str, str]
    claims: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    endpoint: Endpoint = field(default_factory=Endpoint)
    control: tuple[str, ...] = ()  # axes whose arms train alike by mathematics
    overrides: tuple[str, ...] = ()  # as typed
    last: tuple[Setting, ...] = ()  # the command line's keys, set after everything
    stop: Stop | None = None  # `seeds` is then the first round
    prune: Prune | None = None

    @property
    def path(self) -> str:
        return self.document.name

    @property
    def scale(self) -> str:
        return self.choices["scale"]


def read(path: Path, overrides: tuple[str, ...] = ()) -> Spec:
    """Raises SpecError with every fault of the file and of the `key=value` overrides."""
    return build(yaml12.load(path), overrides)


def build(document: yaml12.Document, overrides: tuple[str, ...] = ()) -> Spec:
    """Raises SpecError with every fault found."""
    from harness.sweep import overrides as command_line

    reader = Reader(document)
    if not isinstance(document.value, dict):
        reader.add("a spec is a mapping with `question`, `axes` and `seeds`; see grid_specs/ for examples")
        raise yaml12.SpecError(document, reader.problems)
    for key in document.value:
        if key not in WORDS:
            reader.add(f"unknown key '{key}'{nearest(key, WORDS)} (keys: {', '.join(WORDS)})", key)
    words = command_line.split(overrides, reader)
    base_choices, base = _base(reader)
    choices = keys.default_choices() | {c.group: c.choice for c in base_choices}
    if "scale" in words:
        choices["scale"] = str(words["scale"])
    axes = reading.read_axes(reader)
    scales = reading.scales_meant(choices["scale"], axes)
    reading.check_choices(reader, base_choices, axes, scales)
    design = designs.read(reader, reader.get("design", "full"), axes, "design")
    spec = Spec(
        document=document,
        question=_text(reader, "question", required=True),
        source=_text(reader, "source"),
        choices=choices,
        base=base + _resources(reader),
        rules=selection.read_rules(reader, axes),
        axes=axes,
        exclude=selection.read_exclude(reader, axes),
        include=selection.read_include(reader, axes, scales),
        design=design,
        seeds=read_seeds(reader, reader.get("seeds", 1), "seeds"),
        baseline=_baseline(reader, axes),
        claims=_claims(reader),
        figures=_figures(reader, axes),
        endpoint=_endpoint(reader),
        control=_control(reader, axes),
        overrides=overrides,
        stop=stops.read(reader, reader.get("stop", None), "stop"),
        prune=prunes.read(reader, reader.get("prune", None), "prune"),
    )
    spec = command_line.apply(spec, words, reader, scales)
    if not reader.problems:
        spec = designs.settle(spec, reader)
        stops.check(spec, reader)
        prunes.check(spec, reader)
    if reader.problems:
        raise yaml12.SpecError(document, reader.problems)
    return spec


def read_seeds(reader: Reader, value: Any, *place: str) -> tuple[int, ...]:
    """`3` -> (0, 1, 2); `{n: 3, start: 100}` -> (100, 101, 102)."""
    given: dict[str, Any] = {"n": value} if not isinstance(value, dict) else value
    n: Any = given.get("n")
    start: Any = given.get("start", 0)
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in (n, start))
    if set(given) - {"n", "start"} or not whole or n < 1 or start < 0:
        reader.add(
            f"seeds takes a number of replicates, 1 or more (seeds: 3), or {{n: 3, start: 100}}, not {value!r}", *place
        )
        return (0,)
    return tuple(range(start, start + n))


def _base(reader: Reader) -> tuple[list[Choice], tuple[Setting, ...]]:
    given = reader.get("base", {})
    if not isinstance(given, dict):
        reader.add("base takes a mapping of group choices and dotted keys", "base")
        return [], ()
    choices = [
        Choice(key, value, reader.document.value_mark("base", key))
        for key, value in given.items()
        if key in keys.groups()
    ]
    rest = {key: value for key, value in given.items() if key not in keys.groups()}
    return choices, reading.read_settings(reader, rest, "base")


def _resources(reader: Reader) -> tuple[Setting, ...]:
    """What one run needs, in words that are shorter than the keys they set."""
    given = reader.get("resources", {})
    if not isinstance(given, dict) or set(given) - set(RESOURCES):
        reader.add("resources takes {minutes: 25, gpus: 1, cpus: 8, mem_gb: 64} of one run", "resources")
        return ()
    for key, value in given.items():
        if problem := keys.check_value(RESOURCES[key], value):
            reader.add(f"resources.{key}: {problem}", "resources", key, value=True)
    return tuple(Setting(RESOURCES[k], v, reader.document.mark("resources", k)) for k, v in given.items())


def _baseline(reader: Reader, axes: tuple[Axis, ...]) -> dict[str, str]:
    given = reader.get("baseline", {})
    if not isinstance(given, dict):
        reader.add("baseline takes a mapping of axis to level, such as {eps_high: 0.20}", "baseline")
        return {}
    by_name = {axis.name: axis for axis in axes}
    out: dict[str, str] = {}
    for name, value in given.items():
        if name not in by_name:
            reader.add(
                f"baseline: no axis '{name}'{nearest(name, by_name)} (axes: {', '.join(by_name)})", "baseline", name
            )
        elif level := by_name[name].level(value):
            out[name] = level.label
        else:
            reader.add(f"baseline: {by_name[name].no_level(value)}", "baseline", name, value=True)
    return out


def _endpoint(reader: Reader) -> Endpoint:
    given = reader.get("endpoint", {})
    if not isinstance(given, dict):
        reader.add("endpoint takes {metric: eval/accuracy, last: 2, goal: max, margin: 0.01}", "endpoint")
        return Endpoint()
    default: dict[str, Any] = {"metric": "eval/accuracy", "last": 2, "goal": "max", "margin": 0.01, "sd": None}
    values = default | given
    fits = {
        "metric": isinstance(values["metric"], str) and bool(values["metric"]),
        "last": isinstance(values["last"], int) and not isinstance(values["last"], bool) and values["last"] > 0,
        "goal": values["goal"] in ("max", "min"),
        "margin": _is_number(values["margin"]) and values["margin"] >= 0,
        "sd": values["sd"] is None or (_is_number(values["sd"]) and values["sd"] > 0),
    }
    takes = {
        "metric": "a metric's name",
        "last": "a whole number of evaluations, 1 or more",
        "goal": "max or min",
        "margin": "a number, 0 or more",
        "sd": "a number above 0, in the metric's unit",
    }
    for key, value in given.items():
        if key not in fits:
            reader.add(f"endpoint: unknown key '{key}'{nearest(key, fits)}", "endpoint", key)
        elif not fits[key]:
            reader.add(f"endpoint.{key} takes {takes[key]}, not {value!r}", "endpoint", key, value=True)
    if set(values) - set(fits) or not all(fits.values()):
        return Endpoint()
    sd = None if values["sd"] is None else float(values["sd"])
    return Endpoint(values["metric"], values["last"], values["goal"], float(values["margin"]), sd)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(reader: Reader, key: str, required: bool = False) -> str:
    value = reader.get(key, "")
    if not isinstance(value, str) or (required and not value.strip()):
        reader.add(f"{key} is missing: {WORDS[key]}" if value == "" else f"{key} takes a sentence, not {value!r}", key)
        return ""
    return " ".join(value.split())


def _names(reader: Reader, key: str) -> tuple[str, ...]:
    value = reader.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        reader.add(f"{key} takes a list of names, such as [T4, T6], not {value!r}", key)
        return ()
    return tuple(value)


def _claims(reader: Reader) -> tuple[str, ...]:
    named = _names(reader, "claims")
    for index, name in enumerate(named):
        if name not in keys.claims():
            there = f"there are: {', '.join(keys.claims())}; a new one is an entry of grid_specs/claims.yaml"
            reader.add(f"no claim '{name}'{nearest(name, keys.claims())} ({there})", "claims", index)
    return named


def _figures(reader: Reader, axes: tuple[Axis, ...]) -> tuple[str, ...]:
    named, names = _names(reader, "figures"), [axis.name for axis in axes]
    for index, name in enumerate(named):
        metric, by, axis = name.partition("_by_")
        if name not in WHOLE_FIGURES and (not (metric and by) or (axis not in names and names)):
            there = ", ".join(f"{metric or 'accuracy'}_by_{known}" for known in names)
            whole = f"or are one of {', '.join(WHOLE_FIGURES)}"
            reader.add(f"figures are named <metric>_by_<axis> ({there}) {whole}; not '{name}'", "figures", index)
    return named


def _control(reader: Reader, axes: tuple[Axis, ...]) -> tuple[str, ...]:
    value, names = reader.get("control", False), [axis.name for axis in axes]
    if isinstance(value, bool):
        return tuple(names) if value else ()
    if not isinstance(value, list):
        reader.add(f"control takes true, false or a list of axes, not {value!r}", "control")
        return ()
    for name in value:
        if name not in names:
            reader.add(f"control: no axis '{name}'{nearest(str(name), names)} (axes: {', '.join(names)})", "control")
    return tuple(map(str, value))
