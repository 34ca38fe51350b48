"""What each axis and each claim takes and can show, as a table on the terminal. Leaves out: numbers (`answers.py`)."""

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.sweep.answers import Answer, Answers
from harness.sweep.hours import amount
from harness.sweep.screen import line
from harness.sweep.spec import Spec
from harness.sweep.stop import DECIDING

MAX_ROWS = 24
WHOLE = 1.0  # more than all of a share cannot be found


def show(found: Answers, spec: Spec, console: Console) -> None:
    factor, digits, unit = _scale(found, spec)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("to answer", overflow="fold")
    for name in ("compared", "runs", "done", f"{found.unit}-hours", "left", f"finds, {unit}" if unit else "finds"):
        table.add_column(name, justify="right")
    for row in found.rows[:MAX_ROWS]:
        finds = " to ".join(dict.fromkeys(_found(value, factor, digits, unit) for value in row.finds))
        table.add_row(*_cells(row, spec), finds if row.compared else "not testable here")
    console.print(table)
    if len(found.rows) > MAX_ROWS:
        line(console, f"… and {len(found.rows) - MAX_ROWS} more", "dim")
    for sentence in _notes(found, spec):
        console.print(Text(sentence, style="dim"))


def _scale(found: Answers, spec: Spec) -> tuple[float, int, str]:
    """Of the effects: as reports show the metric, and standard deviations where nothing tells how it scatters."""
    from analysis import text

    if math.isnan(found.scatter.sigma):
        return 1.0, 1, "sd"
    factor, digits, unit = text.scale(spec.endpoint.metric)
    return factor, digits, "" if unit == spec.endpoint.metric else unit


def _found(value: float, factor: float, digits: int, unit: str) -> str:
    if math.isnan(value):
        return "-"
    if unit == "points" and value > WHOLE:
        return "over 100"
    return "none" if math.isinf(value) else f"{factor * value:.{digits}f}"


def _cells(row: Answer, spec: Spec) -> list[str]:
    if not row.compared:
        return [row.name, *"-----"]
    control = " (control)" if row.name in spec.control and not row.is_claim else ""
    runs, hours = f"{row.runs}", amount(row.hours)
    if row.more_runs:
        runs, hours = f"{runs}-{row.runs + row.more_runs}", f"{hours}-{amount(row.hours + row.more_hours)}"
    return [row.name + control, str(row.compared), runs, str(row.done), hours, amount(row.left)]


def _notes(found: Answers, spec: Spec) -> list[str]:
    if found.seeds[-1] < DECIDING:
        return [f"a run counts in every answer that needs it; under {DECIDING} seeds nothing is decided"]
    factor, digits, unit = _scale(found, spec)
    seeds = " to ".join(map(str, found.seeds))
    look = ", all looks together" if len(found.seeds) > 1 else ""
    notes = [
        f"a run counts in every answer that needs it. finds: the true effect on {spec.endpoint.metric} that shows with "
        f"power .8 in {seeds} seeds: two-sided paired t at .05 / compared, a claim's findings at .05 each{look}"
    ]
    sd = found.scatter.pair
    known = "" if math.isnan(sd) else f"{factor * sd:.{digits}f} {unit}".rstrip() + ", "
    return [*notes, f"standard deviation (sd) of a paired difference: {known}{found.scatter.source}"]
