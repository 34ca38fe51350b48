"""A spec's `design: {kind: fractional, …}`: its words, the axes as two-level factors, and what the plan says of it.

    generators: ["weight = advantage*eps_high*keep"]   as written; or one of
    runs: 8            that many cells, with minimum aberration
    resolution: IV     the fewest cells that have it
    levels: {advantage: [group_z, batch_z]}            which two, of an axis with more
    within: [model]    axes that are crossed in full: the fraction is run in each of their combinations

Every other axis of two levels is a factor: low is its baseline, or else its first level. Leaves out: the mathematics
(`fraction.py`), the points of the grid (`design.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.sweep import fraction as maths
from harness.sweep.axes import Axis, Level, Reader
from harness.sweep.fraction import Fraction, Generator
from harness.tricks import nearest

if TYPE_CHECKING:
    from harness.sweep.spec import Spec

ROMAN = {maths.roman(number): number for number in range(3, 10)}
ONE_OF = "one of `generators: [D = A*B*C]`, `runs: 8` or `resolution: IV`"


@dataclass(frozen=True)
class Asked:
    """What the file says; `wanted` is a resolution."""

    generators: tuple[Generator, ...] = ()
    runs: int | None = None
    wanted: int | None = None
    levels: Mapping[str, Any] = field(default_factory=dict)


def read(reader: Reader, given: Mapping[str, Any], *place: str) -> Asked | None:
    """None after a fault."""
    if len({"generators", "runs", "resolution"} & set(given)) != 1:
        reader.add(f"a fractional design takes {ONE_OF}", *place)
        return None
    runs, wanted, levels = given.get("runs"), given.get("resolution"), given.get("levels", {})
    wanted = ROMAN.get(wanted, wanted) if isinstance(wanted, str) else wanted
    if "runs" in given and not _whole(runs):
        reader.add(f"design.runs takes a number of cells, a power of two, not {runs!r}", *place)
    elif "resolution" in given and wanted not in ROMAN.values():
        reader.add(f"design.resolution takes one of {', '.join(ROMAN)}, not {given['resolution']!r}", *place)
    elif not isinstance(levels, dict):
        reader.add("design.levels takes a mapping such as {advantage: [group_z, batch_z]}", *place)
    elif "generators" in given and not (isinstance(given["generators"], list) and given["generators"]):
        reader.add("design.generators takes a list such as [D = A*B*C], in names of axes", *place)
    else:
        try:
            made = tuple(maths.parse(str(text)) for text in given.get("generators", ()))
        except ValueError as error:
            reader.add(f"design: {error}", *place)
        else:
            return Asked(made, runs, wanted, levels)
    return None


def settle(spec: "Spec", asked: Asked, reader: Reader) -> "Spec":
    """The spec with two levels on every factor, a baseline for each, and its fraction; faults are noted."""
    if spec.exclude:
        cure = "narrow an axis, give `levels`, or take design: full, oat or sample"
        reader.add(f"exclude: a fraction without some of its cells can no longer tell effects apart; {cure}", "exclude")
    for axis in spec.axes:
        if axis.when:
            reader.add(
                f"axis '{axis.name}' has a `when`, and a fraction needs every axis in every cell", "axes", axis.name
            )
    axes = tuple(_narrowed(axis, asked.levels, reader) for axis in spec.axes)
    for name in asked.levels:
        if name not in [axis.name for axis in spec.axes]:
            there = ", ".join(axis.name for axis in spec.axes)
            reader.add(
                f"design.levels names no axis '{name}'{nearest(name, there.split(', '))} (axes: {there})", "design"
            )
    factors = [axis for axis in axes if len(axis.levels) > 1 and axis.name not in spec.design.within]
    for axis in factors:
        if len(axis.levels) > 2:
            cure = f"say which with design.levels: {{{axis.name}: [{_two(axis)}]}}, or put the axis into `within`"
            text = f"axis '{axis.name}' has {len(axis.levels)} levels, and a fraction takes two; {cure}"
            reader.add(text, "axes", axis.name)
        elif spec.baseline.get(axis.name, axis.levels[0].label) not in [level.label for level in axis.levels]:
            text = f"design.levels leaves out the baseline of '{axis.name}', {spec.baseline[axis.name]}"
            reader.add(text, "design")
    if len(factors) < 3:
        have = ", ".join(axis.name for axis in factors) or "none"
        reader.add(f"a fraction needs three axes of two levels or more, not {have}; take design: full or oat", "design")
    if reader.problems:
        return spec
    try:
        made = _fraction(asked, [axis.name for axis in factors])
    except ValueError as error:
        reader.add(f"design: {error}", "design")
        return spec
    baseline = spec.baseline | {a.name: a.levels[0].label for a in factors if a.name not in spec.baseline}
    return replace(spec, axes=axes, baseline=baseline, design=replace(spec.design, fraction=made))


def ends(axis: Axis, baseline: Mapping[str, str]) -> tuple[Level, Level]:
    """(low, high) of a factor: its baseline and the other level."""
    low = next((level for level in axis.levels if level.label == baseline.get(axis.name)), axis.levels[0])
    return low, next(level for level in axis.levels if level is not low)


def described(spec: "Spec", made: Fraction) -> dict[str, Any]:
    """What the manifest holds for the analysis, which knows names and signs and no mathematics."""
    by_name = {axis.name: axis for axis in spec.axes}
    return {
        "factors": {name: [level.label for level in ends(by_name[name], spec.baseline)] for name in made.factors},
        "generators": [str(generator) for generator in made.generators],
        "resolution": maths.roman(maths.resolution(made.generators)),
        "runs": made.runs,
        "of": 2 ** len(made.factors),
        "rows": [list(at.values()) for at in maths.rows(made)],
        "classes": [[[sign, list(effect)] for sign, effect in same] for same in maths.classes(made)],
    }


def said(spec: "Spec", made: Fraction, num_runs: int) -> list[str]:
    """The plan's lines: how much of the full factorial, the generators, and what is confounded with what."""
    share = 2 ** len(made.generators)
    around = f" within every {' x '.join(spec.design.within)}" if spec.design.within else ""
    level = maths.resolution(made.generators)
    lines = [
        f"fraction: {made.runs} of the {made.runs * share} combinations of {len(made.factors)} axes{around}, "
        f"{num_runs} runs instead of {num_runs * share}; resolution {maths.roman(level)}",
        f"generators, with each axis -1 at its baseline: {'; '.join(map(str, made.generators))}",
    ]
    classes = maths.classes(made)
    mains = [same for same in classes if len(same[0][1]) == 1]
    pairs = [same for same in classes if len(same[0][1]) == 2]
    mixed, joint = ([named(same) for same in part if len(same) > 1] for part in (mains, pairs))
    if mixed:
        lines.append(f"main effects that two-factor interactions are confounded with: {'; '.join(mixed)}")
    else:
        lines.append("main effects: no two-factor interaction is confounded with them")
    if joint:
        lines.append(f"two-factor interactions that are confounded with each other: {'; '.join(joint)}")
    if clear := [named(same) for same in pairs if len(same) == 1]:
        lines.append(f"two-factor interactions that stand alone: {', '.join(clear)}")
    return lines


def named(same: Sequence[tuple[int, tuple[str, ...]]]) -> str:
    """An effect and what is confounded with it, such as "eps_high (+ keep:weight - advantage:limit)"."""
    (_, first), *others = same
    beside = " ".join(f"{'-' if sign < 0 else '+'} {':'.join(effect)}" for sign, effect in others)
    return ":".join(first) + (f" ({beside})" if beside else "")


def _fraction(asked: Asked, factors: list[str]) -> Fraction:
    """Raises ValueError for a fraction that there is not, or that confounds main effects with each other."""
    if asked.runs:
        return maths.search(factors, asked.runs)
    if asked.wanted:
        return maths.best(factors, asked.wanted)
    made: dict[str, Generator] = {}
    for generator in asked.generators:
        for name in (generator.factor, *generator.of):
            if name not in factors:
                raise ValueError(
                    f"generator '{generator}' names no axis of two levels '{name}'{nearest(name, factors)} "
                    f"(there are: {', '.join(factors)})"
                )
        if generator.factor in made:
            raise ValueError(f"'{generator.factor}' has two generators, '{made[generator.factor]}' and '{generator}'")
        if len(set(generator.of)) < len(generator.of) or generator.factor in generator.of:
            raise ValueError(f"generator '{generator}' names an axis twice; a square is 1, leave it out")
        made[generator.factor] = generator
    for generator in asked.generators:
        if chained := [name for name in generator.of if name in made]:
            raise ValueError(
                f"generator '{generator}': '{chained[0]}' has a generator itself ('{made[chained[0]]}'); write it in "
                f"the axes that have none: {', '.join(name for name in factors if name not in made)}"
            )
    for word in maths.relation(asked.generators):
        if len(word) == 2:
            pair = sorted(word, key=factors.index)
            raise ValueError(
                f"these generators confound the main effects of {pair[0]} and {pair[1]} (resolution II): the two axes "
                f"would change together in every cell; products of different axes keep them apart, and `resolution: "
                f"III` finds some"
            )
    return Fraction(tuple(factors), asked.generators)


def _narrowed(axis: Axis, levels: Mapping[str, Any], reader: Reader) -> Axis:
    """The axis with the two levels that `levels` names."""
    if axis.name not in levels:
        return axis
    given = levels[axis.name]
    if not isinstance(given, list) or len(given) != 2:
        reader.add(
            f"design.levels: '{axis.name}' takes two of its levels, such as [{_two(axis)}], not {given!r}", "design"
        )
        return axis
    found = [axis.level(value) for value in given]
    for value, level in zip(given, found, strict=True):
        if level is None:
            reader.add(f"design.levels: {axis.no_level(value)}", "design")
    kept = tuple(level for level in axis.levels if level in found)
    if len(kept) < 2 and None not in found:
        reader.add(f"design.levels: '{axis.name}' takes two levels, not {kept[0].label} twice", "design")
    return replace(axis, levels=kept) if len(kept) == 2 else axis


def _two(axis: Axis) -> str:
    return ", ".join(level.label for level in axis.levels[:2])


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
