"""`verdict` for machines: JSON and nothing else, and an exit status that follows the outcomes asked for."""

import json
from pathlib import Path

import pytest

from analysis import outcomes, report, style, terminal
from analysis.claims import OUTCOMES
from harness import store
from harness.sweep.cli import main
from tests.analysis.conftest import change_manifest, clip_sweep, write_sweep
from tests.analysis.many import four_axes


def verdict(root: Path, *words: str) -> int:
    return main(["--root", str(root), "verdict", "made", *words])


def test_json_is_the_file_and_nothing_else(four_words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(four_words, "--json") == 0
    said = capsys.readouterr()
    assert said.err == "" and said.out == (four_words / "sweeps/made/verdict.json").read_text()
    words = {c["arm"]: c["word"] for c in json.loads(said.out)["contrasts"] if c["read"] == "last"}
    assert words == {"good": "trick", "bad": "trap", "same": "neutral", "noisy": "inconclusive"}


def test_an_outcome_that_was_met_fails_with_one_line(four_words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(four_words, "--fail-on", "trap,inconclusive") == 1
    said = capsys.readouterr()
    assert said.err == "made: trap: arm bad; inconclusive: arm noisy\n"
    assert said.out.rstrip("\n") == terminal.verdict(four_words, "made").rstrip("\n")
    assert verdict(four_words, "--fail-on", "contradicted", "--fail-on=Description-Only") == 0
    assert capsys.readouterr().err == ""


def test_with_json_the_line_stays_out_of_it(four_words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(four_words, "--json", "--fail-on", "neutral") == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["sweep"] == "made" and said.err == "made: neutral: arm same\n"


def test_claims_fail_by_their_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip_sweep(tmp_path, -0.04)  # a higher clip hurts where the claims say that it helps
    assert verdict(tmp_path, "--fail-on", "contradicted") == 1
    assert capsys.readouterr().err == "made: contradicted: T4, T6\n"
    assert verdict(tmp_path, "--fail-on", "supported") == 0


def test_an_arm_is_named_with_its_place_and_many_are_counted(tmp_path: Path) -> None:
    judged = report.judge(clip_sweep(tmp_path, 0.04), "made")
    shown = "eps_high 0.24 (small aligned), eps_high 0.28 (small aligned), eps_high 0.32 (small aligned)"
    assert outcomes.matched(judged, ["trap"]) == ""
    assert outcomes.matched(judged, ["trick"]) == f"trick: {shown}, eps_high 0.24 (large aligned) and 2 more"


def test_whole_curves_and_entropy_fail_nothing(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        dip = 0.1 + 0.001 * seed if labels["arm"] == "late" and step < 40 else 0.0
        return {"eval/accuracy": 0.5 + 0.05 * seed - dip, "policy/entropy": 0.3 - dip}

    root = write_sweep(tmp_path, {"arm": ["plain", "late"]}, {"arm": "plain"}, curve)
    judged = report.judge(root, "made")
    assert {(c.read, c.metric): c.word for c in judged.contrasts} == {
        ("last", "eval/accuracy"): "neutral",
        ("area", "eval/accuracy"): "trap",
        ("area", "policy/entropy"): "lower",
    }
    assert outcomes.matched(judged, ["trap"]) == ""


def test_an_unknown_outcome_is_refused_with_the_nearest(four_words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(four_words, "--fail-on", "trap,contradictd") == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: --fail-on: no outcome 'contradictd'; did you mean 'contradicted'? (there are: ")
    assert "trap" in said.err and said.out == ""


def test_the_words_are_those_of_claims_and_arms() -> None:
    assert set(OUTCOMES) < set(outcomes.OF_CLAIMS) and set(report.CLAIM_GLYPHS) < set(outcomes.OF_CLAIMS)
    assert set(style.WORDS) - set(outcomes.OF_ARMS) == {"higher", "lower"}  # of entropy, which is beside the verdict


def test_of_many_axes_the_terminal_shows_the_endpoint_and_all_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    four_axes(tmp_path)
    for words, beside in (([], 0), (["--all"], 4)):
        assert verdict(tmp_path, *words) == 0
        said = capsys.readouterr().out
        assert said.count("The whole curve, mean height: ") == beside
        assert said.count("mean of the last 2 evaluations: ") == 4
        assert ("`verdict made --all`" in said) == (not words)
        assert max(map(len, said.splitlines())) <= 100


def test_a_sweep_that_still_runs_says_that_its_words_are_provisional(four_words: Path) -> None:
    runs = sorted((four_words / "runs").iterdir())
    store.Run(runs[-1]).write_status("failed")
    assert "Provisional" not in terminal.verdict(four_words, "made")  # nothing is to come
    for run in runs[-3:-1]:
        store.Run(run).write_status("stopped")
    assert "Provisional: 2 runs still to come. Holm's correction grows" in terminal.verdict(four_words, "made")


def test_few_axes_show_all(tmp_path: Path, four_words: Path) -> None:
    assert "The whole curve, mean height: arm" in terminal.verdict(change_manifest(four_words), "made")
