"""A sweep's runs as one tidy frame, straight from the run folders; never from a tracking server.

Every run of the manifest is accounted for: those without a finished curve are listed in `missing` with their state
and appear in every output. Leaves out: smoothing and statistics.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store import Run, read_json

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Missing:
    run: str
    labels: dict[str, str]
    seed: int
    state: str


@dataclass(frozen=True)
class Sweep:
    """`frame` has one column per axis, then run, seed, state, step, metric, value (NaN where null was recorded)."""

    name: str
    folder: Path
    manifest: dict[str, Any]
    frame: "pd.DataFrame"
    missing: list[Missing]

    @property
    def axes(self) -> dict[str, list[str]]:
        return self.manifest["axes"]

    @property
    def arm_axis(self) -> str | None:
        """The axis whose levels are compared: the first that the spec's baseline names."""
        return next(iter(self.manifest["baseline"]), None)

    @property
    def strata(self) -> list[str]:
        """The other axes that vary; their levels are compared apart."""
        return [axis for axis, levels in self.axes.items() if axis != self.arm_axis and len(levels) > 1]


def load(root: Path, name: str, metrics: Collection[str] | None = None) -> Sweep:
    """All metrics, or only those named. Raises FileNotFoundError where no sweep of that name was planned."""
    import pandas as pd

    manifest = read_manifest(root, name)
    columns: dict[str, list[Any]] = {key: [] for key in ("index", "step", "metric", "value")}
    states, missing = [], []
    for index, entry in enumerate(manifest["runs"]):
        run = Run(root / "runs" / entry["run"])
        states.append(run.state())
        if states[-1] != "done":
            missing.append(Missing(entry["run"], entry["labels"], entry["seed"], states[-1]))
        for record in run.read("metrics"):
            for key, value in record["m"].items():
                if metrics is None or key in metrics:
                    columns["index"].append(index)
                    columns["step"].append(record["step"])
                    columns["metric"].append(key)
                    columns["value"].append(value)
    long = pd.DataFrame(columns).astype({"index": "int64", "step": "int64", "metric": "category", "value": "float64"})
    runs = pd.DataFrame(
        [entry["labels"] | {"run": entry["run"], "seed": entry["seed"]} for entry in manifest["runs"]],
        columns=[*manifest["axes"], "run", "seed"],
    ).assign(state=states)
    frame = runs.iloc[long["index"]].reset_index(drop=True)
    return Sweep(
        name, root / "sweeps" / name, manifest, frame.assign(**{key: long[key] for key in list(columns)[1:]}), missing
    )


def read_manifest(root: Path, name: str) -> dict[str, Any]:
    """What the sweep wing wrote of a sweep. Raises FileNotFoundError naming the sweeps that exist."""
    manifest = read_json(root / "sweeps" / name / "manifest.json")
    if not manifest:
        there = sorted(path.parent.name for path in (root / "sweeps").glob("*/manifest.json"))
        raise FileNotFoundError(f"no sweep '{name}' in {root / 'sweeps'} (there are: {', '.join(there) or 'none'})")
    return manifest
