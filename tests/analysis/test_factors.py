"""The analysis of variance against sums of squares by hand, and its verdict on sweeps whose interaction is known."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats as reference

from analysis import factors, load
from harness import store
from tests.analysis.conftest import Curve, change_manifest, write_sweep

# model -> arm -> score by seed: 2 × 2 × 3. Arms differ by 1 2 3 on small and by 4 6 8 on large.
SCORES = {"small": {"a": [1, 2, 3], "b": [2, 4, 6]}, "large": {"a": [5, 4, 3], "b": [9, 10, 11]}}


def hand_table() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"arm": arm, "model": model, "seed": seed, "score": float(score)}
            for model, by_arm in SCORES.items()
            for arm, scores in by_arm.items()
            for seed, score in enumerate(scores)
        ]
    )


def test_sums_of_squares_by_hand() -> None:
    # Differences within blocks: means 2 (small) and 6 (large), 4 in all. N = 12, six blocks of two.
    #   arm         6/2 · 4² = 48            arm : model  3/2 · ((2 - 4)² + (6 - 4)²) = 12
    #   residual    ½ · (1 + 0 + 1 + 4 + 0 + 4) = 5 on 2 · 2 df
    # Block means 1.5 3 4.5 (small), 7 7 7 (large), 5 in all; seeds' means 4.25 5 5.75.
    #   model       6 · ((3 - 5)² + (7 - 5)²) = 48
    #   seed:model  2 · 4 · .75² = 4.5 on 2 df
    arm, model, both = factors.anova(hand_table(), ["arm", "model"])
    assert (arm.factors, model.factors, both.factors) == (("arm",), ("model",), ("arm", "model"))
    assert [term.ss for term in (arm, model, both)] == pytest.approx([48, 48, 12])
    assert [term.df for term in (arm, model, both)] == [1, 1, 1]
    assert [term.error_ss for term in (arm, model, both)] == pytest.approx([5, 4.5, 5])
    assert [term.error_df for term in (arm, model, both)] == [4, 2, 4]
    assert [term.f for term in (arm, model, both)] == pytest.approx([48 / 1.25, 48 / 2.25, 12 / 1.25])
    assert [term.omega for term in (arm, both)] == pytest.approx([37.4 / 49.4, 8.6 / 20.6])


def test_p_values_are_those_of_the_t_tests_that_two_levels_come_to() -> None:
    arm, model, both = factors.anova(hand_table(), ["arm", "model"])
    assert both.p == pytest.approx(reference.ttest_ind([1, 2, 3], [4, 6, 8]).pvalue)
    assert model.p == pytest.approx(reference.ttest_rel([1.5, 3, 4.5], [7, 7, 7]).pvalue)
    # 4 / √(pooled variance 2.5 / 6) on 4 degrees of freedom
    assert arm.p == pytest.approx(2 * reference.t.sf(4 / math.sqrt(2.5 / 6), 4))


def test_one_arm_axis_alone_is_a_randomized_block_design() -> None:
    table = hand_table().query("model == 'small'").drop(columns="model")
    (arm,) = factors.anova(table, ["arm"])
    assert arm.p == pytest.approx(reference.ttest_rel([1, 2, 3], [2, 4, 6]).pvalue)
    assert (arm.error_ss, arm.error_df) == (pytest.approx(1.0), 2)


def test_differences_and_means_by_hand() -> None:
    table = hand_table()
    whom = factors.for_whom(table, ["arm", "model"], "a").set_index("level")
    assert whom["difference"].to_dict() == pytest.approx({"": 4, "small": 2, "large": 6})
    # over both models the seeds' differences are 2.5 4 5.5: sd 1.5, t(.975, 2) = 4.3027
    assert whom.loc["", "low"] == pytest.approx(4 - 4.3027 * 1.5 / math.sqrt(3), abs=1e-3)
    assert whom.loc["", "by"] == "" and whom.loc["small", "by"] == "model" and set(whom["n"]) == {3}
    means = factors.level_means(table, ["arm", "model"]).set_index("level")
    assert means["mean"].to_dict() == pytest.approx({"a": 3, "b": 7, "small": 3, "large": 7})
    # small by seed: 1.5 3 4.5, sd 1.5
    assert means.loc["small", "high"] == pytest.approx(3 + 4.3027 * 1.5 / math.sqrt(3), abs=1e-3)


def noisy(gain: dict[str, float], models: list[str], seed_sd: float = 0.05, sd: float = 0.01) -> Curve:
    """Scores of every arm, with a seed effect that a stratum's arms share; `gain` of arm b by data."""

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        place = models.index(labels["model"])
        shared = np.random.default_rng([seed, place, labels["data"] == "hard"]).normal(0, seed_sd)
        own = np.random.default_rng([seed, place, labels["data"] == "hard", ord(labels["arm"])]).normal(0, sd)
        up = gain[labels["data"]] * (labels["arm"] == "b")
        return {"eval/accuracy": 0.5 + 0.1 * place + shared + own + up}

    return curve


def test_an_interaction_that_is_there_is_found_and_only_that(tmp_path: Path) -> None:
    models = ["small", "large"]
    axes = {"model": models, "data": ["easy", "hard"], "arm": ["a", "b"]}
    root = write_sweep(tmp_path, axes, {"arm": "a"}, noisy({"easy": -0.05, "hard": 0.05}, models), seeds=4, steps=20)
    found = factors.analyse(load.load(root, "made"), "arm")
    by = {term.factors: term for term in found.terms}
    assert list(by)[:3] == [("arm",), ("model",), ("data",)] and len(by) == 7
    assert by["arm", "data"].p < 1e-4 and by["arm", "data"].omega > 0.5
    assert by["arm",].p > 0.05 and by["arm", "model"].p > 0.05 and by["arm", "model", "data"].p > 0.05
    whom = found.for_whom.set_index("level")["difference"]
    assert whom["easy"] == pytest.approx(-0.05, abs=0.02) and whom["hard"] == pytest.approx(0.05, abs=0.02)
    assert found.factors == ("arm", "model", "data") and "4 seeds, 32 runs." in found.says


def test_without_effects_the_terms_of_arms_are_found_as_often_as_stated() -> None:
    rng, low = np.random.default_rng(5), 0
    for _ in range(100):
        block, arm = rng.normal(0, 1, (2, 1, 4)), rng.normal(0, 0.3, (2, 2, 4))
        scores = block + arm  # [model, arm, seed]
        rows = [
            {"arm": "ab"[a], "model": "ML"[m], "seed": s, "score": scores[m, a, s]} for m, a, s in np.ndindex(2, 2, 4)
        ]
        low += sum(term.p < 0.05 for term in factors.anova(pd.DataFrame(rows), ["arm", "model"]))
    assert 3 <= low <= 30  # of 300, 15 expected, standard error 3.8


def test_the_balanced_part_gives_up_what_lacks_most(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        noise = np.random.default_rng([seed, int(labels["high"][2:]), len(labels["model"])]).normal(0, 0.01)
        return {"eval/accuracy": 0.5 + noise}

    axes = {"model": ["base", "aligned"], "high": ["0.20", "0.24", "0.28"]}
    root = write_sweep(tmp_path, axes, {"high": "0.20"}, curve, seeds=4, steps=20)
    runs = load.read_manifest(root, "made")["runs"]
    runs = [run for run in runs if run["labels"] != {"model": "base", "high": "0.24"}]
    change_manifest(root, runs=runs)
    lost = next(r for r in runs if r["seed"] == 2 and r["labels"] == {"model": "aligned", "high": "0.28"})
    store.Run(root / "runs" / lost["run"]).write_status("failed")
    found = factors.analyse(load.load(root, "made"), "high")
    assert found.says == (
        "Factorial part: high (0.20, 0.28) × model (base, aligned), 3 seeds, 12 runs; not in it: high 0.24; seed 2."
    )
    assert [term.factors for term in found.terms] == [("high",), ("model",), ("high", "model")]


def test_other_arm_axes_stand_at_their_baseline(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        noise = np.random.default_rng([seed, *map(int, labels.values())]).normal(0, 0.001)
        return {"eval/accuracy": 0.5 + noise + 0.1 * (labels["x"] == "1") + 0.2 * (labels["y"] == "1")}

    axes = {"model": ["1", "2"], "x": ["0", "1"], "y": ["0", "1"]}
    root = write_sweep(tmp_path, axes, {"x": "0", "y": "0"}, curve, steps=20)
    runs = load.read_manifest(root, "made")["runs"]
    change_manifest(root, runs=[run for run in runs if (run["labels"]["x"], run["labels"]["y"]) != ("1", "1")])
    found = factors.analyse(load.load(root, "made"), "y")
    assert found.factors == ("y", "model") and found.says.endswith("× model (1, 2), 3 seeds, 12 runs.")
    assert found.for_whom["difference"][0] == pytest.approx(0.2, abs=0.005)


def test_a_design_without_a_factorial_part_says_so(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=1)
    found = factors.analyse(load.load(root, "made"), "arm")
    assert (found.terms, found.factors) == ([], ()) and found.means.empty and found.for_whom.empty
    assert found.says == "No factorial part: no other level of arm has finished beside a on two seeds."


def test_arms_that_are_crossed_with_nothing_say_so(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.5 + 0.01 * seed * (labels["arm"] == "b") + 0.1 * seed}

    root = write_sweep(tmp_path, {"arm": ["a", "b"], "model": ["small"]}, {"arm": "a"}, curve, seeds=3)
    found = factors.analyse(load.load(root, "made"), "arm")
    assert [term.factors for term in found.terms] == [("arm",)]
    assert found.says.endswith("Nothing is crossed with arm: for whom it works cannot be said.")


def test_seeds_that_are_all_alike_give_no_error_to_test_against(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.5 + 0.1 * (labels["arm"] == "b")}

    root = write_sweep(tmp_path, {"arm": ["a", "b"], "model": ["s", "l"]}, {"arm": "a"}, curve, seeds=3)
    for term in factors.analyse(load.load(root, "made"), "arm").terms:
        assert math.isnan(term.f) and math.isnan(term.p) and math.isnan(term.omega)
