"""Claims of a fraction: what their tests compare, and what a design that averages over it cannot hold."""

import json
from pathlib import Path

from analysis import claims, load
from tests.analysis.conftest import change_manifest
from tests.analysis.test_fractional import fraction, planted


def test_claims_on_one_arm_are_tested_by_its_effect(tmp_path: Path) -> None:
    def score(on: dict[str, bool], model: str, seed: int) -> float:
        return 0.5 + seed / 16 + (on["a"] - on["b"] / 4) / (16 if model == "small_base" else -16)

    root = fraction(tmp_path, "runs: 4", "abc", score, models=2, claims=["T3", "T7", "T8"])
    names = {"a": ["sequence_mean", "token_mean"], "b": ["group_z", "group_mean_batch_std"], "c": ["everything"]}
    renamed(root, {"a": "tricks.weight", "b": "tricks.advantage", "c": "tricks.keep"}, names)
    found = {claim.id: claim for claim in claims.check(load.load(root, "made"))}
    token, advantage = found["T7"].findings, found["T3"].findings
    assert [f.effect.mean for f in token if f.effect] == [1 / 16, -1 / 16]
    assert [f.stratum for f in token] == [{"model": "small_base"}, {"model": "large_base"}]
    assert {f.what for f in token} == {"a token_mean - sequence_mean, over both levels of the others"}
    assert found["T7"].word == "contradicted"
    assert [f.effect.mean for f in advantage if f.metric == "eval/accuracy" and f.effect] == [-1 / 64, 1 / 64]


def test_the_sign_of_a_claim_is_its_own_and_what_it_holds_has_to_be_there(tmp_path: Path) -> None:
    root = fraction(tmp_path, "runs: 4", "abc", planted, claims=["T7", "T8"])
    swapped = {"a": ["token_mean", "sequence_mean"], "b": ["everything", "drop_truncated"], "c": ["short", "long"]}
    renamed(root, {"a": "tricks.weight", "b": "tricks.keep", "c": "limit"}, swapped)
    found = {claim.id: claim for claim in claims.check(load.load(root, "made"))}
    assert [f.effect.mean for f in found["T7"].findings if f.effect] == [-1 / 32]
    assert found["T8"].word == "not testable here"  # it holds the limit, over which a fraction averages


def renamed(root: Path, keys: dict[str, str], levels: dict[str, list[str]]) -> None:
    """The same sweep with its factors' levels, and the keys that they set, under other names."""
    manifest = json.loads((root / "sweeps/made/manifest.json").read_text())
    names = {axis: dict(zip(("off", "on"), [*given, "on"], strict=False)) for axis, given in levels.items()}
    runs = [
        run | {"labels": {axis: names.get(axis, {}).get(level, level) for axis, level in run["labels"].items()}}
        for run in manifest["runs"]
    ]
    factors = {axis: [names[axis][level] for level in ends] for axis, ends in manifest["design"]["factors"].items()}
    axes = manifest["axes"] | factors
    baseline = {axis: names[axis][level] for axis, level in manifest["baseline"].items()}
    told = manifest["design"] | {"factors": factors}
    change_manifest(root, runs=runs, axes=axes, baseline=baseline, design=told, keys={"model": "model"} | keys)
