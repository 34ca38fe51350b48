"""Figures and reports: the plotted numbers, the width, the files, and what is said of nothing."""

import csv
import json
import warnings
from pathlib import Path

import pytest

from analysis import figures, load, markdown, report, stats, style, tables, terminal, text
from harness import store
from tests.analysis.conftest import change_manifest, clip_sweep, write_sweep


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    root = clip_sweep(tmp_path_factory.mktemp("clip"), 0.04)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return root, figures.draw(root, "made")


def read(path: Path) -> list[dict[str, str]]:
    with open(path) as file:
        return list(csv.DictReader(file))


def test_each_figure_is_a_png_a_pdf_and_a_csv(drawn: tuple[Path, list[Path]]) -> None:
    assert [path.name for path in drawn[1]] == ["accuracy_by_eps_high.png", "entropy_by_model.png", "effects.png"]
    for path in drawn[1]:
        assert all(path.with_suffix(suffix).stat().st_size > 1000 for suffix in (".png", ".pdf", ".csv"))


def test_the_csv_holds_the_plotted_numbers(drawn: tuple[Path, list[Path]]) -> None:
    rows = read(drawn[1][0].with_suffix(".csv"))
    row = next(r for r in rows if (r["model"], r["eps_high"], r["step"]) == ("small_aligned", "0.28", "0"))
    # seeds .40 .45 .50 .55 + .04 + jitter ((7·seed + 80) mod 3 - 1)/1000 = .001 -.001 .000 .001, in percent
    values = [44.1, 48.9, 54.0, 59.1]
    assert float(row["mean"]) == pytest.approx(sum(values) / 4)
    assert float(row["raw"]) == pytest.approx(sum(values) / 4)  # flat curves: smoothing changes nothing
    assert float(row["high"]) == pytest.approx(stats.paired(values).high)
    assert (row["n"], row["band"], row["segment"]) == ("4", "t", "0")
    effect = next(
        r for r in read(drawn[1][2].with_suffix(".csv")) if r["model"] == "small_aligned" and r["arm"] == "0.28"
    )
    assert float(effect["mean"]) == pytest.approx(0.04, abs=0.001) and effect["word"] == "trick"


def test_a_dozen_arms_leave_room_for_their_curves(tmp_path: Path) -> None:
    arms = ["plain", *(f"published_recipe_{i}" for i in range(11))]
    root = write_sweep(tmp_path, {"arm": arms}, {"arm": "plain"}, lambda *_: {"eval/accuracy": 0.5}, seeds=2, steps=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the layout warns where the legend takes all of the panel
        (curves, _) = figures.draw(root, "made")
    assert {row["arm"] for row in read(curves.with_suffix(".csv"))} == set(arms)


def test_drawing_again_gives_the_same_bytes(drawn: tuple[Path, list[Path]]) -> None:
    root, paths = drawn
    before = [path.with_suffix(suffix).read_bytes() for path in paths for suffix in (".csv", ".png")]
    figures.draw(root, "made")
    assert [path.with_suffix(suffix).read_bytes() for path in paths for suffix in (".csv", ".png")] == before


def test_a_mean_never_jumps_where_one_seed_has_stopped(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"policy/entropy": float(seed)} if seed or step < 30 else {}

    root = write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, curve, figures=["entropy_by_arm"])
    sweep = load.load(root, "made")
    table = tables.curve_table(sweep, tables.curves(sweep, "entropy_by_arm"))
    assert table["step"].max() == 29 and set(table["mean"]) == {1.0}


def test_panels_are_the_other_axes_with_the_named_one_in_columns(tmp_path: Path) -> None:
    axes = {"model": ["s", "l"], "data": ["easy", "hard"], "arm": ["a", "b"]}
    root = write_sweep(tmp_path, axes, {"arm": "a"}, lambda *_: {}, seeds=1)
    sweep = load.load(root, "made")
    by_data, by_arm = tables.curves(sweep, "reward_std_by_data"), tables.curves(sweep, "accuracy_by_arm")
    assert (by_data.lines, by_data.columns, len(by_data.panels)) == ("arm", "data", 4)
    assert (by_arm.lines, by_arm.columns) == ("arm", "data")
    assert tables.curves(sweep, "accuracy_by_model").columns == "model"
    bare = load.load(change_manifest(root, baseline={}), "made")
    assert tables.curves(bare, "accuracy_by_model").lines == "model"


def test_a_wrong_figure_names_the_metrics_or_the_axes(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, lambda *_: {}, seeds=1)
    with pytest.raises(ValueError, match=r"no figure 'accurracy_by_arm'.*accuracy, "):
        figures.draw(change_manifest(root, figures=["accurracy_by_arm"]), "made")
    with pytest.raises(ValueError, match=r"no axis 'am' \(there are: arm\)"):
        tables.curves(load.load(root, "made"), "accuracy_by_am")


def test_the_text_fits_a_hundred_columns_and_says_the_words(drawn: tuple[Path, list[Path]]) -> None:
    said = terminal.verdict(drawn[0], "made")
    assert max(len(line) for line in said.splitlines()) <= text.WIDTH
    assert "48 of 48 runs done" in said and "✓ T4 SUPPORTED: 5 findings, 5 supported" in said
    row = next(line for line in said.splitlines() if line.startswith("    0.28"))
    assert row.split()[:4] == ["0.28", "47.5", "→", "47.5"] and row.endswith("○ neutral")


def test_the_report_embeds_figures_and_json_is_strict(drawn: tuple[Path, list[Path]]) -> None:
    page = markdown.write(drawn[0], "made").read_text()
    assert "![effects](figures/effects.png)" in page and "**T4: supported** (5 findings, 5 supported)" in page
    assert "| small_aligned | 0.28 |" in page
    file = drawn[0] / "sweeps/made/verdict.json"
    value = json.loads(file.read_text(), parse_constant=lambda c: pytest.fail(c))
    assert {c["word"] for c in value["contrasts"]} <= set(style.WORDS)
    assert list(value) == sorted(value)


def test_missing_and_diverged_runs_are_in_every_output(four_words: Path) -> None:
    runs = {(e.labels["arm"], e.seed): e.run for e in load.load(four_words, "made").runs}
    store.Run(four_words / "runs" / runs["plain", 2]).write_status("failed")
    store.Run(four_words / "runs" / runs["bad", 0]).write_status("diverged")
    said, page = terminal.verdict(four_words, "made"), markdown.write(four_words, "made").read_text()
    for output in (said, page):
        assert "18 of 20 runs done; 1 failed, 1 diverged" in output
        assert runs["plain", 2] in output and runs["bad", 0] in output
        assert "bad: 1 of its runs diverged and 0 of the baseline's" in " ".join(output.split())
    value = json.loads((four_words / "sweeps/made/verdict.json").read_text())
    assert {entry["state"] for entry in value["missing"]} == {"failed", "diverged"}


def test_a_sweep_without_a_finished_run_says_so(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {}, seeds=3)
    for run in (root / "runs").iterdir():
        (run / "status.json").unlink()
    said = terminal.verdict(root, "made")
    assert report.NOTHING_YET in said and "0 of 6 runs done; 6 new" in said
    assert figures.draw(root, "made") == []
    assert "Nothing can be said yet" in markdown.write(root, "made").read_text()


def test_a_sweep_without_baseline_and_a_control_say_so(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=3)
    assert "This sweep is a control" in terminal.verdict(change_manifest(root, control=True), "made")
    assert "Nothing to compare: the spec names no baseline." in terminal.verdict(
        change_manifest(root, baseline={}), "made"
    )
    lone = terminal.verdict(change_manifest(root, baseline={"arm": "c"}), "made")
    assert "Not compared: arm no c." in lone


def test_numbers_lose_the_sign_of_a_rounded_zero() -> None:
    assert [text.number(x, 1, sign=True) for x in (1.25, -0.04, float("nan"))] == ["+1.2", " 0.0", "-"]
