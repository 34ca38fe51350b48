"""How a cell's labels fill the columns of a table: one an axis, or one for all arms where there are many.

In a sweep of many tricks one at a time, nearly every label is the baseline's: there a cell is told by what differs.
Leaves out: the tables (`present.py`, `status.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

SEVERAL = 3  # arm axes with a column each; beyond, they share one


def axes(manifest: Mapping[str, Any]) -> list[str]:
    """Those that tell a manifest's runs apart: of a search also the axes that only its trials have."""
    searched = manifest.get("search", {}).get("over", {})
    return [*manifest["axes"], *(axis for axis in searched if any(axis in run["labels"] for run in manifest["runs"]))]


def names(axes: Sequence[str], baseline: Mapping[str, str]) -> list[str]:
    """The columns' headings; arms (axes that the baseline names) stand last."""
    plain, arms = _apart(axes, baseline)
    return plain + (["differs"] if len(arms) > SEVERAL else arms)


def cells(labels: Mapping[str, str], axes: Sequence[str], baseline: Mapping[str, str]) -> list[str]:
    """A row's texts; a dot for an axis that does not reach the cell."""
    plain, arms = _apart(axes, baseline)
    if len(arms) <= SEVERAL:
        return [labels.get(axis, "·") for axis in plain + arms]
    differs = [f"{axis} {labels[axis]}" for axis in arms if labels.get(axis, baseline[axis]) != baseline[axis]]
    return [labels.get(axis, "·") for axis in plain] + [", ".join(differs) or "baseline"]


def line(labels: Mapping[str, str], axes: Sequence[str], baseline: Mapping[str, str]) -> str:
    """The same in one line, such as "model=small_base clip=0.28"."""
    pairs = zip(names(axes, baseline), cells(labels, axes, baseline), strict=True)
    return " ".join(cell if name == "differs" else f"{name}={cell}" for name, cell in pairs if cell != "·")


def _apart(axes: Sequence[str], baseline: Mapping[str, str]) -> tuple[list[str], list[str]]:
    return [axis for axis in axes if axis not in baseline], [axis for axis in axes if axis in baseline]
