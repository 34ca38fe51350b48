"""The rounds of a search: trials made from the results of those before them, then fresh seeds of what was best.

    no trial yet        finished runs of other sweeps that are of this space become the first trials
    a round has ended   each arm gets `at_once` trials more, up to `trials`; which, says `studies.py`
    an arm is complete  its best setting is chosen and run on the spec's seeds; the verdict is of these runs alone

What has been made stands in the manifest, and is written under a claim before any of it runs: a search killed anywhere
goes on with the same trials, two controllers make no trial twice, and `trials` is what there will be in all. A trial
whose setting is no longer in the spec's space is dropped; its runs stay where they are. Leaves out: how a trial ended
(`analysis/search.py`), training.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from harness import store
from harness.store import claims
from harness.sweep import reuse, trials
from harness.sweep.axes import Axis, Level
from harness.sweep.expand import Expander, Pick
from harness.sweep.grid import Cell, Expansion
from harness.sweep.search_spec import Search
from harness.sweep.trials import Searched, Study, Trial

if TYPE_CHECKING:
    from analysis.search import Study as Result
    from harness.sweep.plan import Plan

CLAIM = "search.claim"


def settled(expansion: Expansion, root: Path, name: str) -> Expansion:
    """The expansion with the trials that the manifest has, and the chosen settings; unchanged for other designs."""
    if expansion.spec.design.search is None:
        return expansion
    manifest = store.read_json(root / "sweeps" / name / "manifest.json")
    space = _Space(expansion)
    studies = [space.known(trials.read(manifest, labels)) for labels in space.arms]
    return space.filled(Searched(tuple(studies), manifest.get("search", {}).get("held_back", 0)))


def commit(plan: "Plan") -> "Plan":
    """The plan with the trials of its next round, if the last one has ended; committed. As `plan.commit`, otherwise."""
    from harness.sweep import plan as plans

    spec = plan.expansion.spec
    if spec.design.search is None:
        plans.commit(plan)
        return plan
    plans.check(plan)
    with _alone(plan.folder):
        plan = plans.of(spec, plan.root, plan.name)  # as it is now that nobody else changes it
        space = _Space(plan.expansion)
        plan = plans.with_expansion(plan, space.filled(_advanced(plan, space, spec.design.search)))
        plans.commit(plan)
    return plan


def _advanced(plan: "Plan", space: "_Space", search: Search) -> Searched:
    """What the manifest is to hold next; as it is where a round is not over, or nothing has worked yet."""
    searched = plan.expansion.search
    assert searched
    if search.reuse and not all(study.trials for study in searched.studies):
        searched = _with_reused(plan, space, searched, search)
    results = _results(plan, space, searched)
    states = {trial.state for result in results for trial in result.trials}
    if "running" in states or states == {"failed"}:  # what fails always is no matter of the setting
        return searched
    pairs = zip(searched.studies, results, strict=True)
    return replace(searched, studies=tuple(_next(plan, space, study, result, search) for study, result in pairs))


def _next(plan: "Plan", space: "_Space", study: Study, result: "Result", search: Search) -> Study:
    """A study with its next trials, or with its choice."""
    from analysis.search import best
    from harness.sweep import studies

    spec = plan.expansion.spec
    place = studies.Place(plan.folder, _name(plan.name, study.labels), tuple(space.searched), spec.endpoint.goal)
    if number := min(study.missing(search), search.at_once):
        new = studies.ask(place, search, result.trials, number, partial(space.cell, study.labels))
        made = tuple(Trial(params, cell.id, search.seeds) for params, cell in new)
        study = replace(study, trials=study.trials + made, chosen=None, exhausted=len(new) < number)
        if made:
            return study
    studies.tell(place, search, result.trials)
    found = best(result, spec.endpoint.goal)
    return replace(study, chosen=found.number if found else None)


def _results(plan: "Plan", space: "_Space", searched: Searched) -> "list[Result]":
    """How the trials of every study ended."""
    from analysis.search import studies
    from harness.sweep import plan as plans

    now = plans.with_expansion(plan, space.filled(searched))
    return studies(plan.root, plan.name, plans.manifest(now))


def _with_reused(plan: "Plan", space: "_Space", searched: Searched, search: Search) -> Searched:
    """Studies that have nothing yet begin with what other sweeps have finished, `trials` of it at most."""
    there, studies, held_back = reuse.finished(plan.root), [], 0
    for study in searched.studies:
        if not study.trials:
            make = partial(space.cell, study.labels)
            found, more = reuse.matching(there, space.searched, plan.expansion.seeds, make)
            study, held_back = replace(study, trials=tuple(found[: search.trials])), held_back + more
        studies.append(study)
    return replace(searched, studies=tuple(studies), held_back=held_back)


class _Space:
    """The arms and the searched axes of a spec, and the cells of their settings."""

    def __init__(self, expansion: Expansion) -> None:
        self.expansion, self.spec = expansion, expansion.spec
        self.within = [axis for axis in self.spec.axes if axis.name in self.spec.design.within]
        self.searched = [axis for axis in self.spec.axes if axis.name not in self.spec.design.within]
        self.expander = Expander(self.spec)
        combinations = product(*(axis.levels for axis in self.within))
        every = [{a.name: lv.label for a, lv in zip(self.within, levels, strict=True)} for levels in combinations]
        self.arms = [arm for arm in every if any(arm.items() <= probe.labels.items() for probe in expansion.probes)]

    def cell(self, labels: dict[str, str], pick: Pick) -> Cell | None:
        """The cell of an arm and of what is picked for the searched axes; None where there is none."""

        def level(axis: Axis) -> Level:
            at = labels.get(axis.name)
            return pick(axis) if at is None else next(level for level in axis.levels if level.label == at)

        return self.expander.cell(level)

    def cell_of(self, study: Study, trial: Trial) -> Cell | None:
        """The cell of a trial; None where the space does not have it any more, or it would be another."""
        found = {axis.name: trials.level(axis, trial.params.get(axis.name)) for axis in self.searched}
        levels = {name: level for name, level in found.items() if level}
        if any(name not in levels for name in trial.params):
            return None
        try:
            cell = self.cell(study.labels, lambda axis: levels[axis.name])
        except KeyError:  # an axis that was not there when it was made
            return None
        return cell if cell and cell.id == trial.cell else None

    def known(self, study: Study) -> Study:
        """Without the trials that the space has lost; on the seeds that trials have now."""
        search = self.spec.design.search
        assert search
        fresh = set(self.spec.seeds)
        kept = [
            replace(trial, seeds=tuple(s for s in trial.seeds if s not in fresh) if trial.imported else search.seeds)
            for trial in study.trials
        ]
        lost = {i for i, trial in enumerate(kept) if not trial.seeds or self.cell_of(study, trial) is None}
        study = trials.without(replace(study, trials=tuple(kept)), lost)
        return replace(study, chosen=None) if study.missing(search) else study

    def filled(self, searched: Searched) -> Expansion:
        """The expansion whose cells are the trials and the chosen settings."""
        cells: list[Cell] = []
        fresh: list[Cell] = []
        twins: list[tuple[str, dict[str, str]]] = []
        for study in searched.studies:
            for place, trial in enumerate(study.trials):
                cell = self.cell_of(study, trial)
                assert cell
                cells.append(replace(cell, trial=trial.seeds))
                if place == study.chosen and cell.id in {other.id for other in fresh}:
                    twins.append((cell.id, study.labels))
                elif place == study.chosen:
                    fresh.append(replace(cell, labels=study.labels))
        unique = {(cell.id, cell.trial): cell for cell in cells}.values()
        return replace(
            self.expansion, cells=(*unique, *fresh), excluded=0, merged=0, aliases=tuple(twins), search=searched
        )


def _name(sweep: str, labels: dict[str, str]) -> str:
    return " ".join([sweep, *(f"{axis}={label}" for axis, label in labels.items())])


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One controller makes trials at a time; one that was killed is in nobody's way."""
    while (taken := claims.take(folder / CLAIM)) is None:
        time.sleep(0.1)
    try:
        yield
    finally:
        claims.release(folder / CLAIM, taken[0])
