"""What of a sweep with `stop` is undecided after a round, and the cells that are to get more seeds for it.

    contrasts   every arm against its baseline on the spec's endpoint, one family per axis; undecided is what is neither
                trick, trap nor neutral; asking are both of its cells
    claims      of the spec, those whose word is undecided; asking are the cells of the findings that may decide it

By the intervals of `sequential.py`. What has too small a chance of being decided (`futility.py`, `claims_futility.py`)
is given up and asks for nothing; it is looked at anew in every round, since others may be decided in the meantime.
Controls are checks and ask for no seeds, nor do arms of which no run survived next to its baseline, nor pruned ones.
Leaves out: rounds (`harness/sweep/rounds.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis import claims, claims_futility, futility, load, scores, verdict
from analysis.load import Entry, Sweep


@dataclass(frozen=True)
class Undecided:
    contrasts: int
    undecided: int  # of the contrasts
    given_up: int  # of the undecided
    claims: int  # that the sweep tests
    open_claims: int  # of these, undecided ones
    cells: dict[str, int]  # that are to get more seeds: those that their comparisons have, the most advanced one's


def judge(root: Path, name: str, manifest: dict[str, Any]) -> Callable[[set[str]], Undecided]:
    """Reads the runs of a manifest once; what is returned judges any of them, given by id, as if there were no others.

    Raises FileNotFoundError where a run of the manifest is not there.
    """
    end = manifest["endpoint"]
    sweep = load.load(root, name, {end["metric"]} | claims.metrics(manifest["claims"]), manifest)
    cell_of = {run["run"]: run["cell"] for run in manifest["runs"]}
    numbers, tested = scores.both(sweep, end["metric"], "last"), claims.numbers_of(sweep)

    def judged(runs: set[str]) -> Undecided:
        part = replace(
            sweep,
            runs=[entry for entry in sweep.runs if entry.run in runs],
            aliases=tuple(entry for entry in sweep.aliases if entry.run in runs),
        )
        every = list(_contrasts(part, numbers))
        found = [(side, c) for side, c in every if c.word in verdict.OPEN and c.effect is not None]
        testable = [(claim, drafts) for claim, drafts in claims.judged(part, tested) if claim.findings]
        opened = [(claim, drafts) for claim, drafts in testable if claim.word == "undecided"]
        asking = [[side.ours, side.theirs] for side, c in found if not c.given_up]
        asking += [sides for claim, drafts in opened for sides in _asking(part, claim, drafts)]
        cells: dict[str, int] = {}
        for sides in asking:
            for cell in {cell_of[entry.run] for side in sides for entry in side}:
                cells[cell] = max(cells.get(cell, 0), futility.planned(*sides))
        return Undecided(
            contrasts=len(every),
            undecided=len(found),
            given_up=sum(c.given_up for _, c in found),
            claims=len(testable),
            open_claims=len(opened),
            cells=cells,
        )

    return judged


def _contrasts(part: Sweep, numbers: scores.Both) -> Iterator[tuple[scores.Side, verdict.Contrast]]:
    """The headline of each axis that is no control."""
    end = part.manifest["endpoint"]
    measure = verdict.Measure(end["metric"], "last", end["margin"], 1.0 if end["goal"] == "max" else -1.0)
    law = futility.law(part, numbers)
    for axis in part.baseline:
        if axis not in part.controls:
            sides = scores.sides(part, axis)
            yield from zip(sides, verdict.contrasts(part, axis, measure, numbers, law=law), strict=True)


def _asking(part: Sweep, claim: claims.Claim, drafts: list[claims.Draft]) -> list[list[list[Entry]]]:
    """The sides of the findings by which an undecided claim may still be decided."""
    if claim.given_up:
        return []
    least = futility.least(part.manifest.get("stop"))
    return [drafts[place].sides for place in claims_futility.asking(claim.findings, least)]
