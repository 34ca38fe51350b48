"""What is said of a search: how far it is, each arm's chosen setting, its best trials, and which axis mattered.

The terminal's lines, and tables that the Markdown and the HTML report share. Leaves out: numbers (`search_arms.py`),
the verdict on fresh seeds (`report.py`).
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from analysis import search, text
from analysis.load import Sweep
from analysis.search import STATES, Trial
from analysis.search_arms import TOP, Arm
from analysis.search_axes import FEWEST, Importance

FEW = 6  # arms up to which the terminal shows trials and axes
SAMPLERS = {"tpe": "TPE", "cmaes": "CMA-ES", "qmc": "a quasi-random sequence", "random": "chance"}
MATTERED = (
    "fANOVA: the share of a random forest's variance that is the axis' own. PED-ANOVA: how far the settings of the "
    "best trials (a tenth, five at least) lie from all trials'. Each sums to 1 over the axes that the same trials have."
)
TOO_FEW = f"Under {FEWEST} trials with a value nothing is said of which axis mattered."


class Table(NamedTuple):
    """The first cell of a row is its arm; `kinds` is that of `html_parts.table`."""

    title: str
    header: list[str]
    kinds: str
    rows: list[list[str]]


def progress(arms: list[Arm]) -> str:
    """Such as "24 of 48 trials, ", before what `Sweep.progress` says; empty without a search."""
    return f"{sum(arm.tried for arm in arms)} of {sum(arm.planned for arm in arms)} trials, " if arms else ""


def waits(arms: list[Arm]) -> bool:
    """Whether there is a search, and no fresh run of it has ended."""
    return bool(arms) and not any(arm.fresh_seeds for arm in arms)


def remarks(arms: list[Arm]) -> list[str]:
    """Why there is no verdict yet, and arms that have no setting."""
    lost = [name(arm) for arm in arms if arm.chosen is None and not arm.best and arm.tried >= arm.planned]
    said = [f"No setting for {', '.join(lost)}: no trial has a value."] if lost else []
    said += [
        f"{name(arm)}: every setting is tried, so that it has {text.plural(arm.planned, 'trial')}."
        for arm in arms
        if arm.exhausted
    ]
    if not waits(arms):
        return said
    if any(arm.chosen is None for arm in arms):
        why = "The search goes on; each arm's best setting is run on fresh seeds when its trials have ended."
    else:
        why = "The settings are chosen, and none of their fresh runs has ended."
    return [*said, f"No verdict yet. {why} A trial's value chooses a setting and decides nothing."]


def method(sweep: Sweep) -> list[str]:
    """How settings were chosen, and why their values in the search are too good; nothing without a search."""
    asked = sweep.manifest.get("search")
    if not asked:
        return []
    over = ", ".join(f"{axis} ({_range(kind)})" for axis, kind in search.axes(sweep.manifest).items())
    apart = f", apart for each {' and '.join(asked['within'])}" if asked["within"] else ""
    how = SAMPLERS.get(asked["sampler"], asked["sampler"])
    return [
        f"Searched{apart}: {over}; {asked['trials']} trials each, by {how}, on {_seeds(asked['seeds'])}. A trial that "
        "diverged, failed or was pruned has no value and is never chosen.",
        "The value of a chosen setting in the search is the best of many, so that luck is part of it and it looks too "
        "good. The verdict is of fresh seeds, which have chosen nothing.",
    ]


def tables(sweep: Sweep, arms: list[Arm]) -> list[Table]:
    """Chosen settings, best trials, what mattered; those that have a row. There must be a search."""
    asked, metric = sweep.manifest["search"], sweep.manifest["endpoint"]["metric"]
    over, first = list(search.axes(sweep.manifest)), " ".join(asked["within"]) or "arm"
    best = [
        [name(arm), str(t.number), value(metric, t.value), *(level(t, axis) for axis in over), _mark(arm, t)]
        for arm in arms
        for t in arm.best
    ]
    mattered = [[name(arm), i.axis, *_shares(i), str(i.trials)] for arm in arms for i in arm.importances if known(arm)]
    found = [
        _chosen(arms, metric, first),
        Table(f"The best {TOP} trials of each arm", [first, "trial", "value", *over, ""], "lrr", best),
        Table(
            "Which axis mattered, as a share of 1", [first, "axis", "fANOVA", "PED-ANOVA", "trials"], "llrrr", mattered
        ),
    ]
    return [table._replace(kinds=table.kinds.ljust(len(table.header), "l")) for table in found if table.rows]


def lines(sweep: Sweep, arms: list[Arm], everything: bool = False) -> list[str]:
    """For the terminal, at most 100 columns; trials and axes of more than FEW arms only with `everything`."""
    if not arms:
        return []
    metric = sweep.manifest["endpoint"]["metric"]
    table = tables(sweep, arms)[0]
    found = [table.title, *text.aligned([table.header, *table.rows], right=table.kinds, indent=4), ""]
    if len(arms) > FEW and not everything:
        return [*found, *text.wrap(f"Best trials and axes: `verdict {sweep.name} --all`, or the report."), ""]
    valued = [arm for arm in arms if arm.best]
    if not valued:
        return found
    found.append(f"The best {TOP} trials of each arm, and which axis mattered (fANOVA / PED-ANOVA, shares of 1)")
    for arm in valued:
        found.append(f"  {name(arm)}")
        for trial in arm.best:
            mark = f" ({_mark(arm, trial)})" if _mark(arm, trial) else ""
            found += text.wrap(setting(trial) + mark, f"    {value(metric, trial.value):>6}  trial {trial.number:<3} ")
        if known(arm):
            most = max(i.trials for i in arm.importances)
            shares = (
                f"{i.axis} {' / '.join(_shares(i))}{f' ({i.trials})' if i.trials < most else ''}"
                for i in arm.importances
            )
            found += text.wrap(", ".join(shares), f"    mattered, of {text.plural(most, 'trial')}: ", " " * 6)
    return [*found, "", *(line for sentence in notes(arms) for line in text.wrap(sentence)), ""]


def markdown(sweep: Sweep, arms: list[Arm]) -> list[str]:
    """A section; empty without a search."""
    found = ["## The search", ""] if arms else []
    for table in tables(sweep, arms) if arms else ():
        found += [f"{table.title}.", "", *text.markdown_table(table.header, table.rows), ""]
    return [*found, *(line for sentence in notes(arms) for line in (sentence, ""))]


def notes(arms: list[Arm]) -> list[str]:
    """What the shares are, and when there are none."""
    asked = [arm for arm in arms if arm.importances]
    every = all(known(arm) for arm in asked)
    return [*([MATTERED] if any(map(known, asked)) else []), *([] if every else [TOO_FEW])]


def known(arm: Arm) -> bool:
    """Whether anything can be said of which axis mattered."""
    return any(not math.isnan(i.fanova) for i in arm.importances)


def name(arm: Arm) -> str:
    """Its levels; "all" in a search within no axis."""
    return ", ".join(arm.labels.values()) or "all"


def setting(trial: Trial) -> str:
    """Such as "lr 0.0003, updates 4"."""
    return ", ".join(f"{axis} {level(trial, axis)}" for axis in trial.params)


def level(trial: Trial, axis: str) -> str:
    """Four digits of a number; "-" for an axis that the trial lacks."""
    given = trial.params.get(axis, "-")
    return f"{given:.4g}" if isinstance(given, int | float) and not isinstance(given, bool) else str(given)


def value(metric: str, given: float | None) -> str:
    """In the units in which the metric is shown."""
    factor, digits, _ = text.scale(metric)
    return text.number(factor * (math.nan if given is None else given), digits)


def _chosen(arms: list[Arm], metric: str, first: str) -> Table:
    """A row per arm; of the ways to end, the columns that some arm needs."""
    ways = [state for state in STATES if state == "done" or any(state in arm.ended for arm in arms)]
    imported = ["imported"] if any(arm.imported for arm in arms) else []
    header = [first, "chosen", "in the search", "on fresh seeds", "n", *ways, *imported]
    rows = [
        [
            name(arm),
            f"trial {arm.chosen.number}" if arm.chosen else "none yet",
            value(metric, arm.chosen.value if arm.chosen else None),
            value(metric, arm.fresh),
            str(arm.fresh_seeds),
            *(str(arm.ended.get(state, 0)) for state in ways),
            *([str(arm.imported)] if imported else []),
        ]
        for arm in arms
    ]
    title = f"Chosen settings, {metric} in {text.scale(metric)[2]}, and how the trials ended"
    return Table(title, header, "ll" + "r" * (len(header) - 2), rows)


def _mark(arm: Arm, trial: Trial) -> str:
    marks = ["chosen"] if arm.chosen and arm.chosen.number == trial.number else []
    return ", ".join([*marks, *(["imported"] if trial.imported else [])])


def _shares(i: Importance) -> tuple[str, str]:
    return text.number(i.fanova, 2), text.number(i.ped_anova, 2)


def _range(kind: Mapping[str, Any]) -> str:
    """Such as "0.0001 … 0.003, evenly in the logarithm", or the levels."""
    if "levels" in kind:
        return ", ".join(map(str, kind["levels"]))
    step = f", in steps of {kind['step']:g}" if kind.get("step") else ""
    return f"{kind['low']:g} … {kind['high']:g}{', evenly in the logarithm' if kind['log'] else step}"


def _seeds(seeds: list[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
