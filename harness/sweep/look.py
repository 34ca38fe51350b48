"""Looking at single runs: `why` two of them differ, `logs` of one, step by step, and following it.

A run is named by its folder, its id or any beginning of it that only one run has. Leaves out: sweeps as a whole
(`status.py`), curves (`analysis`).
"""

import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness import store
from harness.config import NAMES
from harness.sweep import keys
from harness.sweep.axes import label_of
from harness.tricks import nearest

POLL = 0.5  # seconds between looks at a run that is followed
SHOWN = {  # recorded key -> its word and format in a line of `logs`
    "train/accuracy": ("accuracy", "{:.3f}"),
    "eval/accuracy": ("eval", "{:.3f}"),
    "policy/entropy": ("entropy", "{:.3f}"),
    "length/mean": ("length", "{:.1f}"),
    "clip/high": ("clip high", "{:.2%}"),
    "grad/norm": ("gradient", "{:.3g}"),
}


def find(root: Path, name: str) -> store.Run:
    """Raises ValueError for a name of no run or of several, with the nearest or all of them."""
    if (Path(name) / "config.yaml").is_file():
        return store.Run(Path(name))
    folder = root / "runs"
    ids = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    found = [id for id in ids if id.startswith(Path(name).name)]
    if len(found) == 1 or name in found:
        return store.Run(folder / (name if name in found else found[0]))
    if found:
        raise ValueError(f"'{name}' is the beginning of {len(found)} runs: {', '.join(found[:5])}; give more of it")
    raise ValueError(f"no run '{name}' in {folder}{nearest(name, ids)} (`python -m harness plan SPEC` lists runs)")


def why(first: store.Run, second: store.Run, console: Console) -> None:
    """Every key in which two runs differ; what is part of identity before what is not."""
    a, b = (dict(keys.flat(run.config().model_dump(mode="json"))) for run in (first, second))
    differ = {key: (a.get(key), b.get(key)) for key in {**a, **b} if a.get(key) != b.get(key)}
    for title, part in (("what they are", True), ("how they are run (no part of their ids)", False)):
        found = [key for key in differ if _identifies(key) == part]
        if found:
            table = Table("key", first.id, second.id, box=None, pad_edge=False, header_style="bold", title=title)
            table.title_justify = "left"
            for key in found:
                table.add_row(
                    key.removeprefix("identity."), *("-" if value is None else label_of(value) for value in differ[key])
                )
            console.print(table)
    if not differ:
        console.print("nothing differs: they are the same run")


def _identifies(key: str) -> bool:
    return not key.startswith("runtime.") and key.split(".")[-1] not in NAMES


def lines(run: store.Run) -> Iterator[tuple[int, str]]:
    """(step, one line) per recorded step, in order; seconds are those of the attempt that stands."""
    seconds = {line["step"]: sum(line["seconds"].values()) for line in run.read("timing")}
    for record in run.read("metrics"):
        step, values = record["step"], record["m"]
        shown = [
            f"{word} {form.format(values[key])}" for key, (word, form) in SHOWN.items() if values.get(key) is not None
        ]
        yield step, f"step {step:4}  {seconds.get(step, 0.0):6.2f} s  {'  '.join(shown)}"


def logs(run: store.Run, console: Console, follow: bool) -> None:
    """The run's steps, then how it stands; with `follow` new steps as they are recorded, until it ends."""
    last = -1
    while True:
        status = run.status()  # before the lines, so that none is missed after the end
        for step, line in lines(run):
            if step > last:
                console.print(line, highlight=False, soft_wrap=True)
                last = step
        if not follow or status["state"] in (*store.ENDED, "stopped"):
            break
        time.sleep(POLL)
    attempts = run.next_attempt()
    again = f" after {attempts} attempts" if attempts > 1 else ""
    console.print(f"{run.id}: {status['state']}{again}", highlight=False)
    if status["state"] == "failed" and (run.path / "error.txt").is_file():
        console.print((run.path / "error.txt").read_text().rstrip(), highlight=False, markup=False, soft_wrap=True)
