"""What the files of experiments/recipe choose: a trick with all its knobs per slot, other keys, the comment on top.

Leaves out: listing them (`catalog.py`, `handbook.py`) and comparing them (`compare.py`).
"""

import functools
from dataclasses import dataclass
from typing import Any

from harness import tricks
from harness.sweep import keys, yaml12
from harness.tricks import SLOTS, Knob, Trick

VANILLA = "vanilla"


@dataclass(frozen=True)
class Choice:
    """A slot's trick with every one of its knobs."""

    trick: Trick
    knobs: dict[str, Knob]

    @property
    def changed(self) -> dict[str, Knob]:
        """The knobs that are not at their default."""
        return {name: value for name, value in self.knobs.items() if value != self.trick.defaults[name]}


@dataclass(frozen=True)
class Recipe:
    name: str
    about: str  # the file's comment: what it is, its source, where it deviates from it
    choices: dict[str, Choice]
    others: dict[str, Any]  # dotted keys outside the slots, as written


@functools.cache
def recipes() -> dict[str, Recipe]:
    """name -> Recipe, vanilla first. Raises TrickError for a trick or knob that does not exist."""
    files = sorted((keys.EXPERIMENTS / "recipe").glob("*.yaml"), key=lambda path: (path.stem != VANILLA, path.stem))
    out = {}
    for file in files:
        document = yaml12.load(file)
        chosen = document.value.get("tricks", {})
        rest = {key: value for key, value in document.value.items() if key != "tricks"}
        choices = {slot: choice(slot, chosen[slot]) for slot in SLOTS if slot in chosen}
        out[file.stem] = Recipe(file.stem, _comment(document.text), choices, dict(keys.flat(rest)))
    return out


def choice(slot: str, given: Any) -> Choice:
    """From a trick's name, or a mapping with `name` and knobs."""
    named = {"name": given} if isinstance(given, str) else dict(given)
    name = str(named.pop("name", ""))
    return Choice(tricks.get(slot, name), tricks.complete(slot, name, named))


def users(trick: Trick) -> dict[str, Choice]:
    """recipe -> its choice, for the recipes that choose the trick."""
    return {name: r.choices[trick.slot] for name, r in recipes().items() if r.choices[trick.slot].trick is trick}


def call(name: str, knobs: dict[str, Knob]) -> str:
    """`clip(low=0.2, high=0.28)`; the name alone without knobs."""
    return f"{name}({', '.join(f'{knob}={shown(value)}' for knob, value in knobs.items())})" if knobs else name


def shown(value: Any) -> str:
    """A value as YAML has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _comment(text: str) -> str:
    lines = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    return " ".join(line for line in lines if not line.startswith("@"))
