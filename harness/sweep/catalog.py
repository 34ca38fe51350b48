"""`python -m harness tricks`: every trick with its formula, knobs, source and the recipes that use it.

Read from the source text of harness/tricks and the files of experiments/recipe. Leaves out: running any of them.
"""

from rich.console import Console
from rich.padding import Padding
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
    """All tricks by slot, or those named `name` (a trick or a slot) in full. Raises ValueError for neither."""
    registry = tricks.registry()
    if name is None:
        _list([trick for slot in SLOTS for trick in registry[slot].values()], console)
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


def _list(chosen: list[Trick], console: Console) -> None:
    """A heading per slot; per trick its knobs, formula, source and users, wrapped under its name."""
    before = ""
    for trick in chosen:
        if trick.slot != before:
            console.print(Text(trick.slot, style="bold"))
            before = trick.slot
        name = f"{trick.name}({knobs(trick)})" if trick.knobs else trick.name
        console.print(Text(f"  {name}", style="cyan"))
        used = f"; in {', '.join(users(trick))}" if users(trick) else ""
        for line in (trick.formula, f"{trick.source.rstrip('.')}{used}"):
            console.print(Padding(Text(line), (0, 0, 0, 6)))
