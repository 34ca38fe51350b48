"""Sweeps of invented curves whose effects and noise are known."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import store

Curve = Callable[[dict[str, str], int, int], dict[str, float]]  # labels, seed, step -> metrics


def write_sweep(
    root: Path,
    axes: dict[str, list[str]],
    baseline: dict[str, str],
    curve: Curve,
    seeds: int = 3,
    steps: int = 60,
    every: int = 10,
    **manifest: Any,
) -> Path:
    """Run folders and a manifest; train metrics on each step, `eval/…` metrics on every `every`-th and the last."""
    from itertools import product

    runs = []
    for number, levels in enumerate(product(*axes.values())):
        labels = dict(zip(axes, levels, strict=True))
        for seed in range(seeds):
            run = store.Run(root / "runs" / f"{number:016x}-s{seed}")
            (run.path / "metrics").mkdir(parents=True)
            with open(run.attempt_file("metrics", 0), "w") as file:
                for step in range(steps + 1):
                    m = curve(labels, seed, step)
                    on = step % every == 0
                    kept = {k: v for k, v in m.items() if (on if k.startswith("eval/") else step < steps)}
                    if kept:
                        file.write(json.dumps({"step": step, "m": kept}) + "\n")
            run.write_status("done")
            runs.append({"run": run.id, "cell": f"{number:016x}", "seed": seed, "labels": labels})
    value = {
        "name": "made",
        "question": "Does the arm help?",
        "source": "nowhere",
        "scale": "mini",
        "axes": axes,
        "keys": {axis: axis for axis in axes},
        "baseline": baseline,
        "seeds": list(range(seeds)),
        "claims": [],
        "figures": ["accuracy_by_arm"],
        "endpoint": {"metric": "eval/accuracy", "last": 2, "goal": "max", "margin": 0.01},
        "control": False,
        "runs": runs,
    }
    folder = root / "sweeps" / "made"
    folder.mkdir(parents=True)
    store.write_atomic(folder / "manifest.json", json.dumps(value | manifest))
    return root


@pytest.fixture
def four_words(tmp_path: Path) -> Path:
    """Arms whose paired differences by seed are known exactly, around a shared seed effect of ± 0.1."""
    wobble = {"plain": (0, 0, 0, 0), "good": (0.05, 0.052, 0.048, 0.05), "bad": (-0.05, -0.052, -0.048, -0.05)}
    wobble |= {"same": (0.001, -0.001, 0.001, -0.001), "noisy": (0.1, -0.06, 0.08, -0.04)}

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.5 + 0.1 * (seed - 1.5) + wobble[labels["arm"]][seed], "policy/entropy": 0.3}

    return write_sweep(tmp_path, {"arm": list(wobble)}, {"arm": "plain"}, curve, seeds=4)


def change_manifest(root: Path, **changes: Any) -> Path:
    file = root / "sweeps/made/manifest.json"
    store.write_atomic(file, json.dumps(json.loads(file.read_text()) | changes))
    return root


def clip_sweep(root: Path, gain: float, seeds: int = 4, large: float = 1.0) -> Path:
    """Aligned models gain `gain` in accuracy per 0.08 of upper clip, the large one `large` times it; base ones none."""

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        high = float(labels["eps_high"]) - 0.20
        jitter = 0.001 * ((seed * 7 + int(1000 * high)) % 3 - 1)
        up = gain * high / 0.08 if "aligned" in labels["model"] else 0.0
        up *= large if "large" in labels["model"] else 1.0
        return {"eval/accuracy": 0.4 + 0.05 * seed + up + jitter, "policy/entropy": 0.2 + high + jitter}

    axes = {"model": ["small_base", "small_aligned", "large_aligned"], "eps_high": ["0.20", "0.24", "0.28", "0.32"]}
    keys = {"model": "model", "eps_high": "tricks.surrogate.high"}
    figures = ["accuracy_by_eps_high", "entropy_by_model"]
    claims = ["T4", "T6", "T5"]
    return write_sweep(root, axes, {"eps_high": "0.20"}, curve, seeds, keys=keys, claims=claims, figures=figures)
