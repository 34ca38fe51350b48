"""Words and lines that every screen of a plan shares. Leaves out: what is shown (`present.py`, `present_cost.py`)."""

from rich.console import Console


def count(number: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def line(console: Console, text: str, style: str = "") -> None:
    """As it stands: nothing in it is markup, and only the terminal breaks it."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)
