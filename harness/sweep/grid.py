"""Cells and runs: what a spec expands to. Leaves out: how a cell's configuration is made (`expand.py`)."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.config import Hardware, Identity, Launcher, RunConfig, Runtime
from harness.sweep.spec import Spec
from harness.sweep.stop import Rounds
from harness.sweep.trials import Searched


@dataclass(frozen=True)
class Cell:
    """One point of the grid, all seeds. `labels` has no entry for an axis that is absent here."""

    id: str
    labels: dict[str, str]
    identity: Identity
    runtime: Runtime
    launcher: Launcher
    hardware: Hardware  # what the plan's cost is computed for
    trial: tuple[int, ...] = ()  # of a search's trial: its own seeds


@dataclass(frozen=True)
class Run:
    """A cell under one seed: one job, one folder."""

    cell: Cell
    seed: int

    @property
    def id(self) -> str:
        return f"{self.cell.id}-s{self.seed}"

    @property
    def labels(self) -> dict[str, str]:
        return self.cell.labels

    @property
    def config(self) -> RunConfig:
        return RunConfig(identity=self.cell.identity, runtime=self.cell.runtime, seed=self.seed)


@dataclass(frozen=True)
class Expansion:
    """All cells of a spec in file order, and what became of the rest of the product."""

    spec: Spec
    cells: tuple[Cell, ...]
    excluded: int
    merged: int
    aliases: tuple[tuple[str, dict[str, str]], ...]  # (cell id, labels): other points of the grid that are this cell
    missing_data: tuple[str, ...]  # files that a run would read and that do not exist
    rounds: Rounds | None = None  # of a spec with `stop`
    search: Searched | None = None  # of a search, whose cells are its trials and what they chose
    probes: tuple[Cell, ...] = ()  # of a search: cells with each level and each end of a range, to be checked

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those of any cell: the spec's, or as many as the rounds have come to."""
        first = self.spec.seeds[0]
        return tuple(range(first, first + self.rounds.seeds)) if self.rounds else self.spec.seeds

    def seeds_of(self, cell: Cell) -> tuple[int, ...]:
        if cell.trial:
            return cell.trial
        return self.seeds[: self.rounds.wanted[cell.id]] if self.rounds else self.seeds

    @property
    def num_runs(self) -> int:
        if self.rounds or self.search:
            return sum(len(self.seeds_of(cell)) for cell in self.cells)
        return len(self.cells) * len(self.seeds)

    def runs(self) -> Iterator[Run]:
        """Seeds outermost, so that an interrupted sweep has whole replicates of every arm."""
        trials = max((len(cell.trial) for cell in self.cells), default=0) if self.search else 0
        for place in range(max(trials, len(self.seeds))):
            for cell in self.cells:
                if place < len(seeds := self.seeds_of(cell)):
                    yield Run(cell, seeds[place])

    def axis_labels(self) -> dict[str, list[str]]:
        """axis -> its labels in order, with those that only `include` brings at the end."""
        out = {axis.name: [level.label for level in axis.levels] for axis in self.spec.axes}
        for inclusion in self.spec.include:
            for name, level in inclusion.levels.items():
                if level.label not in out[name]:
                    out[name].append(level.label)
        return out
