"""`python -m harness diff A B`: what differs between two recipes, slot by slot, and every other key that differs.

Both are composed with the default choices of experiments/config.yaml and all defaults filled in. Leaves out: runs and
cells.
"""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from harness import config
from harness.sweep import keys
from harness.sweep.catalog import print_rows
from harness.sweep.compose import compose, look_up
from harness.sweep.recipes import call, choice, shown
from harness.tricks import SLOTS


def show(first: str, second: str, console: Console) -> None:
    """Raises ValueError for a name that is no recipe, with the nearest."""
    a, b = _compose(first), _compose(second)
    slots = dict(_slots(a, b))
    rows = slots | dict(_others(a, b))
    console.print(Text(f"{first} -> {second}", style="bold"))
    print_rows(rows, console)
    equal = ", ".join(slot for slot in SLOTS if slot not in slots)
    rest = f"equal: {equal} and every other key" if equal else "equal: every other key"
    console.print(Text(rest if rows else "nothing differs"))


def _compose(recipe: str) -> dict[str, Any]:
    chosen = keys.default_choices() | {"recipe": recipe}
    if problem := keys.check_choice("recipe", recipe, [chosen["scale"]]):
        raise ValueError(problem)
    return compose(chosen)


def _slots(a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for slot in SLOTS:
        before, after = choice(slot, a["tricks"][slot]), choice(slot, b["tricks"][slot])
        if before.trick is not after.trick:
            names = (before.trick.name, before.knobs), (after.trick.name, after.knobs)
            yield slot, " -> ".join(call(*given) for given in names)
        elif before.knobs != after.knobs:
            changed = {knob: value for knob, value in after.knobs.items() if value != before.knobs[knob]}
            moves = [f"{knob} {shown(before.knobs[knob])} -> {shown(value)}" for knob, value in changed.items()]
            yield slot, f"{after.trick.name}: {', '.join(moves)}"


def _others(a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in config.known_keys():
        section = key.split(".")[0]
        if section != "tricks":
            before, after = (shown(look_up(tree, key)) if tree.get(section) else f"(no {section})" for tree in (a, b))
            if before != after:
                yield key, f"{before} -> {after}"
