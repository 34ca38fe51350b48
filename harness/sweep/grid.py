"""Cells and runs: what a spec expands to. Leaves out: how a cell's configuration is made (`expand.py`)."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.config import Hardware, Identity, Launcher, RunConfig, Runtime
from harness.sweep.spec import Spec
from harness.sweep.stop import Rounds


@dataclass(frozen=True)
class Cell:
    """One point of the grid, all seeds. `labels` has no entry for an axis that is absent here."""

    id: str
    labels: dict[str, str]
    identity: Identity
    runtime: Runtime
    launcher: Launcher
    hardware: Hardware  # what the plan's cost is computed for


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

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those of any cell: the spec's, or as many as the rounds have come to."""
        first = self.spec.seeds[0]
        return tuple(range(first, first + self.rounds.seeds)) if self.rounds else self.spec.seeds

    def seeds_of(self, cell: Cell) -> tuple[int, ...]:
        return self.seeds[: self.rounds.wanted[cell.id]] if self.rounds else self.seeds

    @property
    def num_runs(self) -> int:
        return (
            sum(len(self.seeds_of(cell)) for cell in self.cells) if self.rounds else len(self.cells) * len(self.seeds)
        )

    def runs(self) -> Iterator[Run]:
        """Seeds outermost, so that an interrupted sweep has whole replicates of every arm."""
        for place, seed in enumerate(self.seeds):
            for cell in self.cells:
                if self.rounds is None or place < self.rounds.wanted[cell.id]:
                    yield Run(cell, seed)

    def axis_labels(self) -> dict[str, list[str]]:
        """axis -> its labels in order, with those that only `include` brings at the end."""
        out = {axis.name: [level.label for level in axis.levels] for axis in self.spec.axes}
        for inclusion in self.spec.include:
            for name, level in inclusion.levels.items():
                if level.label not in out[name]:
                    out[name].append(level.label)
        return out
