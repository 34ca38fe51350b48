"""An invented search: trials of known values and endings in one or more arms, and fresh runs of the chosen settings."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import store

OVER: dict[str, dict[str, Any]] = {
    "lr": {"key": "train.lr", "low": 1e-4, "high": 1e-2, "log": True, "step": None},
    "updates": {"key": "train.updates", "levels": ["1", "4"]},
}


@dataclass(frozen=True)
class Tried:
    """One trial: its setting, what each of its seeds ends at, and how each of them ended."""

    params: dict[str, Any]
    values: Sequence[float] = (0.0,)
    states: Sequence[str] = ("done",)
    imported: bool = False


@dataclass(frozen=True)
class Searched:
    """One arm: its trials, the number of the chosen one, and what the fresh seeds end at."""

    trials: list[Tried]
    chosen: int | None = None
    fresh: Sequence[float] = field(default_factory=tuple)


def write(
    root: Path,
    arms: dict[str, Searched],
    over: dict[str, dict[str, Any]] = OVER,
    seeds: Sequence[int] = (5,),
    trials: int = 4,
    **manifest: Any,
) -> Path:
    """Run folders, and the manifest of a search within the axis `advantage`; its first level is the baseline."""
    runs: list[dict[str, Any]] = []
    studies = []
    for place, (arm, searched) in enumerate(arms.items()):
        told = []
        for number, tried in enumerate(searched.trials):
            cell = f"{100 * place + number:016x}"
            labels = {"advantage": arm} | {axis: str(level) for axis, level in tried.params.items()}
            states = [*tried.states] * (1 if len(tried.states) == len(tried.values) else len(tried.values))
            ids = [f"{cell}-s{seed}" for seed in seeds]
            for run, seed, value, state in zip(ids, seeds, tried.values, states, strict=True):
                _write_run(root, run, value, state)
                runs.append({"run": run, "cell": cell, "seed": seed, "labels": labels, "trial": True})
            about = {"number": number, "params": tried.params, "cell": cell, "runs": ids, "imported": tried.imported}
            told.append(about)
        studies.append({"labels": {"advantage": arm}, "chosen": searched.chosen, "trials": told})
        for seed, value in enumerate(searched.fresh):
            cell = f"{100 * place + (searched.chosen or 0):016x}"
            _write_run(root, f"{cell}-s{seed}", value, "done")
            runs.append({"run": f"{cell}-s{seed}", "cell": cell, "seed": seed, "labels": {"advantage": arm}})
    asked = {"sampler": "tpe", "trials": trials, "at_once": 4, "seeds": list(seeds), "seed": 0, "within": ["advantage"]}
    value = {
        "name": "made",
        "question": "Does the arm help, each at its best?",
        "source": "nowhere",
        "scale": "mini",
        "axes": {"advantage": list(arms)},
        "keys": {"advantage": "tricks.advantage"},
        "baseline": {"advantage": next(iter(arms))},
        "seeds": [0, 1, 2],
        "claims": [],
        "figures": [],
        "endpoint": {"metric": "eval/accuracy", "last": 2, "goal": "max", "margin": 0.01},
        "control": False,
        "search": asked | {"over": over, "studies": studies},
        "runs": runs,
    }
    folder = root / "sweeps" / "made"
    folder.mkdir(parents=True)
    store.write_atomic(folder / "manifest.json", json.dumps(value | manifest))
    return root


def _write_run(root: Path, name: str, value: float, state: Any) -> None:
    """Accuracy `value` from step 10 to 30, and entropy that says nothing."""
    run = store.Run(root / "runs" / name)
    (run.path / "metrics").mkdir(parents=True)
    with open(run.attempt_file("metrics", 0), "w") as file:
        for step, accuracy in ((0, 0.1), (10, value - 0.02), (20, value - 0.01), (30, value + 0.01)):
            file.write(json.dumps({"step": step, "m": {"eval/accuracy": accuracy, "policy/entropy": 0.3}}) + "\n")
    if state != "new":
        run.write_status(state)
