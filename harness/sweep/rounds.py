"""The rounds of a sweep with `stop`: how many seeds each cell is to have now, replayed from the run folders.

    round 1        the spec's seeds in every cell
    all done       contrasts and claims are judged; undecided ones that are not given up get `step` pairs more, until
                   max_seeds: a cell gets seeds where it has no more than those it is compared with; others stay

There is no other state: each call replays every round from the first on, with the runs that the round had, so that a
killed or repeated `sweep` comes to the same place. Failed and cancelled runs hold the rounds up, diverged and pruned
ones do not.
Leaves out: the judging (`analysis/undecided.py`), training (`launch.py`, `slurm.py`).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import store
from harness.sweep.grid import Expansion
from harness.sweep.stop import Rounds, Stop

if TYPE_CHECKING:
    from analysis.undecided import Undecided
    from harness.sweep.plan import Plan


def settled(expansion: Expansion, root: Path, name: str) -> Expansion:
    """The expansion with as many seeds per cell as the runs so far call for; unchanged without `stop`.

    A sweep that is not committed yet has its first round, since judging reads and caches in its folder.
    """
    from harness.sweep import plan as plans

    stop, first = expansion.spec.stop, len(expansion.spec.seeds)
    if stop is None:
        return expansion
    rounds = Rounds({cell.id: first for cell in expansion.cells}, 1)
    everything = replace(expansion, rounds=Rounds(dict.fromkeys(rounds.wanted, stop.max_seeds), 1))
    states = plans.scan(root, (run.id for run in everything.runs()))
    if (
        all(_finished(replace(expansion, rounds=rounds), states))
        and (root / "sweeps" / name / "manifest.json").exists()
    ):
        from analysis import undecided

        manifest = plans.manifest(plans.Plan(name, root, _leading(everything, states), states))
        judge = undecided.judge(root, name, manifest)
        while all(_finished(replace(expansion, rounds=rounds), states)) and not rounds.over:
            rounds = _after(rounds, stop, judge({run.id for run in replace(expansion, rounds=rounds).runs()}))
    held = [states[run.id] in ("failed", "cancelled") for run in replace(expansion, rounds=rounds).runs()]
    return replace(expansion, rounds=replace(rounds, unsettled=sum(held)))


def following(plan: "Plan") -> "Plan | None":
    """The committed plan of the next round, also of a search, where one is wanted now that a plan's runs have ended.

    A round whose runs other sweeps have trained has nothing to do and is a round nonetheless: the one after it may.
    """
    from harness.sweep import plan as plans
    from harness.sweep import search

    spec = plan.expansion.spec
    had = {run.id for run in plan.expansion.runs()}

    def is_next(again: "Plan") -> bool:
        return bool(again.todo()) or any(run.id not in had for run in again.expansion.runs())

    if spec.design.search:
        again = search.commit(plan)
        return again if is_next(again) else None
    again = plans.of(spec, plan.root, plan.name) if spec.stop else plan
    return search.commit(again) if spec.stop and is_next(again) else None


def _after(rounds: Rounds, stop: Stop, found: "Undecided") -> Rounds:
    """The round that follows one that was judged. A cell that is ahead of those it is compared with waits for them."""
    judged = replace(
        rounds,
        contrasts=found.contrasts,
        undecided=found.undecided,
        given_up=found.given_up,
        claims=found.claims,
        open_claims=found.open_claims,
    )
    wanted = {
        cell: min(max(seeds, found.cells[cell] + stop.step), stop.max_seeds) if cell in found.cells else seeds
        for cell, seeds in rounds.wanted.items()
    }
    if wanted == rounds.wanted:
        return replace(judged, over=True)
    return replace(judged, wanted=wanted, number=rounds.number + 1)


def _finished(expansion: Expansion, states: dict[str, store.State]) -> Iterator[bool]:
    return (states[run.id] in store.SETTLED for run in expansion.runs())


def _leading(expansion: Expansion, states: dict[str, store.State]) -> Expansion:
    """The runs that any round so far can have had: of each cell those before the first that has not finished."""
    done = dict.fromkeys((cell.id for cell in expansion.cells), 0)
    for place, seed in enumerate(expansion.seeds):
        for cell, count in done.items():
            if count == place and states[f"{cell}-s{seed}"] in store.SETTLED:
                done[cell] += 1
    return replace(expansion, rounds=Rounds(done, 1))
