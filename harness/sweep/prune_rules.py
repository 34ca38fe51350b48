"""Whether a run falls behind: Optuna's own pruners, asked about curves that were read from run folders.

Each question makes a small study in memory and asks once; nothing is kept between two, so that the same curves get the
same answer whoever asks, however often. An answer is a reason, or '' to go on. Curves hold evaluations from the first
that may be compared on, finite values only. Leaves out: where curves come from, and who is compared with whom
(`pruning.py`).
"""

import copy
import statistics
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from harness.sweep.prune import Prune

if TYPE_CHECKING:
    import optuna

Curve = Mapping[int, float]  # step -> value
Pairs = Mapping[tuple[int, int], float]  # (seed, step) -> value
Goal = Literal["max", "min"]

FEWEST = 2  # pairs for a signed-rank test, and in Optuna's
SHARED = 0.5  # of a cell's pairs that the one it is compared with must have too


def median(mine: Curve, finished: Sequence[Curve], knobs: Prune, goal: Goal) -> str:
    """MedianPruner: best value so far behind the median of the finished runs at my last evaluation.

    Goes on where fewer than `least` of them were evaluated at that step.
    """
    from optuna.pruners import MedianPruner

    if not mine:
        return ""
    pruner = MedianPruner(knobs.least, n_warmup_steps=knobs.after, n_min_trials=knobs.least)
    study = _study(pruner, goal)
    for curve in filter(None, finished):
        _add(study, curve, "COMPLETE")
    if not pruner.prune(study, _add(study, mine, "RUNNING")):
        return ""
    step, best = max(mine), max(mine.values()) if goal == "max" else min(mine.values())
    there = [curve[step] for curve in finished if step in curve]
    middle = statistics.median(there)
    return f"best {best:.4g} up to step {step}, median of {len(there)} finished runs there {middle:.4g}"


def halving(mine: Curve, others: Sequence[Curve], knobs: Prune, goal: Goal) -> str:
    """SuccessiveHalvingPruner: at a rung, not among the best 1/factor of all that have come there, whatever became of
    them. A rung is the first evaluation at or after step after·factor^r, and is asked about while it is my last.

    Goes on where fewer than `least` others have come there. Optuna promotes the first of a rung unseen; asked again
    when others have come, it is measured against them.
    """
    from optuna.pruners import SuccessiveHalvingPruner

    last, rungs = max(mine, default=-1), _rungs(mine, knobs)
    at = len(rungs) - 1
    there = [reached[at][1] for curve in others if len(reached := _rungs(curve, knobs)) > at] if rungs else []
    if not rungs or rungs[-1][0] < last or len(there) < knobs.least:
        return ""
    pruner = SuccessiveHalvingPruner(min_resource=knobs.after, reduction_factor=knobs.factor)
    study = _study(pruner, goal)
    for curve in others:
        number = _add(study, {}, "RUNNING").number
        for rung in _rungs(curve, knobs):
            pruner.prune(study, _at(study, number, dict([rung])))  # notes the value for the rung
    number = _add(study, mine, "RUNNING").number
    for rung in [rung for rung in rungs if rung[0] < last]:
        pruner.prune(study, _at(study, number, dict([rung])))
    if not pruner.prune(study, _at(study, number, mine)):
        return ""
    of = len(there) + 1
    return f"{mine[last]:.4g} at step {last}, not among the best {max(1, of // knobs.factor)} of {of} runs there"


def wilcoxon(mine: Pairs, others: Mapping[str, Pairs], knobs: Prune, goal: Goal) -> str:
    """WilcoxonPruner: my cell is behind the best one in a one-sided signed-rank test at `p`, on the pairs both have.

    Its step id stands for one instance that is scored for both: here a pair of seed and step, since runs of one seed
    share prompts and noise. The best is the cell that is ahead of mine by most, on average over shared pairs; those
    that share less than half of mine are not asked. Steps of one run depend on each other and the best is chosen, so
    that the p of the test is smaller than it should be.
    """
    from optuna.pruners import WilcoxonPruner

    sign = 1 if goal == "max" else -1
    ahead = {
        name: sign * statistics.fmean(theirs[pair] - mine[pair] for pair in shared)
        for name, theirs in others.items()
        if len(shared := mine.keys() & theirs.keys()) >= max(FEWEST, SHARED * len(mine))
    }
    if not ahead:
        return ""
    best = max(ahead, key=lambda name: ahead[name])
    ids = dict(enumerate(sorted(mine.keys() & others[best].keys())))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls this pruner experimental
        pruner = WilcoxonPruner(p_threshold=knobs.p, n_startup_steps=FEWEST)
    study = _study(pruner, goal)
    _add(study, {id: others[best][pair] for id, pair in ids.items()}, "COMPLETE")
    if not pruner.prune(study, _add(study, {id: mine[pair] for id, pair in ids.items()}, "RUNNING")):
        return ""
    return f"{ahead[best]:.4g} behind {best} on average over {len(ids)} pairs of seed and step, p < {knobs.p:g}"


def _rungs(curve: Curve, knobs: Prune) -> list[tuple[int, float]]:
    """(step, value) of the first evaluation at or after each of the steps after·factor^r that the curve has come to."""
    found, wanted, steps = [], knobs.after, sorted(curve)
    while steps and wanted <= steps[-1]:
        step = next(step for step in steps if step >= wanted)
        found.append((step, curve[step]))
        wanted *= knobs.factor
    return found


def _study(pruner: Any, goal: Goal) -> "optuna.Study":
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it tells of every study
    return optuna.create_study(direction="maximize" if goal == "max" else "minimize", pruner=pruner)


def _add(study: "optuna.Study", curve: Curve, state: Literal["COMPLETE", "RUNNING"]) -> "optuna.trial.FrozenTrial":
    from optuna.trial import TrialState, create_trial

    value = statistics.fmean(curve.values()) if state == "COMPLETE" else None
    study.add_trial(create_trial(state=TrialState[state], value=value, intermediate_values=dict(curve)))
    return study.get_trials(deepcopy=False)[-1]


def _at(study: "optuna.Study", number: int, curve: Curve) -> "optuna.trial.FrozenTrial":
    """The trial as the study knows it by now, with these evaluations."""
    trial = copy.copy(study.get_trials(deepcopy=False)[number])
    trial.intermediate_values = dict(curve)
    return trial
