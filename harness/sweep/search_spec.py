"""A spec's `design: {kind: search, …}`: its words, and whether the axes go with them.

    trials: 16          settings tried, in all, in each combination of the axes of `within`: the arms, equally often
    at_once: 4          of them together, before any of their results is looked at
    sampler: tpe        how settings are chosen: tpe, cmaes, qmc or random
    seeds: 1            runs of each setting, on seeds that the verdict does not use: 1000, 1001, …
    seed: 0             of the sampler
    storage: null       the file sweeps/NAME/search.log, or the URL of a database
    reuse: true         finished runs of other sweeps count as trials
    within: [advantage]

All other axes are searched. The best setting of each combination is then run on the spec's `seeds`, and the verdict is
about these runs alone. Leaves out: asking (`studies.py`), rounds (`search.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.sweep.axes import Axis, Reader
from harness.tricks import nearest

if TYPE_CHECKING:
    from harness.sweep.spec import Spec

WORDS = ("trials", "at_once", "sampler", "seeds", "seed", "storage", "reuse", "within")
FIRST_SEED = 1000  # of the trials, far from any that a verdict takes
SAMPLERS = ("tpe", "cmaes", "qmc", "random")
NUMERIC = ("cmaes", "qmc")  # know numbers only, and one space for all trials


@dataclass(frozen=True)
class Search:
    trials: int
    at_once: int
    sampler: str
    seeds: tuple[int, ...]  # of every trial
    seed: int
    storage: str | None
    reuse: bool


def read(reader: Reader, given: Mapping[str, Any], *place: str) -> Search | None:
    """None after a fault."""
    seeds = given.get("seeds", 1)
    seeds = seeds if isinstance(seeds, dict) else {"n": seeds}
    values = {"at_once": 4, "seed": 0} | {k: given[k] for k in ("trials", "at_once", "seed") if k in given}
    values |= {"seeds": seeds.get("n"), "seeds.start": seeds.get("start", FIRST_SEED)}
    found = [f"design.{word} takes {takes}" for word, takes in _faults(given, values)]
    if set(seeds) - {"n", "start"}:
        found.append("design.seeds takes a number of seeds, or {n: 2, start: 100}")
    for fault in found[:1]:
        reader.add(fault, *place)
        return None
    return Search(
        trials=values["trials"],
        at_once=values["at_once"],
        sampler=given.get("sampler", "tpe"),
        seeds=tuple(range(values["seeds.start"], values["seeds.start"] + values["seeds"])),
        seed=values["seed"],
        storage=given.get("storage"),
        reuse=given.get("reuse", True),
    )


def settle(spec: "Spec", search: Search, reader: Reader) -> "Spec":
    """Notes what else of the spec does not go with a search."""
    searched = [axis for axis in spec.axes if axis.name not in spec.design.within]
    if not searched:
        reader.add("design.within names every axis, so that nothing is searched; leave one out", "design")
    for axis in spec.axes:
        if axis.span and axis.name in spec.design.within:
            reader.add(f"axis '{axis.name}' is a range, which has no arms to be `within`; give it `values`", "design")
    names = [axis.name for axis in searched]
    for name in spec.baseline.keys() & set(names):
        reader.add(f"baseline.{name}: a searched axis has no arms; put '{name}' into design.within", "baseline", name)
    for name in set(spec.control) & set(names):
        reader.add(f"control: '{name}' is searched, and has no arms", "control")
    for index, name in enumerate(spec.figures):
        if (axis_of := name.partition("_by_")[2]) in names:
            cure = "figures show the chosen settings, by the axes of design.within; `search` shows the trials"
            reader.add(f"figures: '{name}' is by {axis_of}, which is searched; {cure}", "figures", index)
    for word, why in (("include", "an included cell is no trial"), ("stop", "its fresh runs have the spec's seeds")):
        if getattr(spec, word):
            reader.add(f"{word} does not go with a search: {why}; leave it out", word)
    if both := set(search.seeds) & set(spec.seeds):
        cure = f"leave out design.seeds' start, or give one above {max(spec.seeds)}"
        reader.add(
            f"design.seeds and seeds share {min(both)}: the verdict is of seeds that chose nothing; {cure}", "design"
        )
    if search.sampler in NUMERIC:
        _check_numeric(search.sampler, searched, reader)
    return spec


def ordered(axis: Axis) -> bool:
    """Whether its levels are numbers that rise or fall, so that neighbours are alike."""
    values = [level.value for level in axis.levels]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return numbers and len(values) > 1 and values in (sorted(values), sorted(values, reverse=True))


def _faults(given: Mapping[str, Any], values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(word, what it takes instead)."""
    least = {"trials": 2, "at_once": 1, "seed": 0, "seeds": 1, "seeds.start": 0}
    found = []
    for word, low in least.items():
        value = values.get(word)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            found.append((word, f"a whole number, {low} or more, not {value!r}"))
    sampler, storage, reuse = given.get("sampler", "tpe"), given.get("storage"), given.get("reuse", True)
    if sampler not in SAMPLERS:
        found.append(("sampler", f"{', '.join(SAMPLERS)}, not {sampler!r}{nearest(str(sampler), SAMPLERS)}"))
    if not (storage is None or (isinstance(storage, str) and "://" in storage)):
        found.append(("storage", f"the URL of a database, such as sqlite:////home/me/search.db, not {storage!r}"))
    if not isinstance(reuse, bool):
        found.append(("reuse", f"true or false, not {reuse!r}"))
    return found


def _check_numeric(sampler: str, searched: list[Axis], reader: Reader) -> None:
    for axis in searched:
        if axis.when:
            why = f"axis '{axis.name}' has a `when`, and {sampler} searches one space"
            reader.add(f"design.sampler: {why}; take tpe or random", "design")
        elif not axis.span and not ordered(axis):
            why = f"the levels of axis '{axis.name}' are no numbers in order, and {sampler} knows numbers only"
            reader.add(f"design.sampler: {why}; take tpe or random, or put the axis into `within`", "design")
    if sampler == "cmaes" and len(searched) == 1:
        reader.add("design.sampler: cmaes needs two axes or more; take tpe, qmc or random", "design")
