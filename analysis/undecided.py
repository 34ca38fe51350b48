"""Which contrasts of a sweep with `stop` are undecided after a round, and the cells that are to get more seeds.

Judged is the headline: every arm against its baseline on the spec's endpoint, one family per axis, by the intervals of
`sequential.py`. Undecided is what is neither trick, trap nor neutral. Controls are checks and ask for no seeds, nor do
arms of which no run survived next to its baseline. Leaves out: rounds (`harness/sweep/rounds.py`), claims: they are
judged on the seeds that the arms have.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis import load, scores, verdict

OPEN = ("inconclusive", "description only")


@dataclass(frozen=True)
class Undecided:
    contrasts: int
    undecided: int
    cells: set[str]


def judge(root: Path, name: str, manifest: dict[str, Any]) -> Callable[[set[str]], Undecided]:
    """Reads the runs of a manifest once; what is returned judges any of them, given by id, as if there were no others.

    Raises FileNotFoundError where a run of the manifest is not there.
    """
    end = manifest["endpoint"]
    sweep = load.load(root, name, {end["metric"]}, manifest)
    cell_of = {run["run"]: run["cell"] for run in manifest["runs"]}
    measure = verdict.Measure(end["metric"], "last", end["margin"], 1.0 if end["goal"] == "max" else -1.0)
    numbers = scores.both(sweep, measure.metric, measure.read)

    def judged(runs: set[str]) -> Undecided:
        part = replace(
            sweep,
            runs=[entry for entry in sweep.runs if entry.run in runs],
            aliases=tuple(entry for entry in sweep.aliases if entry.run in runs),
        )
        contrasts, undecided, cells = 0, 0, set[str]()
        for axis in [axis for axis in part.baseline if axis not in part.controls]:
            sides = scores.sides(part, axis)
            for side, contrast in zip(sides, verdict.contrasts(part, axis, measure, numbers), strict=True):
                contrasts += 1
                if contrast.word in OPEN and contrast.effect is not None:
                    undecided += 1
                    cells |= {cell_of[entry.run] for entry in (*side.ours, *side.theirs)}
        return Undecided(contrasts, undecided, cells)

    return judged
