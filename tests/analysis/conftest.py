"""Sweeps of invented curves whose effects and noise are known."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import store
from tests.analysis import chromium

Curve = Callable[[dict[str, str], int, int], dict[str, float]]  # labels, seed, step -> metrics


def write_sweep(
    root: Path,
    axes: dict[str, list[str]],
    baseline: dict[str, str],
    curve: Curve,
    seeds: int = 3,
    steps: int = 60,
    every: int = 10,
    planned: Callable[[dict[str, str]], bool] = lambda labels: True,
    **manifest: Any,
) -> Path:
    """Run folders and a manifest; train metrics on each step, `eval/…` metrics on every `every`-th and the last.

    The cells are those of all combinations of levels that `planned` says yes to.
    """
    from itertools import product

    runs = []
    points = [dict(zip(axes, levels, strict=True)) for levels in product(*axes.values())]
    for number, labels in enumerate(filter(planned, points)):
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


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    if not chromium.found():
        pytest.skip("no Chromium here: apt-get install --no-install-recommends chromium")
    try:
        started = chromium.Browser(tmp_path_factory.mktemp("profile"))
    except OSError as error:
        pytest.skip(f"Chromium does not start here: {error}")
    yield started
    started.close()


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


def many_axes_sweep(root: Path, seeds: int = 3, steps: int = 20) -> Path:
    """Three arm axes one at a time around a baseline, within two models on two data sets; with counts and samples.

    The upper clip .28 gains 4 points of accuracy on the aligned model and none on the base one, `none` as advantage
    loses 10, `sequence_mean` changes nothing and generates 10 % fewer tokens. Tokens: see `write_tokens`.
    """
    baseline = {"eps_high": "0.20", "advantage": "group_z", "weight": "token_mean"}
    axes = {"model": ["small_base", "large_aligned"], "data": ["easy", "hard"], "eps_high": ["0.20", "0.28"]}
    axes |= {"advantage": ["group_z", "batch_z", "none"], "weight": ["token_mean", "sequence_mean"]}

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        start = 0.7 if "aligned" in labels["model"] else 0.3
        gain = 0.04 * (labels["eps_high"] == "0.28") * ("aligned" in labels["model"])
        gain -= 0.1 * (labels["advantage"] == "none")
        accuracy = start - 0.1 * (labels["data"] == "hard") + 0.01 * seed + gain
        tokens = 1000.0 * (0.9 if labels["weight"] == "sequence_mean" else 1.0)
        found = {f"eval/{name}/accuracy": accuracy + shift for name, shift in BENCHMARKS.items()}
        found |= {"eval/accuracy": accuracy, "eval/length": 40.0, "count/tokens_generated": tokens}
        return found | {"policy/entropy": 0.3 + 0.001 * step, "length/mean": 30.0 + seed}

    def planned(labels: dict[str, str]) -> bool:
        return sum(labels[axis] != level for axis, level in baseline.items()) <= 1

    figures = ["benchmarks_by_eps_high", "length_by_data", "probabilities_by_eps_high", "clipped_tokens_by_eps_high"]
    figures += ["clipped_text_by_eps_high", "difficulty_by_data", "claims", "summary", "main_effects", "interactions"]
    figures.append("summary_by_advantage")
    keys = {"model": "model", "data": "data", "eps_high": "tricks.surrogate.high"}
    keys |= {"advantage": "tricks.advantage", "weight": "tricks.weight"}
    more: dict[str, Any] = {"figures": [*figures, "effect_vs_compute"], "claims": ["T4", "T7"], "keys": keys}
    write_sweep(root, axes, baseline, curve, seeds, steps, 10, planned, **more)
    for run in json.loads((root / "sweeps/made/manifest.json").read_text())["runs"]:
        write_tokens(root / "runs" / run["run"], run["labels"], steps)
    return root


BENCHMARKS = {"aime24": -0.2, "math500": 0.1, "other": 0.1}  # accuracy less the macro average
CLIPPED = {"0.20": {"Ġso": 6, "then": 3, "is": 2, "7": 1}, "0.28": {"is": 3, "7": 1}}  # a step's, by upper clip
PROBABILITY = {"0.20": [10, 20, 30, 40, 100, 800], "0.28": [20, 30, 50, 100, 200, 600]}  # a step's


def write_tokens(run: Path, labels: dict[str, str], steps: int) -> None:
    """Counts of every step and samples of every tenth, with the numbers above; hard prompts are right half as often."""
    high, seed = labels["eps_high"], int(run.name[-1])
    groups = [2, 0, 2, 0, 4] if labels["data"] == "easy" else [4, 2, 2, 0, 0]
    words = ["first", "a", "+1", "is", "11", ",", "so", "the", "answer", "11"]
    marks = [1, 0, 0, -1, 0, 0, int(high == "0.20"), 0, 0, 0]
    for kind in ("counts", "samples"):
        (run / kind).mkdir(exist_ok=True)
    with open(run / "counts/a000.jsonl", "w") as file:
        for step in range(steps):
            line = {"step": step, "probability": PROBABILITY[high], "groups": groups, "high": CLIPPED[high]}
            total = sum(CLIPPED[high].values())
            file.write(json.dumps(line | {"high_total": total, "low": {"11": 2}, "low_total": 2}) + "\n")
    with open(run / "samples/a000.jsonl", "w") as file:
        for step in range(0, steps, 10):
            first = {"text": " ".join(words), "reward": 1.0, "tokens": words, "clipped": marks}
            samples = [first | {"clipped": [0] * len(words)}, first]
            file.write(json.dumps({"step": step, "prompt": f"Q {seed} a+1 = ? A {step}", "samples": samples}) + "\n")
