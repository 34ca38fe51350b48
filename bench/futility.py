"""At which chance should an arm be given up? What that saves and what it loses, on made sweeps.

The sweeps are those of `bench/sequential.py`: ten arms, three with the effect, looks at 3 to 10 seeds, paired
differences that spread by 3.2 or 5 points, and a margin of 1 or 3. Each is judged with five values of
`stop: {futility: …}`, on the same numbers; 0 never gives up. Beside each row stand the arms with the effect that are
found, the arms without that are called neutral, the runs as a share of those of ten seeds everywhere, and the arms
with the word that the plain t test gives them at ten seeds. Prints a table; exits 1 where giving up adds false alarms.
Leaves out: whether looking errs (`bench/sequential.py`).

    python -m bench.futility [--sweeps 2000]            about five minutes of CPU
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

LEAST = (0.0, 0.1, 0.2, 0.3, 0.5)
MARGINS = (1.0, 3.0)  # points
EFFECTS = (0.0, 5.0, 8.0)

Row = tuple[float, float, Found]  # margin, futility, what was found


def run(sweeps: int) -> list[Row]:
    found = []
    for number, (effect, spread) in enumerate((e, s) for s in SPREADS.values() for e in EFFECTS):
        differences = draw(effect, spread, sweeps, np.random.default_rng([number, 10]))
        for margin in MARGINS:
            for least in LEAST:
                way = "giving up" if least else "sequential"
                found.append((margin, least, measure(way, effect, spread, differences, margin, least)))
    return found


def misses(found: list[Row]) -> Iterator[str]:
    """Rows with more false alarms than ALPHA allows, by more than chance."""
    for margin, least, row in found:
        if row.wrong > sequential.limit(row.sweeps):
            case = f"futility {least:g}, margin {margin:g}, effect {row.effect:g}, spread {row.spread:.1f}"
            yield f"{case}: {row.wrong:.1%} of sweeps decided wrongly"


def table(found: list[Row]) -> Table:
    columns = ("spread", "margin", "effect", "futility", "wrong sweeps", "effect found", "neutral", "seeds", "runs")
    title = f"{found[0][2].sweeps} sweeps a row, {sequential.ARMS} arms, 3 to {sequential.MOST} seeds"
    shown, share = Table(*columns, "as fixed", title=title), "{:.1%}".format
    for margin, least, row in sorted(found, key=lambda row: (row[2].spread, row[0], row[2].effect, row[1])):
        at = [f"{row.spread:.1f}", f"{margin:g}", f"{row.effect:g}", f"{least:g}"]
        numbers = [share(row.wrong), "" if math.isnan(row.found) else share(row.found), share(row.neutral)]
        rest = [f"{row.seeds:.2f}", share(row.runs), share(row.same)]
        shown.add_row(*at, *numbers, *rest, end_section=least == LEAST[-1])
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description="What giving up arms saves and loses.")
    parser.add_argument("--sweeps", type=int, default=2000)
    found = run(parser.parse_args().sweeps)
    Console(width=110).print(table(found))
    missed = list(misses(found))
    print(*(missed or ["giving up adds no false alarm"]), sep="\n")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
