"""One word per arm, on sweeps whose truth is known."""

import math
from pathlib import Path

import pytest

from analysis import load, verdict
from harness import store
from tests.analysis.conftest import change_manifest, write_sweep


def judged(root: Path, read: str = "last", metric: str = "eval/accuracy") -> dict[str, verdict.Contrast]:
    found = verdict.judge(load.load(root, "made"))
    return {c.arm: c for c in found if c.metric == metric and c.read == read}


def words(root: Path, read: str = "last", metric: str = "eval/accuracy") -> dict[str, str]:
    return {arm: c.word for arm, c in judged(root, read, metric).items()}


def test_each_word_for_its_case(four_words: Path) -> None:
    expected = {"good": "trick", "bad": "trap", "same": "neutral", "noisy": "inconclusive"}
    assert words(four_words) == expected
    assert words(four_words, read="area") == expected  # flat curves: the area is the endpoint
    assert set(words(four_words, read="area", metric="policy/entropy").values()) == {"neutral"}


def test_effects_are_paired_differences_of_the_endpoint(four_words: Path) -> None:
    good = judged(four_words)["good"]
    assert good.effect is not None
    assert good.effect.mean == pytest.approx(0.05)  # the shared seed effect of ± .1 is gone
    assert good.effect.sd == pytest.approx(0.0016330, abs=1e-6)
    assert (good.baseline_mean, good.arm_mean) == (pytest.approx(0.5), pytest.approx(0.55))
    assert good.low_holm < good.effect.low and good.low_holm > 0


def test_seeds_that_would_settle_an_inconclusive_arm(four_words: Path) -> None:
    # differences .10 -.06 .08 -.04: mean .02, sd .0816; at .05/4 that takes a few hundred pairs
    noisy, good = judged(four_words)["noisy"], judged(four_words)["good"]
    assert noisy.seeds_more is not None and 150 < noisy.seeds_more < 250
    assert good.seeds_more == 0
    assert noisy.detectable == pytest.approx(0.0816 * 2.1, rel=0.03)


def test_a_real_effect_under_the_margin_says_so(tmp_path: Path) -> None:
    shift = {"a": (0.0, 0.0, 0.0, 0.0), "b": (0.0040, 0.0041, 0.0039, 0.0040)}

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.5 + shift[labels["arm"]][seed]}

    b = judged(write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, curve, seeds=4))["b"]
    assert (b.word, b.within_margin) == ("trick", True)


def test_a_goal_of_min_turns_the_words_round(four_words: Path) -> None:
    endpoint = {"metric": "eval/accuracy", "last": 2, "goal": "min", "margin": 0.01}
    found = words(change_manifest(four_words, endpoint=endpoint))
    assert found["good"] == "trap" and found["bad"] == "trick"


def test_no_verdict_under_three_seeds(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.9 if labels["arm"] == "b" else 0.1, "policy/entropy": 0.3}

    b = judged(write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, curve, seeds=2))["b"]
    assert (b.word, b.seeds_more) == ("description only", 1)
    assert math.isnan(b.p_holm) and math.isnan(b.low_holm)


def test_pairs_without_a_partner_are_left_out_and_survivors_are_counted(four_words: Path) -> None:
    plain = next(e for e in load.load(four_words, "made").runs if e.labels["arm"] == "plain" and e.seed == 2)
    store.Run(four_words / "runs" / plain.run).write_status("diverged")
    good = judged(four_words)["good"]
    assert good.effect is not None and good.effect.n == 3
    assert (good.missing_pairs, good.arm_diverged, good.baseline_diverged) == (1, 0, 1)


def test_strata_are_compared_apart_and_a_stratum_without_baseline_is_named(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        up = 0.05 if (labels["model"], labels["arm"]) == ("small", "b") else 0.0
        return {"eval/accuracy": 0.5 + up + 0.001 * seed * (labels["arm"] == "b")}

    axes = {"model": ["small", "large", "huge"], "arm": ["a", "b"]}
    root = write_sweep(tmp_path, axes, {"arm": "a"}, curve, seeds=3)
    runs = [e for e in load.read_manifest(root, "made")["runs"] if e["labels"] != {"model": "huge", "arm": "a"}]
    sweep = load.load(change_manifest(root, runs=runs), "made")
    found = {c.stratum["model"]: c.word for c in verdict.judge(sweep) if c.read == "last"}
    assert found == {"small": "trick", "large": "neutral"}
    assert verdict.without_baseline(sweep) == [{"model": "huge", "arm": "no a"}]


def test_one_axis_at_a_time_judges_every_axis_with_a_baseline(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        up = 0.05 * (labels["x"] == "1") - 0.05 * (labels["y"] == "1")
        return {"eval/accuracy": 0.5 + up + 0.001 * seed * (labels["x"] == "1" or labels["y"] == "1")}

    root = write_sweep(tmp_path, {"x": ["0", "1"], "y": ["0", "1"]}, {"x": "0", "y": "0"}, curve)
    runs = [e for e in load.read_manifest(root, "made")["runs"] if e["labels"] != {"x": "1", "y": "1"}]
    found = verdict.judge(load.load(change_manifest(root, runs=runs), "made"))
    assert [(c.axis, c.arm, c.word) for c in found if c.read == "last"] == [("x", "1", "trick"), ("y", "1", "trap")]


def thirsty(root: Path, tokens: float, recorded: bool = True) -> Path:
    """Arm b learns .01 per ten steps like arm a, and takes `tokens` times its tokens and half again its length."""

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        cost, longer = (tokens, 1.5) if labels["arm"] == "b" else (1.0, 1.0)
        found = {"eval/accuracy": 0.5 + 0.001 * step, "eval/length": 20.0 * longer + seed}
        return found | ({"count/tokens_generated": 100.0 * cost} if recorded else {})

    return write_sweep(root, {"arm": ["a", "b"]}, {"arm": "a"}, curve, seeds=3)


def test_an_arm_that_only_spends_more_is_a_trap_at_equal_tokens(tmp_path: Path) -> None:
    root = thirsty(tmp_path, 2.0)
    assert words(root)["b"] == "neutral"
    # a ends on 6,000 tokens; its last two evaluations, .55 and .56, were made by 5,000 and 6,000, where b, at steps
    # 25 and 30, has .525 and .53
    equal = judged(root, read="tokens")["b"]
    assert (equal.baseline_mean, equal.arm_mean) == (pytest.approx(0.555), pytest.approx(0.5275))
    assert (equal.word, equal.material) == ("trap", True)


def test_equal_tokens_are_the_endpoint_where_arms_cost_the_same(tmp_path: Path) -> None:
    root = thirsty(tmp_path, 1.0)
    assert judged(root, read="tokens")["b"].arm_mean == pytest.approx(judged(root)["b"].arm_mean)


def test_what_an_arm_costs_stands_beside_its_effect(tmp_path: Path) -> None:
    b = judged(thirsty(tmp_path, 1.25))["b"]
    assert b.tokens_change == pytest.approx(0.25)
    # 30 against 20, 31 against 21, 32 against 22
    assert b.length_change == pytest.approx((30 / 20 + 31 / 21 + 32 / 22) / 3 - 1)


def test_without_a_record_of_tokens_nothing_is_read_at_equal_tokens(tmp_path: Path) -> None:
    root = thirsty(tmp_path, 1.0, recorded=False)
    assert judged(root, read="tokens") == {} and math.isnan(judged(root)["b"].tokens_change)


def test_an_effect_is_material_where_its_whole_interval_lies_beyond_the_margin(four_words: Path) -> None:
    found = judged(four_words)
    assert {arm: c.material for arm, c in found.items()} == {"good": True, "bad": True, "same": False, "noisy": False}
    wide = {"metric": "eval/accuracy", "last": 2, "goal": "max", "margin": 0.0495}
    assert found["good"].low_holm < 0.0495 < 0.05
    good = judged(change_manifest(four_words, endpoint=wide))["good"]
    assert (good.word, good.material, good.within_margin) == ("trick", False, False)


def test_runs_that_an_axis_does_not_reach_are_no_arm_of_it(tmp_path: Path) -> None:
    axes = {"recipe": ["clip", "reinforce"], "high": ["0.20", "0.28"]}
    root = write_sweep(tmp_path, axes, {"high": "0.20"}, lambda *_: {"eval/accuracy": 0.5}, seeds=3)
    runs = load.read_manifest(root, "made")["runs"]
    for run in runs:
        if run["labels"]["recipe"] == "reinforce":
            run["labels"] = {"recipe": "reinforce"}
    sweep = load.load(change_manifest(root, runs=runs[:9]), "made")
    assert {(c.stratum["recipe"], c.arm) for c in verdict.judge(sweep)} == {("clip", "0.28")}


def test_the_metrics_that_judging_reads_are_all_named(tmp_path: Path) -> None:
    root = thirsty(tmp_path, 1.5)
    everything, named = load.load(root, "made"), verdict.metrics(load.read_manifest(root, "made"))
    assert verdict.judge(load.load(root, "made", named)) == verdict.judge(everything)
