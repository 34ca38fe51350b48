"""The trials of a search as the manifest keeps them, which is where they are: a trial that is not in it was never made.

    {"sampler": "tpe", "trials": 16, …, "over": {"lr": {"key": "train.lr", "low": 1e-4, …}},
     "studies": [{"labels": {"advantage": "group_z"}, "chosen": 7, "trials": [{"number": 0, "params": {…}, …}, …]}, …]}

A study is the search of one combination of the axes in `within`. Leaves out: how trials are chosen (`studies.py`), how
they ended (`analysis/search.py` reads it off their runs).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.sweep.axes import Axis, Level
from harness.sweep.search_spec import Search

if TYPE_CHECKING:
    from harness.sweep.spec import Spec


@dataclass(frozen=True)
class Trial:
    """`params`: the number or label of each searched axis that is there; `seeds`: of its runs."""

    params: dict[str, Any]
    cell: str
    seeds: tuple[int, ...]
    imported: bool = False  # of another sweep, which trained it


@dataclass(frozen=True)
class Study:
    """`chosen`: the place of the best trial, once the study is complete. `exhausted`: no untried setting is left."""

    labels: dict[str, str]
    trials: tuple[Trial, ...] = ()
    chosen: int | None = None
    exhausted: bool = False

    def missing(self, search: Search) -> int:
        return 0 if self.exhausted else max(0, search.trials - len(self.trials))


@dataclass(frozen=True)
class Searched:
    """How far a search has come. `held_back`: settings whose finished runs have no seed but the verdict's."""

    studies: tuple[Study, ...]
    held_back: int = 0

    def progress(self, search: Search) -> str:
        """Such as "8 of 16 trials made, 4 of them taken over; 0 of 2 settings chosen"."""
        made = [trial for study in self.studies for trial in study.trials]
        taken, number = sum(trial.imported for trial in made), len(self.studies)
        chosen = sum(study.chosen is not None for study in self.studies)
        of = f"{len(made)} of {number * search.trials} trials made"
        return f"{of}{f', {taken} of them taken over' if taken else ''}; {chosen} of {number} settings chosen"

    def said(self, search: Search, fresh: tuple[int, ...]) -> list[str]:
        """What the plan says of it."""
        number, on = len(self.studies), f"seed{'s' if len(search.seeds) > 1 else ''} "
        on += ", ".join(map(str, search.seeds))
        each = f"{search.trials} trials" + (f" in each of {number} arms" if number > 1 else "")
        lines = [
            f"search: {search.sampler}, {each}, {search.at_once} at once, on {on}; the "
            f"best of each then on {len(fresh)} fresh seed{'s' if len(fresh) > 1 else ''}",
            self.progress(search),
        ]
        if self.held_back:
            lines.append(
                f"{self.held_back} settings of this space have been run elsewhere, but on the verdict's seeds, so that "
                f"they must choose nothing; seeds: {{n: {len(fresh)}, start: {max(fresh) + 1}}} would let them count"
            )
        return lines


def described(spec: "Spec", searched: Searched | None) -> dict[str, Any]:
    """For the manifest: {} or {"search": …}."""
    search = spec.design.search
    if search is None or searched is None:
        return {}
    over = {axis.name: _space(axis) for axis in spec.axes if axis.name not in spec.design.within}
    told = {
        "sampler": search.sampler,
        "trials": search.trials,
        "at_once": search.at_once,
        "seeds": list(search.seeds),
        "seed": search.seed,
        "within": list(spec.design.within),
        "over": over,
        "held_back": searched.held_back,
        "studies": [_study(study) for study in searched.studies],
    }
    return {"search": told}


def _space(axis: Axis) -> dict[str, Any]:
    if span := axis.span:
        return {"key": axis.key, "low": span.low, "high": span.high, "log": span.log, "step": span.step}
    return {"key": axis.key, "levels": [level.label for level in axis.levels]}


def _study(study: Study) -> dict[str, Any]:
    trials = [
        {
            "number": number,
            "params": trial.params,
            "cell": trial.cell,
            "runs": [f"{trial.cell}-s{seed}" for seed in trial.seeds],
            "seeds": list(trial.seeds),
            "imported": trial.imported,
        }
        for number, trial in enumerate(study.trials)
    ]
    return {"labels": study.labels, "chosen": study.chosen, "exhausted": study.exhausted, "trials": trials}


def read(manifest: Mapping[str, Any], labels: Mapping[str, str]) -> Study:
    """The study of these labels as a manifest has it; an empty one where it has none."""
    for told in manifest.get("search", {}).get("studies", []):
        if told["labels"] == labels:
            trials = [Trial(t["params"], t["cell"], tuple(t["seeds"]), t["imported"]) for t in told["trials"]]
            return Study(told["labels"], tuple(trials), told["chosen"], told["exhausted"])
    return Study(dict(labels))


def level(axis: Axis, value: Any) -> Level | None:
    """The level of a trial's value; None where the axis does not have it (any more)."""
    if axis.span:
        return axis.at(value) if axis.span.holds(value) else None
    return next((level for level in axis.levels if level.label == value), None)


def value(axis: Axis, of: Level) -> Any:
    """What a trial's `params` say of a level."""
    return of.value if axis.span else of.label


def without(study: Study, lost: set[int]) -> Study:
    """The study without some of its trials, and so perhaps without an end."""
    if not lost:
        return study
    kept = [number for number in range(len(study.trials)) if number not in lost]
    chosen = kept.index(study.chosen) if study.chosen in kept else None
    return replace(study, trials=tuple(study.trials[i] for i in kept), chosen=chosen, exhausted=False)
