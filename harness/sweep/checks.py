"""Specs that cannot show their effect are refused, with the cure. Leaves out: faults of single values."""

from collections import defaultdict
from collections.abc import Iterator

from harness.sweep.axes import Axis
from harness.sweep.grid import Cell
from harness.sweep.spec import Spec
from harness.sweep.yaml12 import Problem

CLIP_KEYS = {"tricks.surrogate.low", "tricks.surrogate.high"}
# An affine change of the reward cancels in these, up to eps (notes in harness/tricks/advantage.py and reward.py).
AFFINE_INVARIANT = ("group_z", "batch_z", "group_mean_batch_std")
AFFINE = ("raw", "affine")

Labels = dict[str, str]


def check(spec: Spec, cells: tuple[Cell, ...], twins: list[tuple[Labels, Labels]], excluded: int) -> Iterator[Problem]:
    """Every reason to refuse a grid whose cells are each fine."""
    if not cells:
        mark = spec.document.mark("exclude" if excluded else "axes")
        yield Problem(f"the grid is empty: all {excluded} cells are excluded", mark)
        return
    yield from _baselines(spec, cells)
    yield from _equal_arms(spec, cells, twins)
    for axis in spec.axes:
        if axis.sets() & CLIP_KEYS:
            yield from _idle_clip(axis, cells)
        if not spec.control and any(key.startswith("tricks.reward") for key in axis.sets()):
            yield from _cancelled_reward(axis, cells)


def _baselines(spec: Spec, cells: tuple[Cell, ...]) -> Iterator[Problem]:
    for name, label in spec.baseline.items():
        if not any(cell.labels.get(name) == label for cell in cells):
            mark = spec.document.mark("baseline", name)
            yield Problem(f"baseline: no cell has {name} = {label}; all of them are excluded or absent", mark)


def _idle_clip(axis: Axis, cells: tuple[Cell, ...]) -> Iterator[Problem]:
    keys = ", ".join(sorted(axis.sets() & CLIP_KEYS))
    idle = [c for c in cells if axis.name in c.labels and c.identity.train.updates_per_rollout == 1]
    if idle and len(axis.levels) > 1:
        yield Problem(
            f"axis '{axis.name}' sets {keys}, but with train.updates_per_rollout = 1 every ratio is 1 and all arms "
            f"have the same gradient (in {len(idle)} of {len(cells)} cells); set train.updates_per_rollout: 4 in "
            "`base`, or exclude those cells",
            axis.mark,
        )


def _cancelled_reward(axis: Axis, cells: tuple[Cell, ...]) -> Iterator[Problem]:
    rewards: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        tricks = cell.identity.tricks
        if axis.name in cell.labels and tricks.advantage.name in AFFINE_INVARIANT and tricks.reward.name in AFFINE:
            rewards[tricks.advantage.name].add(cell.labels[axis.name])
    for advantage, labels in rewards.items():
        if len(labels) > 1:
            yield Problem(
                f"axis '{axis.name}' only rescales the reward, which cancels under tricks.advantage = {advantage}: "
                "its arms cannot differ; use an advantage without a standard deviation (group_mean), or say "
                "`control: true` for an A/A control",
                axis.mark,
            )


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
