"""The paper's claims in worlds made to fit them or not."""

from pathlib import Path

import pytest

from analysis import claims, expectations, load, stats
from harness import store
from tests.analysis.conftest import change_manifest, clip_sweep, write_sweep


def found(root: Path) -> dict[str, claims.Claim]:
    return {claim.id: claim for claim in claims.check(load.load(root, "made"))}


def test_a_world_in_which_clip_higher_helps_the_small_model_only(tmp_path: Path) -> None:
    there = found(clip_sweep(tmp_path, 0.04, large=0.0))
    assert there["T6"].word == "supported"
    rise = there["T6"].findings[0]
    assert rise.effect is not None and rise.effect.mean == pytest.approx(0.06, abs=0.002)  # .04 per .08, over .12
    assert there["T4"].word == "supported in part" and there["T4"].why == "5 findings, 4 supported, 1 no difference"
    assert there["T5"].word == "undecided"  # its arms are there, but these runs recorded no clipped token


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
    assert expectations.outcome_of(expect, wide, narrow, wide.p, margin=0.01) == outcome


def test_only_a_corrected_p_contradicts() -> None:
    values = [-0.06, -0.05, -0.05, -0.04]
    wide, narrow = stats.paired(values), stats.paired(values, confidence=0.90)
    assert expectations.outcome_of("higher", wide, narrow, 0.2, margin=0.01) == "undecided"


def test_every_claim_of_the_paper_is_there_and_well_formed() -> None:
    known = claims.known()
    assert set(known) == {f"T{i}" for i in range(1, 9)} | {"C9", "C10", "C11"}
    for name, claim in known.items():
        assert claim["text"] and claim["source"], name
        assert [test for test in claim["tests"] if not test.get("control")], name
        for test in claim["tests"]:
            wanted = {"key", "metric", "expect"} | (
                set() if test["expect"] in expectations.TRENDS else {"arm", "baseline"}
            )
            assert wanted <= set(test) <= wanted | {"where", "control", "read", "margin"}, name


def recipes(root: Path, **manifest: object) -> Path:
    """Two models, three data sets, one trick: base models gain .2, aligned ones .02, and longer on harder data."""
    gains = {"small_base": 0.2, "small_aligned": 0.02}

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        jitter = 0.001 * seed * step / 60
        data = ["easy", "medium", "hard"].index(labels["data"])
        longer = 10.0 * data + 100.0 * (labels["weight"] == "sequence_mean")
        return {"eval/accuracy": 0.3 + gains[labels["model"]] * step / 60 + jitter, "length/mean": 20 + longer + jitter}

    axes = {"model": [*gains], "data": ["easy", "medium", "hard"], "weight": ["token_mean", "sequence_mean"]}
    keys = {"model": "model", "data": "data", "weight": "tricks.weight"}
    return write_sweep(root, axes, {"weight": "token_mean"}, curve, seeds=4, keys=keys, claims=["C10"], **manifest)


def test_a_gain_is_the_endpoint_less_the_start_and_arms_are_held_at_the_baseline(tmp_path: Path) -> None:
    claim = found(recipes(tmp_path))["C10"]
    gains = [f for f in claim.findings if f.read == "gain"]
    assert [f.stratum for f in gains] == [{"data": data} for data in ("easy", "medium", "hard")]
    # the last two evaluations are at 50 and 60 steps: 11/12 of the gains .2 and .02
    assert [f.effect.mean for f in gains if f.effect] == pytest.approx([-0.18 * 11 / 12] * 3)
    longer = [f for f in claim.findings if f.metric == "length/mean"]
    assert [(f.stratum, f.effect.mean) for f in longer if f.effect] == [
        ({"model": model}, pytest.approx(20.0)) for model in ("small_base", "small_aligned")
    ]
    assert claim.word == "supported" and "large_aligned" in claim.untested[0]


def test_a_test_may_state_its_own_margin(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {
            "length/mean": 30.0
            - 0.5 * (labels["keep"] == "drop_truncated")
            + 0.01 * seed * (labels["keep"] == "drop_truncated")
        }

    axes, keys = (
        {"limit": ["short", "long"], "keep": ["everything", "drop_truncated"]},
        {"limit": None, "keep": "tricks.keep"},
    )
    root = write_sweep(tmp_path, axes, {"keep": "everything"}, curve, keys=keys, claims=["T8"])
    short, long = (f for f in found(root)["T8"].findings if f.metric == "length/mean")
    assert (short.outcome, short.margin, short.within_margin) == ("supported", 1.0, True)  # half a token shorter
    assert long.outcome == "contradicted"  # it should be longer there


def test_other_arms_are_at_their_baseline_unless_a_control_is_tried_there(tmp_path: Path) -> None:
    axes = {"advantage": ["group_z", "batch_z"], "reward": ["raw", "affine"]}
    keys = {"advantage": "tricks.advantage", "reward": "tricks.reward"}
    baseline = {"advantage": "group_z", "reward": "raw"}
    given = {"claims": ["T1"], "control": ["reward"], "keys": keys}
    root = write_sweep(tmp_path, axes, baseline, lambda *_: {"eval/accuracy": 0.5}, **given)
    tried = [(f.what, f.stratum) for f in found(root)["T1"].findings]
    assert tried == [
        ("advantage group_z - batch_z", {}),
        ("reward affine - raw", {}),
        ("reward affine - raw", {"advantage": "batch_z"}),
    ]


def test_clipped_tokens_decide_a_claim_from_their_counts(tmp_path: Path) -> None:
    root = clip_sweep(tmp_path, 0.0)
    sweep = load.load(root, "made")
    for entry in sweep.runs:
        connectives = 6 + entry.seed if entry.labels["eps_high"] == "0.20" else 1
        run = store.Run(root / "runs" / entry.run)
        run.attempt_file("counts", 0).parent.mkdir()
        high = {"so": connectives, "is": 20 - connectives}
        line = {"step": 0, "probability": [90, 0, 0, 0, 0, 10], "groups": [1], "high": high, "low": {}}
        run.attempt_file("counts", 0).write_text(store.dump_json(line | {"high_total": 20, "low_total": 0}) + "\n")
    share = [f for f in found(root)["T5"].findings if f.metric == "clipped/connective_share"]
    assert [f.stratum for f in share] == [{"model": "small_aligned"}, {"model": "large_aligned"}]
    # .20: 6, 7, 8, 9 of 20; .28: 1 of 20
    assert all(f.effect and f.effect.mean == pytest.approx(-6.5 / 20) and f.outcome == "supported" for f in share)


def test_a_wrong_expectation_and_an_unknown_claim_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text("X1: {text: t, source: s, tests: [{key: k, metric: m, expect: hihger}]}")
    with pytest.raises(ValueError, match=r"X1: no expectation 'hihger' \(there are: higher"):
        claims.known(file)
    file.write_text("X1: {text: t, source: s, tests: [{key: k, metric: m, expect: higher, read: lst}]}")
    with pytest.raises(ValueError, match=r"X1: no reading 'lst' \(there are: last, area, gain\)"):
        claims.known(file)
    root = clip_sweep(tmp_path, 0.0, seeds=1)
    with pytest.raises(ValueError, match=r"no claim 'T99' in grid_specs/claims.yaml \(there are: T1"):
        found(change_manifest(root, claims=["T99"]))
