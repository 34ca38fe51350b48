"""Words, claims, reports and figures on sweeps whose truth is known."""

import csv
import json
import warnings
from pathlib import Path

import pytest

from analysis import claims, figures, load, report, stats, verdict
from harness import store
from tests.analysis.conftest import write_sweep


def words(root: Path, metric: str = "eval/accuracy") -> dict[str, str]:
    judged = verdict.judge(load.load(root, "made"))
    return {c.arm: c.word for c in judged if c.metric == metric and c.read != "area"}


def test_each_word_for_its_case(four_words: Path) -> None:
    assert words(four_words) == {"good": "trick", "bad": "trap", "same": "neutral", "noisy": "inconclusive"}


def test_effects_are_paired_differences_of_the_endpoint(four_words: Path) -> None:
    contrast = next(c for c in verdict.judge(load.load(four_words, "made")) if c.arm == "good" and c.read != "area")
    assert contrast.effect is not None
    assert contrast.effect.mean == pytest.approx(0.05)  # the shared seed effect of ± .1 is gone
    assert contrast.effect.sd == pytest.approx(0.0016330, abs=1e-6)
    assert (contrast.baseline_mean, contrast.arm_mean) == (pytest.approx(0.5), pytest.approx(0.55))


def test_a_goal_of_min_turns_the_words_round(four_words: Path) -> None:
    path = four_words / "sweeps/made/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["endpoint"]["goal"] = "min"
    path.write_text(json.dumps(manifest))
    assert words(four_words)["good"] == "trap" and words(four_words)["bad"] == "trick"


def test_no_verdict_under_three_seeds(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.9 if labels["arm"] == "b" else 0.1, "policy/entropy": 0.3}

    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, curve, seeds=2)
    assert words(root) == {"b": "description only"}
    assert "description only (1 seed more)" in report.verdict(root, "made")


def test_missing_runs_are_listed_and_their_pairs_left_out(four_words: Path) -> None:
    run = next(e for e in json.loads((four_words / "sweeps/made/manifest.json").read_text())["runs"] if e["seed"] == 2)
    store.Run(four_words / "runs" / run["run"]).write_status("failed")  # a run of the baseline
    sweep = load.load(four_words, "made")
    assert [(m.run, m.state) for m in sweep.missing] == [(run["run"], "failed")]
    assert {c.effect.n for c in verdict.judge(sweep) if c.effect} == {3}
    assert {c.missing_pairs for c in verdict.judge(sweep)} == {1}
    text = report.verdict(four_words, "made")
    assert "1 of 20 runs are not done" in text and run["run"] in text


def test_a_replayed_attempt_is_cut_and_a_torn_line_skipped(four_words: Path) -> None:
    run = store.Run(next((four_words / "runs").iterdir()))
    before = run.read("metrics")
    replay = [json.dumps(record) for record in before if record["step"] >= 40]
    run.attempt_file("metrics", 1).write_text("\n".join(replay) + '\n{"step": 61, "m": {"eval/acc')
    assert run.read("metrics") == before


def test_an_empty_sweep_says_so(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {}, seeds=3)
    for run in (root / "runs").iterdir():
        (run / "status.json").unlink()
    text = report.verdict(root, "made")
    assert "6 of 6 runs are not done" in text and "description only (3 seeds more)" in text
    assert figures.draw(root, "made") == []
    with pytest.raises(FileNotFoundError, match=r"no sweep 'mad'.*there are: made"):
        report.verdict(root, "mad")


def clip_sweep(root: Path, gain: float, seeds: int = 4) -> Path:
    """Aligned models gain `gain` in accuracy per 0.08 of upper clip, base models nothing."""

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        high = float(labels["eps_high"]) - 0.20
        jitter = 0.001 * ((seed * 7 + int(1000 * high)) % 3 - 1)
        up = gain * high / 0.08 if "aligned" in labels["model"] else 0.0
        return {"eval/accuracy": 0.4 + 0.05 * seed + up + jitter, "policy/entropy": 0.2 + high + jitter}

    axes = {"model": ["small_base", "small_aligned", "large_aligned"], "eps_high": ["0.20", "0.24", "0.28", "0.32"]}
    keys = {"model": "model", "eps_high": "tricks.surrogate.high"}
    figs = ["accuracy_by_eps_high", "entropy_by_model"]
    return write_sweep(
        root, axes, {"eps_high": "0.20"}, curve, seeds, keys=keys, claims=["T4", "T6", "T5"], figures=figs
    )


def test_claims_of_a_world_where_clip_higher_helps(tmp_path: Path) -> None:
    found = {c.id: c for c in claims.check(load.load(clip_sweep(tmp_path, 0.04), "made"))}
    assert found["T4"].word == "supported"
    assert {f.outcome for f in found["T4"].findings} == {"supported"} and len(found["T4"].findings) == 5
    assert found["T6"].word == "contradicted"  # the large model grows with the clip as well: 0.28 is not best
    assert [f.outcome for f in found["T6"].findings] == ["supported", "contradicted"]
    assert found["T5"].word.startswith("not testable here")


def test_claims_of_a_world_where_it_does_nothing(tmp_path: Path) -> None:
    found = {c.id: c.word for c in claims.check(load.load(clip_sweep(tmp_path, 0.0), "made"))}
    assert found["T4"] == "contradicted" and found["T6"] == "contradicted"


@pytest.mark.parametrize(
    ("expect", "interval", "equivalent", "outcome"),
    [
        ("higher", (0.01, 0.05), False, "supported"),
        ("higher", (-0.05, -0.01), False, "contradicted"),
        ("higher", (-0.002, 0.003), True, "contradicted"),
        ("higher", (-0.02, 0.05), False, "undecided"),
        ("lower", (-0.05, -0.01), False, "supported"),
        ("not_higher", (-0.05, 0.005), False, "supported"),
        ("not_higher", (0.02, 0.05), False, "contradicted"),
        ("not_higher", (-0.01, 0.05), False, "undecided"),
        ("no_difference", (-0.004, 0.004), True, "supported"),
        ("no_difference", (0.02, 0.03), False, "contradicted"),
        ("no_difference", (-0.02, 0.03), False, "undecided"),
    ],
)
def test_what_an_interval_says_of_an_expectation(
    expect: str, interval: tuple[float, float], equivalent: bool, outcome: str
) -> None:
    effect = stats.Paired(sum(interval) / 2, *interval, sd=0.01, n=3, p=0.05)
    assert claims.outcome_of(expect, effect, equivalent, margin=0.01) == outcome


def test_every_claim_is_well_formed() -> None:
    for name, claim in claims.known().items():
        assert claim["text"] and claim["source"], name
        assert claim["tests"] or claim["needs"], name
        for test in claim["tests"]:
            assert test["expect"] in claims.EXPECTATIONS, name
    assert {*claims.known()} == {f"T{i}" for i in range(1, 9)} | {"C9", "C10", "C11"}


def test_figures_draw_without_warning_and_their_csv_holds_the_plotted_numbers(tmp_path: Path) -> None:
    root = clip_sweep(tmp_path, 0.04)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = figures.draw(root, "made")
    assert [path.name for path in drawn] == ["accuracy_by_eps_high.png", "entropy_by_model.png", "effects.png"]
    assert all(path.with_suffix(suffix).stat().st_size > 1000 for path in drawn for suffix in (".png", ".pdf"))
    with open(drawn[0].with_suffix(".csv")) as file:
        rows = list(csv.DictReader(file))
    row = next(r for r in rows if (r["model"], r["eps_high"], r["step"]) == ("small_aligned", "0.28", "0"))
    # seeds .40 .45 .50 .55 + .04 + jitter ((7·seed + 80) mod 3 - 1)/1000 = .001 -.001 .000 .001, in percent
    values = [44.1, 48.9, 54.0, 59.1]
    assert float(row["mean"]) == pytest.approx(sum(values) / 4)
    assert float(row["high"]) == pytest.approx(stats.paired(values).high)
    assert row["n"] == "4"
    first = drawn[0].with_suffix(".csv").read_bytes()
    assert figures.draw(root, "made")[0].with_suffix(".csv").read_bytes() == first


def test_an_unknown_figure_names_the_metrics(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no figure 'accurracy_by_arm'.*accuracy, entropy"):
        figures._metric("accurracy_by_arm")


def test_report_embeds_figures_and_json_is_strict(tmp_path: Path) -> None:
    root = clip_sweep(tmp_path, 0.04)
    figures.draw(root, "made")
    text = report.markdown(root, "made").read_text()
    assert "![effects](figures/effects.png)" in text and "**T4: supported.**" in text
    assert "| small_aligned | 0.28 |" in text
    value = json.loads((root / "sweeps/made/verdict.json").read_text(), parse_constant=lambda c: pytest.fail(c))
    assert {c["word"] for c in value["contrasts"]} <= {"trick", "trap", "neutral", "inconclusive", "higher", "lower"}
    assert max(len(line) for line in report.verdict(root, "made").splitlines()) <= 100
