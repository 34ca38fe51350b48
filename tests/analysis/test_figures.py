"""Every figure on a sweep of several arm axes: the plotted numbers, derived by hand from `conftest.many_axes_sweep`."""

import csv
import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from analysis import figures, load, panels, style, tables
from harness import store
from harness.sweep import spec
from tests.analysis.conftest import change_manifest, many_axes_sweep, write_sweep

ALIGNED = {"model": "large_aligned", "data": "easy"}


@pytest.fixture(scope="module")
def coarse() -> Iterator[None]:
    """Fewer pixels: most of the time goes into them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "DPI", 60)
        patch.setattr(figures, "WEB_DPI", 60)
        yield


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory, coarse: None) -> dict[str, Path]:
    root = many_axes_sweep(tmp_path_factory.mktemp("many"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return {path.stem: path for path in figures.draw(root, "made")}


def rows(path: Path, **wanted: str) -> list[dict[str, str]]:
    with open(path.with_suffix(".csv")) as file:
        return [row for row in csv.DictReader(file) if all(row[key] == value for key, value in wanted.items())]


def one(path: Path, **wanted: str) -> dict[str, str]:
    (row,) = rows(path, **wanted)
    return row


def test_every_figure_is_drawn_and_known_to_the_spec(drawn: dict[str, Path]) -> None:
    assert set(figures.WHOLE) == set(spec.WHOLE_FIGURES) <= {*drawn, "search"}  # that one: test_search_view.py
    assert {name.partition("_by_")[0] for name in drawn} >= set(figures.BY_AXIS)
    for path in drawn.values():
        assert all(path.with_suffix(suffix).stat().st_size > 1000 for suffix in (".png", ".pdf", ".web.png"))


def test_a_benchmark_has_its_column_and_a_stratum_its_row(drawn: dict[str, Path]) -> None:
    path = drawn["benchmarks_by_eps_high"]
    row = one(path, **ALIGNED, eps_high="0.28", benchmark="aime24", step="20")
    # .70 + .04 - .20 and .00, .01, .02 by seed, in percent
    assert float(row["mean"]) == pytest.approx(55.0) and row["n"] == "3"
    assert {(r["advantage"], r["weight"]) for r in rows(path)} == {("group_z", "token_mean")}


def test_benchmarks_stand_in_the_papers_order(drawn: dict[str, Path]) -> None:
    sweep = load.load(drawn["effects"].parents[3], "made")
    assert tables.benchmarks(sweep) == ["math500", "aime24", "other"]


def test_by_an_axis_without_arms_its_levels_are_the_lines_of_baseline_runs(drawn: dict[str, Path]) -> None:
    found = rows(drawn["length_by_data"], step="5")
    assert [(r["model"], r["data"]) for r in found] == [
        (model, data) for model in ("small_base", "large_aligned") for data in ("easy", "hard")
    ]
    assert {(float(r["mean"]), r["eps_high"]) for r in found} == {(31.0, "0.20")}  # 30, 31, 32 by seed


def test_probabilities_are_pooled_and_by_seed(drawn: dict[str, Path]) -> None:
    path, cell = drawn["probabilities_by_eps_high"], ALIGNED | {"eps_high": "0.28", "interval": ".99–1"}
    pooled = one(path, **cell, seed="all")
    assert (float(pooled["share"]), pooled["tokens"]) == (60.0, "36000")  # 600 of 1,000 in 20 steps of 3 seeds
    assert [r["tokens"] for r in rows(path, **cell)] == ["36000", "12000", "12000", "12000"]


def test_clipped_tokens_are_counted_and_named(drawn: dict[str, Path]) -> None:
    path = drawn["clipped_tokens_by_eps_high"]
    first, *rest = rows(path, **ALIGNED, eps_high="0.20")
    assert (first["token"], first["kind"], first["count"]) == ("Ġso", "connective", "360")  # 6 × 20 steps × 3 seeds
    assert float(first["share"]) == 50.0 and float(first["per_10k"]) == 60.0  # of 12 a step, of 1,000 sampled
    assert float(first["connectives"]) == 75.0 and float(first["function_words"]) == pytest.approx(100 / 6)
    assert [r["token"] for r in rest] == ["then", "is", "7"]
    assert {r["connectives"] for r in rows(path, eps_high="0.28")} == {"0"}


def test_the_marked_tokens_of_one_prompt_are_in_the_csv(drawn: dict[str, Path]) -> None:
    path = drawn["clipped_text_by_eps_high"]
    assert [one(path, **ALIGNED, eps_high=arm, token="so")["clipped"] for arm in ("0.20", "0.28")] == ["1", "0"]
    assert one(path, **ALIGNED, eps_high="0.28", token="is")["clipped"] == "-1"
    assert {r["prompt"] for r in rows(path)} == {"Q 0 a+1 = ? A 0"}


def test_difficulty_is_of_the_first_step_of_the_baseline(drawn: dict[str, Path]) -> None:
    path = drawn["difficulty_by_data"]
    easy = {r["right"]: (r["prompts"], float(r["share"])) for r in rows(path, model="small_base", data="easy")}
    # 2, 0, 2, 0, 4 of 8 prompts a seed
    assert easy == {"0": ("6", 25.0), "1": ("0", 0.0), "2": ("6", 25.0), "3": ("0", 0.0), "4": ("12", 50.0)}
    assert float(one(path, model="small_base", data="hard", right="0")["share"]) == 50.0


def test_the_forest_of_claims_has_every_finding(drawn: dict[str, Path]) -> None:
    path = drawn["claims"]
    row = one(path, claim="T4", metric="eval/accuracy", where="large aligned, easy")
    assert float(row["mean"]) == pytest.approx(0.04) and row["outcome"] == "supported" and row["n"] == "3"
    row = one(path, claim="T7", metric="eval/accuracy", where="small base, hard")
    assert float(row["mean"]) == pytest.approx(0.0, abs=1e-12) and row["outcome"] == "no difference"


def test_the_summary_has_each_arms_end_with_its_interval(drawn: dict[str, Path]) -> None:
    row = one(drawn["summary"], **ALIGNED, eps_high="0.28", seed="all")
    # 74, 75, 76 by seed: 75 ± t(.975, 2) · 1/√3 = 4.30265 · 0.57735
    assert [float(row[key]) for key in ("value", "low", "high")] == pytest.approx([75.0, 72.51586, 77.48414])
    assert float(one(drawn["summary"], **ALIGNED, eps_high="0.28", seed="2")["value"]) == pytest.approx(76.0)
    assert {r["advantage"] for r in rows(drawn["summary"])} == {"group_z"}  # the first axis of the baseline is shown
    other = one(drawn["summary_by_advantage"], **ALIGNED, advantage="none", seed="all")
    assert float(other["value"]) == pytest.approx(61.0) and other["n"] == "3"


def test_main_effects_are_means_over_strata_and_interactions_over_levels(drawn: dict[str, Path]) -> None:
    row = one(drawn["main_effects"], arm="0.28")
    assert (float(row["mean"]), row["n"], row["strata"]) == (pytest.approx(2.0), "3", "4")  # 0, 0, 4, 4 points
    assert float(one(drawn["main_effects"], arm="none")["mean"]) == pytest.approx(-10.0)
    by = {r["level"]: float(r["mean"]) for r in rows(drawn["interactions"], arm="0.28")}
    assert by == pytest.approx({"small_base": 0.0, "large_aligned": 4.0, "easy": 2.0, "hard": 2.0})


def test_cost_stands_beside_effect(drawn: dict[str, Path]) -> None:
    path = drawn["effect_vs_compute"]
    row = one(path, arm="sequence_mean", stratum="mean", cost="tokens")
    assert float(row["x"]) == pytest.approx(-10.0) and float(row["y"]) == pytest.approx(0.0, abs=1e-9)
    assert float(one(path, arm="0.28", stratum="large aligned, easy", cost="tokens")["y"]) == pytest.approx(4.0)
    assert rows(path, cost="seconds") == []  # the runs recorded no timing


def test_drawing_again_gives_the_same_bytes(drawn: dict[str, Path]) -> None:
    names = ["clipped_text_by_eps_high", "clipped_tokens_by_eps_high", "summary"]
    suffixes = (".csv", ".png", ".pdf", ".web.png")
    before = [drawn[name].with_suffix(suffix).read_bytes() for name in names for suffix in suffixes]
    figures.draw(drawn["effects"].parents[3], "made", only=names)
    assert [drawn[name].with_suffix(suffix).read_bytes() for name in names for suffix in suffixes] == before


def test_the_small_picture_keeps_the_colours_of_the_arms(tmp_path: Path) -> None:
    def lines(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"eval/accuracy": 0.1 * ["a", "b", "c", "d"].index(labels["arm"]) + 0.01 * step + 0.02 * seed}

    root = write_sweep(tmp_path, {"arm": ["a", "b", "c", "d"]}, {"arm": "a"}, lines, seeds=3, steps=20)
    (path,) = figures.draw(root, "made", only=["accuracy_by_arm"])
    with Image.open(path.with_suffix(".web.png")) as picture:
        found = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24)}  # type: ignore[union-attr]
    for colour in style.arm_colours(["a", "b", "c", "d"], "a").values():
        wanted = tuple(bytes.fromhex(colour[1:]))
        assert any(all(abs(x - y) <= 12 for x, y in zip(one, wanted, strict=True)) for one in found), colour


def test_what_is_not_recorded_is_said_and_nothing_else_is_lost(tmp_path: Path, coarse: None) -> None:
    root = many_axes_sweep(tmp_path, seeds=1, steps=10)
    names = ["probabilities_by_eps_high", "clipped_tokens_by_eps_high", "clipped_text_by_eps_high"]
    names += ["difficulty_by_data"]
    for entry in load.load(root, "made").runs:
        if entry.labels["model"] == "small_base":
            shutil.rmtree(root / "runs" / entry.run / "counts")
            shutil.rmtree(root / "runs" / entry.run / "samples")
    for path in figures.draw(root, "made", only=names):
        assert {row["model"] for row in rows(path)} == {"large_aligned"}
    for run in (root / "runs").iterdir():
        shutil.rmtree(run / "counts", ignore_errors=True)
        shutil.rmtree(run / "samples", ignore_errors=True)
    assert [rows(path) for path in figures.draw(root, "made", only=names[2:])] == [[], []]


def test_a_token_may_be_anything(tmp_path: Path, coarse: None) -> None:
    root = many_axes_sweep(tmp_path, seeds=1, steps=10)
    for run in (root / "runs").iterdir():
        for kind in ("counts", "samples"):
            file = run / kind / "a000.jsonl"
            file.write_text(file.read_text().replace('"then"', '"$\\\\frac{1}$"').replace('"first"', '"\\u4e2d\\n"'))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a glyph that is not in the font is a warning, a wrong formula an error
        figures.draw(root, "made", only=["clipped_tokens_by_eps_high", "clipped_text_by_eps_high"])


def test_missing_runs_are_named_by_what_sets_them_apart(tmp_path: Path) -> None:
    root = many_axes_sweep(tmp_path, seeds=1, steps=10)
    runs = {tuple(e.labels.values()): e.run for e in load.load(root, "made").runs}
    lost = runs["small_base", "hard", "0.20", "none", "token_mean"]
    store.Run(root / "runs" / lost).write_status("failed")
    said = figures._lack(load.load(root, "made"))
    assert said == " Not done, 1 of 20 runs: small base, hard, none seed 0 (failed)."


def test_a_figure_of_no_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=1)
    for wrong, right in {
        "sumary": "summary",
        "clipped_token_by_arm": "clipped_tokens_by_arm",
        "entropie_by_arm": "entropy_by_arm",
    }.items():
        with pytest.raises(ValueError, match=rf"no figure '{wrong}'; did you mean '{right}'\?"):
            figures.draw(root, "made", only=[wrong])
    with pytest.raises(ValueError, match=r"no axis 'arms' \(there are: arm\); did you mean 'arm'\?"):
        figures.draw(root, "made", only=["benchmarks_by_arms"])


def test_a_stratum_has_a_panel_where_two_levels_are_planned(tmp_path: Path) -> None:
    sweep = load.load(many_axes_sweep(tmp_path, seeds=1, steps=2), "made")
    assert [panels.title(sweep, s) for s in panels.strata(sweep, "advantage")] == [
        "small base, easy",
        "small base, hard",
        "large aligned, easy",
        "large aligned, hard",
    ]
    assert [panels.title(sweep, s) for s in panels.strata(sweep, "data")] == ["small base", "large aligned"]


def test_a_step_that_a_seed_skips_is_read_off_its_line(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        skipped = seed == 1 and (step == 5 or 15 <= step < 35)
        return {} if skipped else {"length/repeat_share": 0.5}

    root = write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, curve, 2, figures=["repeats_by_arm"])
    sweep = load.load(change_manifest(root), "made")
    table = tables.curve_table(sweep, tables.curves(sweep, "repeats_by_arm"))
    assert set(table["mean"]) == {50.0} and 5 in set(table["step"])
    assert not set(table["step"]) & set(range(15, 35))  # a gap of 21 steps is wider than the window
    assert set(table["segment"]) == {0, 1}


def test_the_page_of_figures_names_only_those_that_exist_and_all_of_them() -> None:
    text = (Path(__file__).parents[2] / "docs/figures.md").read_text()
    cells = [line.rsplit("|", 2)[1] for line in text.splitlines() if line.startswith("| ") and "_by_" in line]
    named = set(re.findall(r"`(\w+)`", " ".join(cells)))
    for name in named:
        figures.check(name)
    assert {name.partition("_by_")[0] for name in named} >= set(figures.BY_AXIS)
    listed = set(re.findall(r"`(\w+)`", text))
    assert set(figures.WHOLE) | set(tables.METRICS) <= listed


def test_a_narrow_figure_is_one_column_wide_and_stands_apart(drawn: dict[str, Path]) -> None:
    root = drawn["effects"].parents[3]
    names = ["length_by_data", "probabilities_by_eps_high", "clipped_text_by_eps_high"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths = figures.draw(root, "made", only=names, width=style.NARROW)
    for path in paths:
        assert path.parent == root / "sweeps/made/figures/narrow"
        with Image.open(path) as image:
            assert image.width == round(60 * style.NARROW)
        assert rows(path) == rows(drawn[path.stem])
