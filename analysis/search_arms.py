"""What a search found for each arm: how its trials ended, the chosen setting, and what that is worth on fresh seeds.

The value that a setting was chosen for is the best of many noisy ones, so that luck is part of it; only the fresh
seeds say what it is worth. Leaves out: the verdict (`verdict.py`), which is of fresh seeds alone, and text.
"""

import math
from collections import Counter
from dataclasses import dataclass

from analysis import scores, search, search_axes
from analysis.load import Sweep
from analysis.search import Study, Trial
from analysis.search_axes import Importance

TOP = 3  # trials that a report names


@dataclass(frozen=True)
class Arm:
    """Values as recorded; `ended` has the states that occur, in the order of `search.STATES`."""

    labels: dict[str, str]
    planned: int  # trials
    exhausted: bool  # fewer than the spec's, since no untried setting is left
    ended: dict[str, int]
    imported: int
    chosen: Trial | None
    best: list[Trial]  # the TOP trials with a value, best first
    fresh: float  # mean over the fresh seeds that are done; NaN before the first
    fresh_seeds: int
    importances: list[Importance]

    @property
    def tried(self) -> int:
        """Trials that have ended, however."""
        return sum(number for state, number in self.ended.items() if state != "running")


def read(sweep: Sweep) -> list[Arm]:
    """An arm for each of the sweep's studies; none without a search. The sweep must hold the endpoint's metric."""
    if not sweep.manifest.get("search"):
        return []
    end, asked = sweep.manifest["endpoint"], sweep.manifest["search"]
    known = scores.run_scores(sweep, end["metric"], scores.reader(sweep, "last"))
    studies = search.studies(sweep.folder.parents[1], sweep.name, sweep.manifest)
    ended = [bool(study.get("exhausted")) for study in asked["studies"]]
    return [_arm(sweep, study, exhausted, end["goal"], known) for study, exhausted in zip(studies, ended, strict=True)]


def _arm(sweep: Sweep, study: Study, exhausted: bool, goal: str, known: dict[str, float]) -> Arm:
    states = Counter(trial.state for trial in study.trials)
    valued = [trial for trial in study.trials if trial.value is not None]
    entries = sweep.having(study.labels) if study.chosen is not None else []
    fresh = [known[entry.run] for entry in entries if not math.isnan(known.get(entry.run, math.nan))]
    return Arm(
        labels=study.labels,
        planned=len(study.trials) if exhausted else max(sweep.manifest["search"]["trials"], len(study.trials)),
        exhausted=exhausted,
        ended={state: states[state] for state in search.STATES if states[state]},
        imported=sum(trial.imported for trial in study.trials),
        chosen=next((trial for trial in study.trials if trial.number == study.chosen), None),
        best=sorted(valued, key=lambda trial: (search.signed(trial, goal), trial.number))[:TOP],
        fresh=math.fsum(fresh) / len(fresh) if fresh else math.nan,
        fresh_seeds=len(fresh),
        importances=search_axes.importances(study, search.axes(sweep.manifest), goal),
    )
