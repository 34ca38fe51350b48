"""An invented sweep with many arm axes: one trick at a time around a baseline, within every model and data set."""

import json
import math
from pathlib import Path

from tests.analysis.conftest import write_sweep, write_tokens

MODELS = ("small_base", "small_aligned", "large_base", "large_aligned")
DATA = ("easy", "medium", "hard")
ARMS = {
    "norm": ["group_z", "batch_z", "none", "batch_mean", "group_mean_batch_std"],
    "reward": ["raw", "affine"],
    "eps_high": ["0.20", "0.24", "0.28", "0.32"],
    "agg": ["sequence_mean", "token_mean"],
    "overlong": ["everything", "drop_truncated"],
    "admit": ["everything", "mixed_only"],
    "penalty": ["none", "k3"],
    "recipe": ["vanilla", "grpo", "dapo", "lite_ppo"],
}
BASELINE = {axis: levels[0] for axis, levels in ARMS.items()}
BENCHMARKS = ("addition", "chains", "fractions")
# what an arm adds to accuracy at the end, where; the rest is noise alone
EFFECTS = {"batch_z": -0.06, "token_mean": 0.05, "0.28": 0.03, "lite_ppo": 0.07, "mixed_only": 0.02}


def off(labels: dict[str, str]) -> list[str]:
    """The axes that are not at their baseline."""
    return [axis for axis, level in BASELINE.items() if labels[axis] != level]


def planned(labels: dict[str, str]) -> bool:
    """At most one arm; medium data carry the clip only, the aligned models the normalization on medium data only."""
    arms = off(labels)
    if len(arms) > 1:
        return False
    if labels["data"] == "medium":
        return not arms or arms[0] in ("eps_high", "overlong")
    return not arms or (arms[0] != "eps_high" and (labels["model"].endswith("base") or arms[0] in ("agg", "overlong")))


def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
    """Saturating accuracy; the noise of a run depends on its seed and its labels alone."""
    arm = next((labels[axis] for axis in off(labels)), "")
    grown = 1 - math.exp(-step / 15)
    where = MODELS.index(labels["model"]) + 5 * DATA.index(labels["data"])
    odd = math.sin(12.9898 * seed + 78.233 * (where + sum(map(ord, arm))))  # in [-1, 1], the same for a run throughout
    share = 0.5 if labels["model"].endswith("aligned") else 1.0
    accuracy = 0.35 + 0.02 * seed + 0.03 * where / 4 + grown * (0.2 + share * EFFECTS.get(arm, 0.0) + 0.012 * odd)
    length = 20 + 6 * grown + 3 * (arm == "token_mean")
    metrics = {f"eval/{name}/accuracy": accuracy + 0.05 * i for i, name in enumerate(BENCHMARKS, -1)}
    metrics |= {"eval/accuracy": accuracy, "eval/length": length, "train/reward_std": 0.3 + 0.1 * odd}
    metrics |= {"policy/entropy": 0.6 - 0.3 * grown + 0.02 * (arm == "0.28") + 0.002 * odd, "length/mean": length}
    return metrics | {"count/tokens_generated": 64 * length * (1.5 if arm == "mixed_only" else 1.0)}


def four_axes(root: Path) -> Path:
    """The smallest sweep with more arm axes than the terminal shows whole: 5 cells in one place."""
    axes = {axis: ["off", "on"] for axis in ("a_b", "c", "d", "e")}

    def one(labels: dict[str, str]) -> bool:
        return list(labels.values()).count("on") < 2

    def flat(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.5 + 0.01 * seed * (labels["c"] == "on"), "policy/entropy": 0.3}

    baseline = dict.fromkeys(axes, "off")
    return write_sweep(root, axes, baseline, flat, 3, 20, planned=one, figures=["accuracy_by_c"], claims=["T3"])


def many_axes(root: Path, seeds: int = 4, steps: int = 40, models: int = 4) -> Path:
    axes = {"model": list(MODELS[:models]), "data": list(DATA)} | ARMS
    figures = ["entropy_by_eps_high"]
    slots = {"norm": "advantage", "eps_high": "surrogate.high", "agg": "weight", "overlong": "keep"}
    keys = {axis: axis if axis in ("model", "data", "recipe") else f"tricks.{slots.get(axis, axis)}" for axis in axes}
    claims = ["T1", "T3", "T7"]
    said = {"keys": keys, "figures": figures, "claims": claims, "question": "Which trick is a trap, and for whom?"}
    return write_sweep(root, axes, BASELINE, curve, seeds, steps, every=5, planned=planned, **said)


GAINS = {"batch_z": -6.0, "0.28": 4.0, "drop_truncated": 2.0, "lite_ppo": 7.0}  # points, in every place
PAPER = {
    "recipe": ["vanilla", "grpo", "lite_ppo"],
    "advantage": ["group_z", "batch_z", "batch_mean", "group_mean_batch_std"],
    "eps_high": ["0.20", "0.28"],
    "weight": ["token_mean", "sequence_mean"],
    "limit": ["normal", "short", "long"],
    "keep": ["everything", "drop_truncated"],
}
SLOTS = {"advantage": "tricks.advantage", "eps_high": "tricks.surrogate.high", "weight": "tricks.weight"}
SLOTS |= {"keep": "tricks.keep"}


def paper_sweep(root: Path) -> Path:
    """A small sweep with an axis for each section of the paper, filters at each limit, counts and samples.

    Every arm gains what GAINS says (in points) against its baseline, ± 0.1 by seed; aligned models start 20 points
    higher, hard data are 10 lower; a quarter of the truncated responses repeats.
    """
    baseline = {axis: levels[0] for axis, levels in PAPER.items()}
    axes = {"model": ["small_base", "large_aligned"], "data": ["easy", "hard"]} | PAPER

    def away(labels: dict[str, str]) -> list[str]:
        return [axis for axis, level in baseline.items() if labels[axis] != level]

    def one(labels: dict[str, str]) -> bool:
        return len(away(labels)) < 2 or away(labels) == ["limit", "keep"]

    def points(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        start = 0.6 if labels["model"] == "large_aligned" else 0.4
        gain = sum(GAINS.get(labels[axis], 0.0) for axis in away(labels))
        jitter = 0.1 * ((seed + sum(map(ord, "".join(labels[a] for a in away(labels))))) % 3 - 1)
        accuracy = start - 0.1 * (labels["data"] == "hard") + 0.01 * seed + (gain + jitter) / 100
        length = 40.0 if labels["data"] == "hard" else 30.0
        found = {f"eval/{name}/accuracy": accuracy + shift for name, shift in {"aime24": -0.1, "math500": 0.1}.items()}
        found |= {"eval/accuracy": accuracy, "eval/length": length, "count/tokens_generated": 64 * length}
        found |= {"train/reward_std": 0.4, "length/mean": length, "length/repeat_share": 0.25, "grad/norm": 0.5}
        return found | {"policy/entropy": 0.3, "clip/high": 0.003, "grad/norm_max": 0.7}

    claims = ["T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "C9", "C10", "C11"]
    keys = {axis: SLOTS.get(axis, axis) for axis in axes}
    said = {"keys": keys, "claims": claims, "figures": ["claims", "accuracy_by_data"]}
    write_sweep(root, axes, baseline, points, 3, 20, 5, one, **said)
    for run in json.loads((root / "sweeps/made/manifest.json").read_text())["runs"]:
        write_tokens(root / "runs" / run["run"], run["labels"], 20)
    return root
