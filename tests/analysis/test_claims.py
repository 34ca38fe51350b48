"""The paper's claims in worlds made to fit them or not."""

from pathlib import Path

import pytest

from analysis import claims, load, stats
from tests.analysis.conftest import change_manifest, clip_sweep, write_sweep


def found(root: Path) -> dict[str, claims.Claim]:
    return {claim.id: claim for claim in claims.check(load.load(root, "made"))}


def test_a_world_in_which_clip_higher_helps_the_small_model_only(tmp_path: Path) -> None:
    there = found(clip_sweep(tmp_path, 0.04, large=0.0))
    assert there["T6"].word == "supported"
    rise = there["T6"].findings[0]
    assert rise.effect is not None and rise.effect.mean == pytest.approx(0.06, abs=0.002)  # .04 per .08, over .12
    assert there["T4"].word == "supported in part" and there["T4"].why == "5 findings, 4 supported, 1 no difference"
    assert there["T5"].word == "not testable here" and "clipped tokens" in there["T5"].why


def test_a_world_in_which_it_helps_both(tmp_path: Path) -> None:
    there = found(clip_sweep(tmp_path, 0.04))
    assert there["T4"].word == "supported" and len(there["T4"].findings) == 5
    assert there["T6"].word == "contradicted"  # the large model grows with the clip as well
    assert [f.outcome for f in there["T6"].findings] == ["supported", "contradicted"]


def test_a_world_in_which_it_does_nothing(tmp_path: Path) -> None:
    there = found(clip_sweep(tmp_path, 0.0))
    assert there["T4"].word == there["T6"].word == "no difference"


def test_under_three_seeds_a_claim_is_undecided(tmp_path: Path) -> None:
    there = found(clip_sweep(tmp_path, 0.04, seeds=2))
    assert (there["T4"].word, there["T4"].why) == (
        "undecided",
        "5 findings, 5 undecided; needs about 1 seed more",
    )


def test_what_the_sweep_cannot_test_is_said(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.5 + 0.05 * (labels["eps_high"] == "0.28") + 0.001 * seed * float(labels["eps_high"])}

    axes = {"model": ["small_aligned"], "eps_high": ["0.2", "0.28"]}  # 0.2 is 0.20
    keys = {"model": "model", "eps_high": "tricks.surrogate.high"}
    there = found(write_sweep(tmp_path, axes, {"eps_high": "0.2"}, curve, keys=keys, claims=["T4", "T6", "T7"]))
    assert [f.outcome for f in there["T4"].findings] == ["supported", "undecided"]  # accuracy; no entropy recorded
    assert there["T4"].untested == ["tricks.surrogate.high with 0.28 and 0.20 on model small_base or large_base"]
    assert there["T6"].word == "not testable here" and "three numeric levels" in there["T6"].why
    assert "tricks.weight with token_mean and sequence_mean" in there["T7"].why


def test_a_control_tests_the_instrument_and_not_the_claim(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.5 + 0.0001 * seed * (labels["reward"] == "affine")}

    axes, keys = {"reward": ["raw", "affine"]}, {"reward": "tricks.reward"}
    root = write_sweep(tmp_path, axes, {"reward": "raw"}, curve, keys=keys, claims=["T1"], control=True)
    claim = found(root)["T1"]
    assert [(f.control, f.outcome) for f in claim.findings] == [(True, "supported")]
    assert claim.word == "not testable here"
    assert found(change_manifest(root, control=False))["T1"].findings == []


@pytest.mark.parametrize(
    ("expect", "mean", "sd", "outcome"),
    [
        ("higher", 0.05, 0.01, "supported"),
        ("higher", -0.05, 0.01, "contradicted"),
        ("higher", 0.001, 0.003, "no difference"),
        ("higher", 0.02, 0.05, "undecided"),
        ("lower", -0.05, 0.01, "supported"),
        ("lower", 0.05, 0.01, "contradicted"),
        ("increasing", 0.05, 0.01, "supported"),
        ("not_higher", -0.02, 0.01, "supported"),
        ("not_higher", 0.001, 0.003, "supported"),
        ("not_higher", 0.05, 0.01, "contradicted"),
        ("not_increasing", 0.02, 0.05, "undecided"),
        ("no_difference", 0.001, 0.003, "supported"),
        ("no_difference", -0.05, 0.01, "contradicted"),
        ("no_difference", 0.0, 0.05, "undecided"),
    ],
)
def test_what_the_numbers_say_of_an_expectation(expect: str, mean: float, sd: float, outcome: str) -> None:
    values = [mean - sd, mean, mean, mean + sd]
    wide, narrow = stats.paired(values), stats.paired(values, confidence=0.90)
    assert claims.outcome_of(expect, wide, narrow, wide.p, margin=0.01) == outcome


def test_only_a_corrected_p_contradicts() -> None:
    values = [-0.06, -0.05, -0.05, -0.04]
    wide, narrow = stats.paired(values), stats.paired(values, confidence=0.90)
    assert claims.outcome_of("higher", wide, narrow, 0.2, margin=0.01) == "undecided"


def test_every_claim_of_the_paper_is_there_and_well_formed() -> None:
    known = claims.known()
    assert set(known) == {f"T{i}" for i in range(1, 9)} | {"C9", "C10", "C11"}
    for name, claim in known.items():
        assert claim["text"] and claim["source"], name
        assert claim["tests"] or claim["needs"], name
        for test in claim["tests"]:
            wanted = {"key", "metric", "expect"} | (set() if test["expect"] in claims.TRENDS else {"arm", "baseline"})
            assert wanted <= set(test) <= wanted | {"where", "control"}, name


def test_a_wrong_expectation_and_an_unknown_claim_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text("X1: {text: t, source: s, tests: [{key: k, metric: m, expect: hihger}]}")
    with pytest.raises(ValueError, match=r"X1: no expectation 'hihger' \(there are: higher"):
        claims.known(file)
    root = clip_sweep(tmp_path, 0.0, seeds=1)
    with pytest.raises(ValueError, match=r"no claim 'T99' in grid_specs/claims.yaml \(there are: T1"):
        found(change_manifest(root, claims=["T99"]))
