"""Specs that cannot show their effect are refused, with the cure. Leaves out: faults of single values and cells."""

from collections import defaultdict
from collections.abc import Iterator

from harness import config
from harness.sweep import effects
from harness.sweep.effects import Idle
from harness.sweep.grid import Cell
from harness.sweep.spec import Spec
from harness.sweep.yaml12 import Problem

Labels = dict[str, str]
Member = tuple[Cell, tuple[Idle, ...]]


def check(spec: Spec, cells: tuple[Cell, ...], twins: list[tuple[Labels, Labels]], excluded: int) -> Iterator[Problem]:
    """Every reason to refuse a grid whose cells are each fine."""
    if not cells:
        mark = spec.document.mark("exclude" if excluded else "axes")
        yield Problem(f"the grid is empty: all {excluded} cells are excluded", mark)
        return
    yield from _baselines(spec, cells)
    yield from _equal_arms(spec, cells, twins)
    yield from _arms_without_effect(spec, cells)


def _baselines(spec: Spec, cells: tuple[Cell, ...]) -> Iterator[Problem]:
    for name, label in spec.baseline.items():
        if not any(cell.labels.get(name) == label for cell in cells):
            mark = spec.document.mark("baseline", name)
            yield Problem(f"baseline: no cell has {name} = {label}; all of them are excluded or absent", mark)


def _arms_without_effect(spec: Spec, cells: tuple[Cell, ...]) -> Iterator[Problem]:
    """Arms that differ in their settings and train exactly alike."""
    alike: dict[str, list[Member]] = defaultdict(list)
    for cell in cells:
        identity, idle = effects.plain(cell.identity)
        alike[config.cell_id(identity) if idle else cell.id].append((cell, idle))
    counts: dict[tuple[str, tuple[str, ...], str, str], int] = defaultdict(int)
    for members in alike.values():
        if len(members) > 1:
            for name, arms in _arms(spec, members):
                if name in spec.control:
                    continue
                parts = _to_blame(arms)
                labels = tuple(cell.labels[name] for cell, _ in arms)
                why, cure = (" and ".join(dict.fromkeys(texts)) for texts in zip(*parts, strict=True))
                counts[name, labels, why, cure] += len(arms)
    for (name, labels, why, cure), count in counts.items():
        axis = next(axis for axis in spec.axes if axis.name == name)
        where = f" in {count} of {len(cells)} cells" if count < len(cells) else ""
        listed = f"{', '.join(labels[:-1])} and {labels[-1]}"
        yield Problem(
            f"axis '{name}': {listed} train exactly alike{where}: {why}; {cure}, exclude all of them but one, or say "
            f"`control: [{name}]` for an A/A control",
            axis.mark,
        )


def _arms(spec: Spec, members: list[Member]) -> Iterator[tuple[str, list[Member]]]:
    """axis -> the members that differ in its label alone."""
    for axis in spec.axes:
        contexts: dict[tuple[tuple[str, str], ...], list[Member]] = defaultdict(list)
        for cell, idle in members:
            if axis.name in cell.labels:
                rest = tuple(item for item in cell.labels.items() if item[0] != axis.name)
                contexts[rest].append((cell, idle))
        for arms in contexts.values():
            if len(arms) > 1:
                yield axis.name, arms


def _to_blame(arms: list[Member]) -> list[tuple[str, str]]:
    """(why, cure) of the parts in which the arms differ; they train alike, so there is one."""
    idle = {item.part: item for _, found in arms for item in found}
    first = arms[0][0].identity
    differ = [p for p in idle if any(effects.value(c.identity, p) != effects.value(first, p) for c, _ in arms)]
    return [(idle[part].why, idle[part].cure) for part in differ]


def _equal_arms(spec: Spec, cells: tuple[Cell, ...], twins: list[tuple[Labels, Labels]]) -> Iterator[Problem]:
    """Two levels of an axis that give the same cell wherever both occur."""
    merged: dict[tuple[str, str, str], int] = defaultdict(int)
    for first, second in twins:
        names = [name for name in {*first, *second} if first.get(name) != second.get(name)]
        if len(names) == 1 and names[0] in first and names[0] in second:
            merged[names[0], first[names[0]], second[names[0]]] += 1
    for (name, a, b), count in merged.items():
        contexts: dict[str, set[tuple[tuple[str, str], ...]]] = {a: set(), b: set()}
        for labels in [cell.labels for cell in cells] + [second for _, second in twins]:
            if labels.get(name) in contexts:
                rest = tuple(item for item in labels.items() if item[0] != name)
                contexts[labels[name]].add(rest)
        if len(contexts[a] & contexts[b]) == count:
            axis = next(axis for axis in spec.axes if axis.name == name)
            level = next((lv for lv in axis.levels if lv.label == b), None)
            yield Problem(
                f"levels '{a}' and '{b}' of axis '{name}' are the same cell everywhere: nothing differs; drop one, or "
                "let it set a key that `base`, `set` or the command line does not set",
                level.mark if level else axis.mark,
            )
