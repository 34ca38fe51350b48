"""`python -m harness tricks`: every trick with its formula, knobs, source and the recipes that use it.

Read from the source text of harness/tricks and the files of experiments/recipe. Leaves out: running any of them; the
same as a page (`handbook.py`).
"""

import re
import textwrap

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from harness import tricks
from harness.sweep.recipes import call, shown, users
from harness.tricks import SLOTS, Trick, nearest

_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z`{])")


def remarks(trick: Trick) -> str:
    """What stands between the formula and the source, less what is said of the field."""
    return " ".join(sentence for sentence in _sentences(trick) if not _of_the_field(sentence))


def disagreement(trick: Trick) -> str:
    """Where implementations differ, '' where nothing is said of that."""
    return " ".join(sentence for sentence in _sentences(trick) if _of_the_field(sentence))


def used_by(trick: Trick) -> str:
    """The recipes that choose it, with the knobs that they set to other than the default."""
    return ", ".join(call(name, choice.changed) for name, choice in users(trick).items()) or "none"


def _sentences(trick: Trick) -> list[str]:
    between = [part for part in trick.doc.split("\n\n")[1:] if not part.lstrip().startswith("Ref:")]
    return _SENTENCE.split(" ".join(" ".join(between).split()))


def _of_the_field(sentence: str) -> bool:
    return "the field disagrees" in sentence.lower()


def show(name: str | None, console: Console) -> None:
    """All tricks by slot, or those named `name` (a trick or a slot) in full. Raises ValueError for neither."""
    registry = tricks.registry()
    if name is None:
        _list(console)
        return
    chosen = [trick for slot in SLOTS for trick in registry[slot].values() if name in (slot, trick.name)]
    if not chosen:
        known = [*SLOTS, *(trick for slot in SLOTS for trick in registry[slot])]
        raise ValueError(f"no trick or slot '{name}'{nearest(name, known)} (`python -m harness tricks` lists them)")
    if name in SLOTS:
        console.print(Text(tricks.contract(name)), end="\n\n")
    for trick in chosen:
        _one(trick, console)


def _one(trick: Trick, console: Console) -> None:
    console.print(Text(f"tricks.{trick.slot}: {trick.name}", style="bold"))
    console.print(Text(trick.formula, style="cyan"))
    if said := remarks(trick):
        console.print(Text(said))
    rows = {
        "knobs": "\n".join(f"tricks.{trick.slot}.{knob} = {shown(value)}" for knob, value in trick.defaults.items()),
        "field": disagreement(trick),
        "source": trick.source,
        "recipes": used_by(trick),
    }
    print_rows({label: text for label, text in rows.items() if text}, console)
    console.print()


def print_rows(rows: dict[str, str], console: Console) -> None:
    """A label and its text a row, the text wrapped beside the label."""
    width = max((len(label) for label in rows), default=0) + 4
    for label, text in rows.items():
        for index, line in enumerate(text.splitlines()):
            start = f"  {label}" if not index else ""
            wrapped = textwrap.fill(
                line, console.width, initial_indent=start.ljust(width), subsequent_indent=" " * width,
                break_on_hyphens=False, break_long_words=False,
            )  # fmt: skip
            console.print(wrapped, highlight=False, markup=False, soft_wrap=True)


def _list(console: Console) -> None:
    """A heading per slot; per trick its knobs, formula, source and users, wrapped under its name."""
    for slot in SLOTS:
        console.print(Text(slot, style="bold"))
        for trick in tricks.registry()[slot].values():
            console.print(Text(f"  {call(trick.name, trick.defaults)}", style="cyan"))
            used = f"; in {', '.join(users(trick))}" if users(trick) else ""
            for line in (trick.formula, f"{trick.source.rstrip('.')}{used}"):
                console.print(Padding(Text(line), (0, 0, 0, 6)))
