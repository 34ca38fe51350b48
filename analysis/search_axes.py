"""How much each searched axis mattered to a study: Optuna's fANOVA and PED-ANOVA, on the trials that have a value.

    fANOVA      the share of the variance of a random forest's prediction that is the axis' own, over its whole range
                (Hutter, Hoos, Leyton-Brown 2014)
    PED-ANOVA   how far the settings of the best trials (a tenth of all, five at least) lie from all trials' along the
                axis (Watanabe, Bansal, Hutter 2023)

Each sums to 1 over the axes that the same trials have. An axis under a condition is judged on the trials that have it,
beside the axes that all of these have. Leaves out: effects of two axes together, trials without a value.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.search import Study, Trial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

FEWEST = 8  # trials with a value, below which nothing is said
BEST = 0.1  # the share of the trials that PED-ANOVA compares with all, as its authors have it,
FEWEST_BEST = 5  # where that makes as many, below which they call it unstable


@dataclass(frozen=True)
class Importance:
    """Both are NaN where `trials` are fewer than FEWEST, or all of one value."""

    axis: str
    fanova: float
    ped_anova: float
    trials: int  # those that have the axis and a value


def importances(study: Study, over: Mapping[str, Mapping[str, Any]], goal: str) -> list[Importance]:
    """One for each of `search.axes`, in their order; none where only one axis was searched."""
    if len(over) < 2:
        return []
    valued = [trial for trial in study.trials if trial.value is not None]
    known: dict[tuple[int, ...], dict[str, tuple[float, float]]] = {}
    found = []
    for axis in over:
        having = [trial for trial in valued if axis in trial.params]
        shared = {name: kind for name, kind in over.items() if all(name in trial.params for trial in having)}
        key = tuple(trial.number for trial in having)
        if len(having) < FEWEST or len({trial.value for trial in having}) == 1:
            known[key] = {}
        elif key not in known:
            known[key] = _evaluated(having, shared, goal)
        found.append(Importance(axis, *known[key].get(axis, (math.nan, math.nan)), len(having)))
    return found


def _evaluated(trials: list[Trial], over: Mapping[str, Mapping[str, Any]], goal: str) -> dict[str, tuple[float, float]]:
    """axis -> (fANOVA, PED-ANOVA), of trials that all have every axis of `over`."""
    import optuna
    from optuna import importance

    kinds = {axis: _distribution(kind) for axis, kind in over.items()}
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # a study is made for every arm, and would be announced
    try:
        study = optuna.create_study(direction="minimize" if goal == "min" else "maximize")
        for trial in trials:
            params = {axis: _number(trial.params[axis], kind) for axis, kind in over.items()}
            study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=trial.value))
        share = max(BEST, (FEWEST_BEST - 1e-9) / len(trials))
        evaluators = (
            importance.FanovaImportanceEvaluator(seed=0),
            importance.PedAnovaImportanceEvaluator(target_quantile=share),
        )
        first, second = (importance.get_param_importances(study, evaluator=e, params=list(over)) for e in evaluators)
    finally:
        optuna.logging.set_verbosity(level)
    return {axis: (float(first[axis]), float(second[axis])) for axis in over}


def _distribution(kind: Mapping[str, Any]) -> "BaseDistribution":
    """Of the axis as `_number` gives it. Steps are left out: they change no share of variance."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if "levels" in kind:
        return CategoricalDistribution([str(level) for level in kind["levels"]])
    return FloatDistribution(_number(kind["low"], kind), _number(kind["high"], kind))


def _number(value: Any, kind: Mapping[str, Any]) -> Any:
    """A level's name, or a number; its logarithm where the axis was searched evenly in that, which fANOVA ignores."""
    if "levels" in kind:
        return str(value)
    return math.log10(value) if kind["log"] else float(value)
