"""Which settings a search tries next, asked of Optuna. A study of Optuna's for each study of ours, in one storage.

What the manifest holds is the truth and the storage follows it: trials that it lacks are added, results are told, and
a question whose answer never reached the manifest (a kill came between) is told as failed, and asked again. Random
numbers are derived from the search's seed and the number of the trial, so that a search that was killed goes on as if
it had not been, and so that all arms begin with the same settings.

    done -> COMPLETE with its value    diverged, pruned -> PRUNED, worse than any value    failed -> FAIL, says nothing

Leaves out: rounds, and the choice of the best (`search.py`). Imports optuna, which `plan` never needs.
"""

import hashlib
import itertools
import json
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from harness.sweep import trials
from harness.sweep.axes import Axis, Level
from harness.sweep.expand import Make
from harness.sweep.grid import Cell
from harness.sweep.search_spec import Search, ordered

if TYPE_CHECKING:
    from analysis.search import Trial

TRIES = 30  # proposals that are known or impossible before the rest of the space is looked through
LISTED = 20_000  # settings of a space that is looked through
STALE_LOCK = 5  # seconds; the storage is held for milliseconds
FOUND = {"done": TrialState.COMPLETE, "diverged": TrialState.PRUNED, "pruned": TrialState.PRUNED}

optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class Place:
    """Where a study is kept: the folder of its sweep, its name there, and the axes that are searched."""

    folder: Path
    name: str
    axes: tuple[Axis, ...]
    goal: str  # max or min

    def open(self, search: Search) -> optuna.Study:
        space = {axis.name: optuna.distributions.distribution_to_json(distribution(axis)) for axis in self.axes}
        digest = hashlib.sha256(json.dumps([space, self.goal]).encode()).hexdigest()[:8]
        storage: Any = search.storage
        if storage is None:
            file = self.folder / "search.log"
            _drop_torn_line(file)
            lock = JournalFileOpenLock(str(file), grace_period=STALE_LOCK)
            storage = optuna.storages.JournalStorage(JournalFileBackend(str(file), lock_obj=lock))
        direction = StudyDirection.MAXIMIZE if self.goal == "max" else StudyDirection.MINIMIZE
        name = f"{self.name} ({digest})"
        return optuna.create_study(storage=storage, study_name=name, direction=direction, load_if_exists=True)


def ask(
    place: Place, search: Search, told: Sequence["Trial"], number: int, make: Make
) -> list[tuple[dict[str, Any], Cell]]:
    """`number` settings that are not among `told`, with their cells; fewer where the space has no more.

    `told`: the study's trials and how they ended.
    """
    study = place.open(search)
    _follow(study, place.axes, told)
    taken, found = {one.cell for one in told}, []
    for count in range(len(told), len(told) + number):
        new = _proposed(study, search, count, taken, make) or _untried(study, place.axes, search, taken, make)
        if new is None:
            break
        taken.add(new[1].id)
        found.append(new)
    return found


def tell(place: Place, search: Search, told: Sequence["Trial"]) -> None:
    """The storage follows what is known, where nothing more is asked."""
    _follow(place.open(search), place.axes, told)


def distribution(axis: Axis) -> BaseDistribution:
    """Levels that are numbers in order are places on a line, others are names."""
    if span := axis.span:
        if span.whole:
            return IntDistribution(int(span.low), int(span.high), log=span.log, step=int(span.step or 1))
        return FloatDistribution(span.low, span.high, log=span.log, step=span.step)
    if ordered(axis):
        return IntDistribution(0, len(axis.levels) - 1)
    return CategoricalDistribution([level.label for level in axis.levels])


def _proposed(
    study: optuna.Study, search: Search, number: int, taken: set[str], make: Make
) -> tuple[dict[str, Any], Cell] | None:
    """None where the sampler comes up with nothing new."""
    for attempt in range(TRIES):
        study.sampler = _sampler(search, number, attempt)
        if new := _asked(study, taken, make):
            return new
    return None


def _untried(
    study: optuna.Study, axes: Sequence[Axis], search: Search, taken: set[str], make: Make
) -> tuple[dict[str, Any], Cell] | None:
    """A setting that nobody has tried, by lot, of a space small enough to look through; None where there is none."""
    study.sampler = optuna.samplers.RandomSampler(seed=search.seed)
    for params in _all(axes, search.seed):
        if _is_new(make, params, taken):
            study.enqueue_trial({axis.name: _stored(axis, params[axis.name]) for axis in axes})
            return _asked(study, taken, make)
    return None


def _is_new(make: Make, params: dict[str, Any], taken: set[str]) -> bool:
    def pick(axis: Axis) -> Level:
        level = trials.level(axis, params[axis.name])
        assert level
        return level

    cell = make(pick)
    return cell is not None and cell.id not in taken


def _asked(study: optuna.Study, taken: set[str], make: Make) -> tuple[dict[str, Any], Cell] | None:
    """One question; told as failed at once where its answer is known, excluded or impossible."""
    trial, params = study.ask(), dict[str, Any]()

    def pick(axis: Axis) -> Level:
        level = _level(axis, _suggested(trial, axis))
        params[axis.name] = trials.value(axis, level)
        return level

    cell = make(pick)
    if cell is None or cell.id in taken:
        study.tell(trial, state=TrialState.FAIL)
        return None
    trial.set_user_attr("cell", cell.id)
    return params, cell


def _follow(study: optuna.Study, axes: Sequence[Axis], told: Sequence["Trial"]) -> None:
    """Every trial that is told is in the storage with its result, and no other is open there."""
    by_name, cells, known = {axis.name: axis for axis in axes}, {one.cell for one in told}, defaultdict(list)
    for trial in study.get_trials(deepcopy=False):
        cell = trial.user_attrs.get("cell")
        if cell in cells:
            known[cell].append(trial)
        elif not trial.state.is_finished():
            _close(study, trial)
    for one in told:
        state, there = _state(one), known[one.cell]
        value = one.value if state == TrialState.COMPLETE else None
        waiting = next((trial for trial in there if trial.state == TrialState.RUNNING), None)
        if waiting and state != TrialState.RUNNING:
            study.tell(waiting.number, value, state=state)
        elif not there or state not in {trial.state for trial in there}:  # of another sweep, or tried once more
            params = {name: _stored(by_name[name], value) for name, value in one.params.items()}
            study.add_trial(
                optuna.trial.create_trial(
                    state=state,
                    value=value,
                    params=params,
                    distributions={name: distribution(by_name[name]) for name in params},
                    user_attrs={"cell": one.cell},
                )
            )


def _state(one: "Trial") -> TrialState:
    """A run whose curve has no endpoint is done and says nothing."""
    if one.state == "running":
        return TrialState.RUNNING
    return TrialState.FAIL if one.state == "done" and one.value is None else FOUND.get(one.state, TrialState.FAIL)


def _close(study: optuna.Study, trial: FrozenTrial) -> None:
    """A trial that nobody runs."""
    if trial.state == TrialState.WAITING:  # it has to be begun before it can be ended
        study.ask()
    study.tell(trial.number, state=TrialState.FAIL)


def _suggested(trial: optuna.Trial, axis: Axis) -> Any:
    match of := distribution(axis):
        case FloatDistribution():
            return trial.suggest_float(axis.name, of.low, of.high, step=of.step, log=of.log)
        case IntDistribution():
            return trial.suggest_int(axis.name, of.low, of.high, step=of.step, log=of.log)
        case CategoricalDistribution():
            return trial.suggest_categorical(axis.name, of.choices)
    raise AssertionError(of)


def _level(axis: Axis, stored: Any) -> Level:
    if axis.span:
        return axis.at(stored)
    return axis.levels[stored] if ordered(axis) else next(lv for lv in axis.levels if lv.label == stored)


def _stored(axis: Axis, value: Any) -> Any:
    """A value of a trial's `params` in the words of `distribution`."""
    if axis.span or not ordered(axis):
        return value
    return [level.label for level in axis.levels].index(value)


def _all(axes: Sequence[Axis], seed: int) -> Iterator[dict[str, Any]]:
    """Every setting, in an order by lot; none of a space that has no end or is too large."""
    values: list[list[Any]] = []
    size = 1
    for axis in axes:
        number = axis.span.size if axis.span else len(axis.levels)
        size *= number or LISTED + 1
        if size > LISTED:
            return
        values.append(axis.span.numbers() if axis.span else [level.label for level in axis.levels])
    names = [axis.name for axis in axes]

    def lot(point: tuple[Any, ...]) -> str:
        return hashlib.sha256(json.dumps([seed, *point]).encode()).hexdigest()

    for point in sorted(itertools.product(*values), key=lot):
        yield dict(zip(names, point, strict=True))


def _sampler(search: Search, number: int, attempt: int) -> optuna.samplers.BaseSampler:
    digest = hashlib.sha256(f"{search.seed}/{number}/{attempt}".encode()).digest()
    seed = int.from_bytes(digest[:4], "big")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of the sequence, which is old enough
        match search.sampler:
            case "tpe":
                startup = max(4, min(10, search.trials // 3))
                return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
            case "cmaes":
                return optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
            case "qmc":
                return optuna.samplers.QMCSampler(
                    seed=search.seed, scramble=True, warn_independent_sampling=False, warn_asynchronous_seeding=False
                )
            case _:
                return optuna.samplers.RandomSampler(seed=seed)


def _drop_torn_line(file: Path) -> None:
    """A kill in the middle of a write leaves a part of a line, which the next one would be appended to."""
    if not file.exists():
        return
    data = file.read_bytes()
    if data and not data.endswith(b"\n"):
        with open(file, "r+b") as torn:
            torn.truncate(data.rfind(b"\n") + 1)
