"""Which combinations of levels a sweep takes: the full product, or one factor at a time.

    full                                    every combination
    oat                                     the baseline, and each other level of one axis with the rest at the baseline
    {kind: oat, from: [baseline, full]}     the same, and from the stack of last levels: each axis back to its baseline
    {kind: oat, within: [model, data]}      the same within every combination of these axes: who the tricks are for

Leaves out: conditions, exclusions and included cells (`expand.py`).
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from harness.sweep.axes import Axis, Level, Reader
from harness.tricks import nearest

TAKES = "full, oat, or {kind: oat, from: [baseline, full], within: [model, data]}"


@dataclass(frozen=True)
class Design:
    kind: Literal["full", "oat"] = "full"
    starts: tuple[str, ...] = ("baseline",)
    within: tuple[str, ...] = ()


def read(reader: Reader, value: object, axes: tuple[Axis, ...], *place: str) -> Design:
    """Notes faults in the reader; then the design is full."""
    given = value if isinstance(value, dict) else {"kind": value}
    kind, starts, within = given.get("kind"), given.get("from", ["baseline"]), given.get("within", [])
    if kind not in ("full", "oat") or set(given) - {"kind", "from", "within"}:
        reader.add(f"design takes {TAKES}, not {value!r}", *place)
        return Design()
    if not isinstance(starts, list) or not starts or set(map(str, starts)) - {"baseline", "full"}:
        reader.add(f"design's `from` takes [baseline], [full] or [baseline, full], not {starts!r}", *place)
        return Design()
    names = [axis.name for axis in axes]
    for name in within if isinstance(within, list) else [within]:
        if name not in names:
            reader.add(f"design's `within` names no axis '{name}'{nearest(str(name), names)}", *place)
            return Design()
    if not isinstance(within, list) or (within and kind == "full"):
        reader.add("design's `within` takes a list of axes, and only beside kind: oat", *place)
        return Design()
    return Design(kind, tuple(starts), tuple(within))


def assignments(design: Design, axes: tuple[Axis, ...], baseline: Mapping[str, str]) -> Iterator[tuple[Level, ...]]:
    """One level per axis for every cell of the design, the first axis slowest."""
    if design.kind == "full" or not axes:
        yield from itertools.product(*(axis.levels for axis in axes)) if axes else ()
        return
    around = [axis.levels if axis.name in design.within else (None,) for axis in axes]
    for held in itertools.product(*around):
        start = tuple(level or _baseline(axis, baseline) for axis, level in zip(axes, held, strict=True))
        stack = tuple(level or axis.levels[-1] for axis, level in zip(axes, held, strict=True))
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


def _baseline(axis: Axis, baseline: Mapping[str, str]) -> Level:
    label = baseline.get(axis.name)
    return next((level for level in axis.levels if level.label == label), axis.levels[0])
