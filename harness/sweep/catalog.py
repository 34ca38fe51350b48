"""`python -m harness tricks`: every trick with its formula, knobs, source and the recipes that use it.

Read from the source text of harness/tricks and the files of experiments/recipe. Leaves out: running any of them.
"""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness import tricks
from harness.sweep import keys, yaml12
from harness.tricks import SLOTS, Trick, nearest


def recipes() -> dict[str, dict[str, str]]:
    """recipe -> slot -> trick."""
    out: dict[str, dict[str, str]] = {}
    for file in sorted((keys.EXPERIMENTS / "recipe").glob("*.yaml")):
        chosen = (yaml12.load(file).value or {}).get("tricks", {})
        out[file.stem] = {slot: c["name"] if isinstance(c, dict) else c for slot, c in chosen.items()}
    return out


def users(trick: Trick) -> list[str]:
    """The recipes that choose a trick."""
    return [name for name, chosen in recipes().items() if chosen.get(trick.slot) == trick.name]


def knobs(trick: Trick) -> str:
    return ", ".join(f"{name}={default}" for name, default in trick.defaults.items())


def show(name: str | None, console: Console) -> None:
    """All tricks as a table, or those named `name` (a trick or a slot) in full. Raises ValueError for neither."""
    registry = tricks.registry()
    if name is None:
        _table([trick for slot in SLOTS for trick in registry[slot].values()], console)
        return
    chosen = [trick for slot in SLOTS for trick in registry[slot].values() if name in (slot, trick.name)]
    if not chosen:
        known = [*SLOTS, *(trick for slot in SLOTS for trick in registry[slot])]
        raise ValueError(f"no trick or slot '{name}'{nearest(name, known)} (`python -m harness tricks` lists them)")
    for trick in chosen:
        console.print(Text(f"tricks.{trick.slot}: {trick.name}", style="bold"))
        console.print(trick.doc, highlight=False, markup=False, soft_wrap=True)
        for knob, default in trick.defaults.items():
            console.print(f"  tricks.{trick.slot}.{knob} = {default}", highlight=False, markup=False)
        console.print(f"  recipes: {', '.join(users(trick)) or 'none'}", highlight=False, markup=False)
        console.print()


def _table(chosen: list[Trick], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", show_lines=False)
    for column in ("slot", "trick", "formula", "knobs", "source", "recipes"):
        table.add_column(column, overflow="fold")
    before = ""
    for trick in chosen:
        slot = trick.slot if trick.slot != before else ""
        row = (slot, trick.name, trick.formula, knobs(trick), trick.source, ", ".join(users(trick)))
        table.add_row(*(Text(cell) for cell in row))
        before = trick.slot
    console.print(table)
