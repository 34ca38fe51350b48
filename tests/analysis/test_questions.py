"""Errors over questions against hand numbers and statsmodels' clustered least squares."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from analysis import load, questions
from harness import store
from tests.analysis.conftest import write_sweep


def answers(right: dict[str, list[list[int]]], run: str = "a", step: int = 10, mode: str = "sample") -> pd.DataFrame:
    """Rows as `load.load_evals` has them; right: benchmark -> [question][sample]."""
    rows = [
        {"run": run, "step": step, "mode": mode, "benchmark": benchmark, "question": q, "sample": s, "right": bool(hit)}
        for benchmark, table in right.items()
        for q, samples in enumerate(table)
        for s, hit in enumerate(samples)
    ]
    return pd.DataFrame(rows)


def random_answers(seed: int, number: int = 60, samples: int = 4) -> pd.DataFrame:
    """Six questions of a template are equally hard; how hard is the same for every seed."""
    chance = np.repeat(np.random.default_rng(0).uniform(0.1, 0.9, number // 6), 6)[:, None]
    table = (np.random.default_rng(seed).random((number, samples)) < chance).astype(int).tolist()
    return answers({"made": table})


def test_accuracy_by_hand() -> None:
    # s̄ = 1, .5, 0, .5: mean .5, deviations .5 0 -.5 0, se = √(.5/(4·3)) = .2041
    # variances of the samples 0 .5 0 .5, over K = 2: √(.5)/4 = .1768
    one = questions.accuracy(answers({"b": [[1, 1], [0, 1], [0, 0], [1, 0]]})).iloc[0]
    assert one["accuracy"] == 0.5 and (one["questions"], one["samples"], one["clusters"]) == (4, 2, 4)
    assert [one["se"], one["se_sampling"]] == pytest.approx([math.sqrt(0.5 / 12), math.sqrt(0.5) / 4])


def test_clusters_by_hand() -> None:
    # clusters {0, 1}, {2, 3}: sums of deviations .5 and -.5, √(.5 · 2/1)/4 = .25
    rows = answers({"b": [[1, 1], [0, 1], [0, 0], [1, 0]]})
    groups = {("b", 0): "x", ("b", 1): "x", ("b", 2): "y", ("b", 3): "y"}
    one = questions.accuracy(rows, groups).iloc[0]
    assert (one["se"], one["clusters"]) == (0.25, 2)
    with pytest.raises(ValueError, match=r"no cluster for b question 2 \(2 such questions"):
        questions.accuracy(rows, {("b", 0): "x", ("b", 1): "x"})
    lone = questions.accuracy(rows, dict.fromkeys(groups, "x")).iloc[0]
    assert math.isnan(lone["se"])


@pytest.mark.parametrize("width", [1, 6, 7])
def test_standard_errors_agree_with_statsmodels(width: int) -> None:
    rows = random_answers(1)
    groups = {("made", q): q // width for q in range(60)}
    means = rows.groupby("question")["right"].mean().to_numpy()
    theirs = sm.OLS(means, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": np.arange(60) // width})
    assert questions.accuracy(rows, groups)["se"][0] == pytest.approx(theirs.bse[0])


def test_a_difference_is_paired_by_question_and_agrees_with_statsmodels() -> None:
    arm, baseline = random_answers(1), random_answers(2).assign(run="b")
    groups = {("made", q): q // 6 for q in range(60)}
    found = questions.difference(arm, baseline, groups).iloc[0]
    x, y = (side.groupby("question")["right"].mean().to_numpy() for side in (arm, baseline))
    clustered = {"cov_type": "cluster", "cov_kwds": {"groups": np.arange(60) // 6}}
    theirs = [sm.OLS(z, np.ones(60)).fit(**clustered) for z in (x - y, x, y)]
    assert found["difference"] == pytest.approx(theirs[0].params[0])
    assert found["se"] == pytest.approx(theirs[0].bse[0])
    assert found["se_unpaired"] == pytest.approx(math.hypot(theirs[1].bse[0], theirs[2].bse[0]))
    assert found["correlation"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert 1 < found["ratio"] == pytest.approx(found["se_unpaired"] / found["se"])


def test_pairing_by_hand() -> None:
    # differences 0 .5 0 .5: mean .25, se = √(.25/12); sides √(.5/12) and, of 1 0 0 0, √(.75/12)
    arm, baseline = answers({"b": [[1, 1], [0, 1], [0, 0], [1, 0]]}), answers({"b": [[1, 1], [0, 0], [0, 0], [0, 0]]})
    found = questions.difference(arm, baseline).iloc[0]
    assert found["difference"] == 0.25
    assert [found["se"], found["se_unpaired"]] == pytest.approx([math.sqrt(0.25 / 12), math.sqrt(1.25 / 12)])
    assert found["ratio"] == pytest.approx(math.sqrt(5))


def test_two_equal_checkpoints_differ_by_exactly_nothing() -> None:
    found = questions.difference(random_answers(1), random_answers(1)).iloc[0]
    assert (found["difference"], found["se"]) == (0, 0) and math.isnan(found["ratio"])
    assert found["correlation"] == pytest.approx(1)


def test_averages_by_hand() -> None:
    # "one": 4 questions, mean .5, se √(.5/12); "two": s̄ 1 and .5, mean .75, se = √(.125/2) = .25
    rows = answers({"one": [[1, 1], [0, 1], [0, 0], [1, 0]], "two": [[1, 1], [1, 0]]})
    table = questions.accuracy(rows).set_index("benchmark")
    assert table.loc["two", ["accuracy", "se"]].tolist() == pytest.approx([0.75, 0.25])
    macro, weighted = table.loc[questions.MACRO], table.loc[questions.WEIGHTED]
    assert macro["accuracy"] == 0.625 and weighted["accuracy"] == pytest.approx((4 * 0.5 + 2 * 0.75) / 6)
    assert macro["se"] == pytest.approx(math.sqrt(0.5 / 12 + 0.0625) / 2)
    assert weighted["se"] == pytest.approx(math.sqrt(16 * 0.5 / 12 + 4 * 0.0625) / 6)
    assert macro["questions"] == weighted["questions"] == 6


def test_benchmarks_may_differ_in_samples_and_count_the_same() -> None:
    # "few": s̄ 1 0 0 1, se √(1/12); "many": s̄ .5 and 1, se .25, samples' variance 1/3 and 0 over K = 4
    rows = answers({"few": [[1], [0], [0], [1]], "many": [[1, 1, 0, 0], [1, 1, 1, 1]]})
    table = questions.accuracy(rows).set_index("benchmark")
    assert table.loc[["few", "many"], "samples"].tolist() == [1, 4]
    assert table.loc["many", ["accuracy", "se", "se_sampling"]].tolist() == pytest.approx(
        [0.75, 0.25, math.sqrt(1 / 12) / 2]
    )
    macro = table.loc[questions.MACRO]
    assert (macro["accuracy"], macro["se"]) == (0.625, pytest.approx(math.sqrt(1 / 12 + 0.0625) / 2))
    assert math.isnan(macro["se_sampling"])  # of one sample nobody knows
    other = answers({"few": [[0], [0], [0], [1]], "many": [[1, 1, 1, 1], [1, 1, 1, 1]]})
    found = questions.difference(rows, other).set_index("benchmark")["difference"]
    assert found[["few", "many", questions.MACRO]].tolist() == [0.25, -0.25, 0.0]


def test_one_sample_has_no_sampling_error_but_an_error_over_questions() -> None:
    table = questions.accuracy(answers({"b": [[1], [0], [0], [1]]}))
    assert table["se"][0] == pytest.approx(math.sqrt(1 / 12))
    assert table["se_sampling"].isna().all()


def test_a_checkpoint_is_the_runs_last_evaluation_unless_a_step_is_named() -> None:
    early, late = answers({"b": [[1], [0]]}, step=10), answers({"b": [[1], [1]]}, step=20)
    greedy = answers({"b": [[0], [0]]}, step=20, mode="greedy")
    rows = pd.concat([early, late, greedy], ignore_index=True)
    assert questions.checkpoint(rows, "a")["right"].tolist() == [True, True]
    assert questions.checkpoint(rows, "a", step=10)["right"].tolist() == [True, False]
    assert questions.checkpoint(rows, "a", mode="greedy")["right"].tolist() == [False, False]
    with pytest.raises(ValueError, match=r"was not evaluated on step 15 \(it was on: 10, 20"):
        questions.checkpoint(rows, "a", step=15)
    with pytest.raises(ValueError, match=r"no evaluation of mode 'beam' \(it has: greedy, sample"):
        questions.checkpoint(rows, "a", mode="beam")


def test_a_sweeps_checkpoints_are_compared_by_arm_and_seed(tmp_path: Path) -> None:
    axes = {"model": ["small", "large"], "arm": ["a", "b"]}
    root = write_sweep(tmp_path, axes, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=2, steps=10)
    for entry in load.load(root, "made").runs:
        right = [[1, 1], [0, 1], [0, 0], [1, 0]] if entry.labels["arm"] == "b" else [[1, 1], [0, 0], [0, 0], [0, 0]]
        file = store.Run(root / "runs" / entry.run).attempt_file("evals", 0)
        file.parent.mkdir(exist_ok=True)
        lines = [
            {"step": s, "benchmark": "made", "mode": "sample", "correct": c}
            for s, c in ((0, right[:1] * 4), (10, right))
        ]
        file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    lost = next(e for e in load.load(root, "made").runs if e.labels == {"model": "large", "arm": "b"} and e.seed == 0)
    store.Run(root / "runs" / lost.run).write_status("failed")
    table = questions.against_baseline(load.load(root, "made"), load.load_evals(root, "made"), "arm")
    assert table[["model", "arm", "seed"]].values.tolist() == [["small", "b", 0], ["small", "b", 1], ["large", "b", 1]]
    assert table["difference"].tolist() == [0.25] * 3  # as in the test of pairing by hand, not of step 0
    assert table["se"].tolist() == pytest.approx([math.sqrt(0.25 / 12)] * 3)


def test_checkpoints_on_different_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="different questions, such as b question 2"):
        questions.difference(answers({"b": [[1], [0], [1]]}), answers({"b": [[1], [0]]}))
