"""At which chance should an arm be given up? What that saves and what it loses, on made sweeps.

The sweeps are those of `bench/sequential.py`: ten arms, three with the effect, up to 10 seeds, paired differences that
spread by 3.2 or 5 points, and a margin of 1 or 3. Each is judged with some values of `stop: {futility: …}`, on the same
numbers, with a first look at three seeds or at two; 0 never gives up. Beside each row stand the arms with the effect
that are found, the arms without that are called neutral, the runs as a share of those of ten seeds everywhere, and the
arms with the word that the plain t test gives them at ten seeds. Prints a table; exits 1 where giving up adds false
alarms.
Leaves out: whether looking errs (`bench/sequential.py`).

    python -m bench.futility [--sweeps 500]             about ten minutes of CPU
"""

import argparse
import math
import sys
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import sequential
from bench.sequential import SPREADS, Found, draw, measure

WAYS = ((3, 0.0), (3, 0.05), (3, 0.1), (3, 0.2), (2, 0.05), (2, 0.1))  # seeds first, futility
MARGINS = (1.0, 3.0)  # points
EFFECTS = (0.0, 5.0, 8.0)

Row = tuple[float, int, float, Found]  # margin, seeds first, futility, what was found


def run(sweeps: int) -> list[Row]:
    found = []
    for number, (effect, spread) in enumerate((e, s) for s in SPREADS.values() for e in EFFECTS):
        differences = draw(effect, spread, sweeps, np.random.default_rng([number, 10]))
        for margin in MARGINS:
            for first, least in WAYS:
                way = "giving up" if least else "sequential"
                row = measure(way, effect, spread, differences, margin, least, first)
                found.append((margin, first, least, row))
    return found


def misses(found: list[Row]) -> Iterator[str]:
    """Rows with more false alarms than ALPHA allows, by more than chance."""
    for margin, first, least, row in found:
        if row.wrong > sequential.limit(row.sweeps):
            how = f"{first} seeds first, futility {least:g}"
            case = f"{how}, margin {margin:g}, effect {row.effect:g}, spread {row.spread:.1f}"
            yield f"{case}: {row.wrong:.1%} of sweeps decided wrongly"


def table(found: list[Row]) -> Table:
    columns = (
        "spread",
        "margin",
        "effect",
        "first",
        "futility",
        "wrong sweeps",
        "effect found",
        "neutral",
        "seeds",
        "runs",
    )
    title = f"{found[0][3].sweeps} sweeps a row, {sequential.ARMS} arms, up to {sequential.MOST} seeds"
    shown, share = Table(*columns, "as fixed", title=title), "{:.1%}".format
    for margin, first, least, row in sorted(found, key=lambda row: (row[3].spread, row[0], row[3].effect)):
        at = [f"{row.spread:.1f}", f"{margin:g}", f"{row.effect:g}", str(first), f"{least:g}"]
        numbers = [share(row.wrong), "" if math.isnan(row.found) else share(row.found), share(row.neutral)]
        rest = [f"{row.seeds:.2f}", share(row.runs), share(row.same)]
        shown.add_row(*at, *numbers, *rest, end_section=(first, least) == WAYS[-1])
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description="What giving up arms saves and loses.")
    parser.add_argument("--sweeps", type=int, default=500)
    found = run(parser.parse_args().sweeps)
    Console(width=110).print(table(found))
    missed = list(misses(found))
    print(*(missed or ["giving up adds no false alarm"]), sep="\n")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
