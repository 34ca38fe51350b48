"""Which combinations of levels a sweep takes, of all that its axes have.

    full                                     every combination
    oat                                      the baseline, and each other level of one axis with the rest as there
    {kind: oat, from: [baseline, full]}      the same, and from the stack of last levels: each axis back to its baseline
    {kind: oat, …, stack: {limit: short}}    levels of the stack, where they are not the last
    {kind: fractional, resolution: IV}       a fraction of all combinations of two levels, chosen so that effects can
                                             still be told apart (`fraction_spec.py`)
    {kind: sample, size: 12, seed: 0}        some of all combinations, at random and evenly (`sample.py`)
    {kind: search, trials: 16}               settings chosen by the results of others (`search_spec.py`)
    {kind: …, within: [model, data]}         each but full: within every combination of these axes, who tricks are for

Leaves out: conditions, exclusions and included cells (`expand.py`); which design answers which question
(docs/designs.md).
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from harness.sweep import fraction as maths
from harness.sweep import fraction_spec, sample, search_spec
from harness.sweep.axes import Axis, Level, Reader
from harness.tricks import nearest

if TYPE_CHECKING:
    from harness.sweep.spec import Spec

TAKES = (
    "full, oat, {kind: oat, from: [baseline, full]}, {kind: fractional, resolution: IV}, {kind: sample, size: 12} or "
    "{kind: search, trials: 16}"
)
WORDS = {
    "full": (),
    "oat": ("from", "stack", "within"),
    "fractional": ("generators", "runs", "resolution", "levels", "within"),
    "sample": ("size", "seed", "within"),
    "search": search_spec.WORDS,
}


@dataclass(frozen=True)
class Design:
    kind: Literal["full", "oat", "fractional", "sample", "search"] = "full"
    starts: tuple[str, ...] = ("baseline",)
    stack: dict[str, str] = field(default_factory=dict)  # axis -> its level in the full stack, where not the last
    within: tuple[str, ...] = ()
    asked: fraction_spec.Asked = field(default_factory=fraction_spec.Asked)
    fraction: maths.Fraction | None = None  # made of `asked` when the axes are known for good
    size: int = 0
    seed: int = 0
    search: search_spec.Search | None = None


def read(reader: Reader, value: object, axes: tuple[Axis, ...], *place: str) -> Design:
    """Notes faults in the reader; then the design is full."""
    given: dict[str, Any] = value if isinstance(value, dict) else {"kind": value}
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in WORDS:
        reader.add(f"design takes {TAKES}, not {value!r}{nearest(str(kind), WORDS)}", *place)
        return Design()
    for word in set(given) - {"kind", *WORDS[kind]}:
        kinds = [name for name, words in WORDS.items() if word in words]
        cure = f", only beside kind: {' or '.join(kinds)}" if kinds else nearest(word, WORDS[kind])
        takes = f"takes {', '.join(WORDS[kind])}" if WORDS[kind] else "takes nothing else"
        reader.add(f"design of kind {kind} {takes}, not `{word}`{cure}", *place)
        return Design()
    within = given.get("within", [])
    names = [axis.name for axis in axes]
    for name in within if isinstance(within, list) else [within]:
        if name not in names:
            reader.add(f"design's `within` names no axis '{name}'{nearest(str(name), names)}", *place)
            return Design()
    if not isinstance(within, list):
        reader.add("design's `within` takes a list of axes", *place)
        return Design()
    if kind == "oat":
        return _oat(reader, given, axes, tuple(within), *place)
    if kind == "fractional":
        asked = fraction_spec.read(reader, given, *place)
        return Design("fractional", within=tuple(within), asked=asked) if asked else Design()
    if kind == "sample":
        return _sample(reader, given, tuple(within), *place)
    if kind == "search":
        found = search_spec.read(reader, given, *place)
        return Design("search", within=tuple(within), search=found) if found else Design()
    return Design()


def settle(spec: "Spec", reader: Reader) -> "Spec":
    """What only the axes as the command line leaves them tell: the factors of a fraction, whether a sample fits."""
    if spec.design.search:
        return search_spec.settle(spec, spec.design.search, reader)
    for axis in spec.axes:
        if axis.span:
            cure = "search it with design: {kind: search, trials: 16}, or give it `values`"
            reader.add(
                f"axis '{axis.name}' is a range, and design: {spec.design.kind} takes levels; {cure}", "axes", axis.name
            )
    if spec.design.kind == "fractional":
        return fraction_spec.settle(spec, spec.design.asked, reader)
    if spec.design.kind == "sample":
        whole = math.prod(len(axis.levels) for axis in spec.axes if axis.name not in spec.design.within)
        if spec.design.size > whole:
            size = f"design.size is {spec.design.size}, and there are {whole} combinations"
            reader.add(f"{size}; take {whole} or fewer, or design: full", "design")
    return spec


def assignments(design: Design, axes: tuple[Axis, ...], baseline: Mapping[str, str]) -> Iterator[tuple[Level, ...]]:
    """One level per axis for every cell of the design; those of `within` slowest, the first axis slowest.

    Of a search, which has no cells before it has results: each level and each end of a range once, to be checked.
    """
    if design.kind == "full" or not axes:
        yield from itertools.product(*(axis.levels for axis in axes)) if axes else ()
        return
    around = [axis.levels if axis.name in design.within else (None,) for axis in axes]
    one_at_a_time = design.kind in ("oat", "search")
    chosen = [] if one_at_a_time else _chosen(design, axes, baseline)
    for held in itertools.product(*around):
        if one_at_a_time:
            yield from _one_at_a_time(design, axes, baseline, held)
        for point in chosen:
            yield tuple(level or point[axis.name] for axis, level in zip(axes, held, strict=True))


def described(spec: "Spec") -> dict[str, Any]:
    """For the manifest."""
    design = spec.design
    common = {"kind": design.kind, "within": list(design.within)}
    if design.fraction:
        return common | fraction_spec.described(spec, design.fraction)
    return common | ({"size": design.size, "seed": design.seed} if design.kind == "sample" else {})


def said(spec: "Spec", num_runs: int) -> list[str]:
    """What the plan says of a design that leaves out combinations on purpose."""
    design = spec.design
    if design.fraction:
        return fraction_spec.said(spec, design.fraction, num_runs)
    if design.kind != "sample":
        return []
    free = [axis for axis in spec.axes if axis.name not in design.within and len(axis.levels) > 1]
    points = _chosen(design, spec.axes, spec.baseline)
    counts = [Counter(point[axis.name].label for point in points)[lv.label] for axis in free for lv in axis.levels]
    around = f" within every {' x '.join(design.within)}" if design.within else ""
    return [
        f"sample: {design.size} of {math.prod(len(axis.levels) for axis in free)} combinations{around}, seed "
        f"{design.seed}; a level occurs {min(counts)} to {max(counts)} times; a larger size holds these"
    ]


def _oat(reader: Reader, given: dict[str, Any], axes: tuple[Axis, ...], within: tuple[str, ...], *place: str) -> Design:
    starts, stack = given.get("from", ["baseline"]), given.get("stack", {})
    if not isinstance(starts, list) or not starts or set(map(str, starts)) - {"baseline", "full"}:
        reader.add(f"design's `from` takes [baseline], [full] or [baseline, full], not {starts!r}", *place)
        return Design()
    if not isinstance(stack, dict) or (stack and "full" not in starts):
        reader.add("design's `stack` takes a mapping of axis to level, beside `from` with full in it", *place)
        return Design()
    by_name = {axis.name: axis for axis in axes}
    labels: dict[str, str] = {}
    for name, value in stack.items():
        if name not in by_name or name in within:
            free = [axis for axis in by_name if axis not in within]
            reader.add(f"design's `stack`: no axis '{name}'{nearest(name, free)} (axes: {', '.join(free)})", *place)
        elif level := by_name[name].level(value):
            labels[name] = level.label
        else:
            reader.add(f"design's `stack`: {by_name[name].no_level(value)}", *place)
    return Design("oat", tuple(starts), labels, within)


def _sample(reader: Reader, given: dict[str, Any], within: tuple[str, ...], *place: str) -> Design:
    size, seed = given.get("size"), given.get("seed", 0)
    for word, value, least in (("size", size, 1), ("seed", seed, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            reader.add(f"design.{word} takes a whole number, {least} or more, not {value!r}", *place)
            return Design()
    return Design("sample", within=within, size=given["size"], seed=seed)


def _chosen(design: Design, axes: tuple[Axis, ...], baseline: Mapping[str, str]) -> list[dict[str, Level]]:
    """The points of a fraction or a sample over the axes that are not in `within`."""
    free = [axis for axis in axes if axis.name not in design.within]
    if design.fraction:
        alone = {axis.name: axis.levels[0] for axis in free if axis.name not in design.fraction.factors}
        ends = {a.name: fraction_spec.ends(a, baseline) for a in free if a.name not in alone}
        return [alone | {name: ends[name][sign > 0] for name, sign in at.items()} for at in maths.rows(design.fraction)]
    labels = [[level.label for level in axis.levels] for axis in free]
    points = sample.points(labels, design.size, design.seed)
    return [{axis.name: axis.levels[place] for axis, place in zip(free, point, strict=True)} for point in points]


def _one_at_a_time(
    design: Design, axes: tuple[Axis, ...], baseline: Mapping[str, str], held: tuple[Level | None, ...]
) -> Iterator[tuple[Level, ...]]:
    """`held`: the level of each axis of `within`, None for the others."""
    start = tuple(level or _named(axis, baseline, 0) for axis, level in zip(axes, held, strict=True))
    stack = tuple(level or _named(axis, design.stack, -1) for axis, level in zip(axes, held, strict=True))
    free = [index for index, level in enumerate(held) if level is None]
    if "baseline" in design.starts:
        yield start
        for index in free:
            for level in axes[index].levels:
                if level is not start[index]:
                    yield (*start[:index], level, *start[index + 1 :])
    if "full" in design.starts:
        yield stack
        for index in free:
            if stack[index] is not start[index]:
                yield (*stack[:index], start[index], *stack[index + 1 :])


def _named(axis: Axis, labels: Mapping[str, str], otherwise: int) -> Level:
    """The axis's level of that label, else the first or the last."""
    return next((level for level in axis.levels if level.label == labels.get(axis.name)), axis.levels[otherwise])
