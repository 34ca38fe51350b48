"""The HTML report of a sweep with many arm axes: matrix, folds, figures, stability, costs, curves, size."""

import base64
import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from analysis import depends, drawn, factors, figures, html, html_curves, html_figures, load, report
from harness import store
from harness.sweep.cli import main
from tests.analysis.chromium import Browser
from tests.analysis.conftest import change_manifest, clip_sweep, write_sweep
from tests.analysis.many import ARMS, BASELINE, many_axes
from tests.analysis.pages import Page

SIZES = ((1280, 900), (390, 844))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report by the command, which draws the figures first."""
    root = many_axes(tmp_path_factory.mktemp("many"), seeds=3, steps=20, models=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["--root", str(root), "report", "made"]) == 0
    return root / "sweeps/made/report.html"


# -- the matrix ----------------------------------------------------------------------------------------------------


def test_the_matrix_has_a_row_per_arm_and_a_column_per_place(tmp_path: Path) -> None:
    rows = Page(html.write(clip_sweep(tmp_path, 0.04), "made").read_text()).rows
    head = rows.index(["model", "small base", "small aligned", "large aligned"])
    assert rows[head + 1] == ["eps_high against 0.20"]
    # +4.05 points, as in test_html: .04, and a jitter of .002 -.001 -.001 .002 over the four seeds
    assert rows[head + 3][0] == "0.28" and rows[head + 3][2:] == ["▲+4.1", "▲+4.1"]
    assert [row[0] for row in rows[head + 2 : head + 5]] == ["0.24", "0.28", "0.32"]


def test_of_many_axes_every_arm_is_in_one_matrix(many: Path) -> None:
    text = many.read_text()
    matrix = re.search(r'<table class="matrix">(.*?)</table>', text, re.S)[1]
    rows = Page(f"<table>{matrix}</table>").rows
    assert [row[0] for row in rows[2:] if len(row) == 1] == [f"{a} against {b}" for a, b in BASELINE.items()]
    assert [row[0] for row in rows[2:] if len(row) > 1] == [arm for axis in ARMS for arm in ARMS[axis][1:]]
    assert rows[0] == ["model", "small base", "small aligned"]
    assert rows[1] == ["data", *["easy", "medium", "hard"] * 2]
    widths = re.findall(r'<th colspan="(\d+)" scope="colgroup">', matrix)
    assert widths == ["3"] * 2
    by_arm = {row[0]: row[1:] for row in rows[2:] if len(row) > 1}
    # the clip is planned on medium data alone, the reward on easy and hard data of base models
    assert [bool(cell) for cell in by_arm["0.28"]] == [False, True, False] * 2
    assert [bool(cell) for cell in by_arm["affine"]] == [True, False, True, False, False, False]
    # -6 points at the end of the curve: (1 - exp(-20 / 15)) of it, less noise
    assert all(cell.startswith("▼-") for cell in by_arm["batch_z"] if cell)


def test_a_matrix_of_one_column_would_repeat_its_table(four_words: Path) -> None:
    assert 'class="matrix"' not in html.write(four_words, "made").read_text()


# -- what it says --------------------------------------------------------------------------------------------------


def test_tables_and_long_lists_are_folded_and_name_what_is_inside(many: Path) -> None:
    text = many.read_text()
    folds = re.findall(r'<details class="axis"( open)?><summary><b>(\w+)</b>', text)
    assert folds == [("", axis) for axis in ARMS]
    assert text.count('<article class="card">') == sum(len(arms) - 1 for arms in ARMS.values())
    card = re.search(r'<article class="card"><h3>agg token_mean.*?</article>', text, re.S)[0]
    assert "<b>Helps</b> <small>in 4 of 4 places</small>" in card


def test_an_arm_says_what_it_costs(many: Path) -> None:
    card = re.search(r'<article class="card"><h3>admit mixed_only.*?</article>', many.read_text(), re.S)[0]
    assert "generated tokens +50 %; response length 0 %" in card  # 1.5 × the tokens, the same length
    rows = [row for row in Page(many.read_text()).rows if row[0] == "mixed_only" and len(row) == 9]
    assert len(rows) == 2 and {tuple(row[-2:]) for row in rows} == {("+50 %", "0 %")}


def test_on_whom_it_depends_is_a_sentence() -> None:
    terms = [
        factors.Term(("arm",), 1.0, 1, 1.0, 9, 9.0, 0.015, 0.4),
        factors.Term(("arm", "model"), 1.0, 3, 1.0, 9, 8.214, 0.0061, 0.306),
        factors.Term(("arm", "data"), 1.0, 1, 1.0, 9, 1.0, 0.3434, 0.0),
        factors.Term(("arm", "model", "data"), 0.0, 3, 0.0, 9, math.nan, math.nan, math.nan),
    ]
    made = factors.Factorial("arm", "eval/accuracy", "last", ("arm", "model"), "Part.", terms, None, None)
    assert depends.sentence(made) == (
        "Depends on model (F(3, 9) = 8.21, p = 0.006, ω² = 0.31). Not shown to depend on data "
        "(F(1, 9) = 1.00, p = 0.343, ω² = 0.00); model × data (nothing varies over seeds). Part."
    )
    assert depends.short(made) == (
        "Depends on model (p = 0.006). Not shown to depend on data (p = 0.343); "
        "model × data (nothing varies over seeds)."
    )


def test_collapses_stand_apart_from_the_means(four_words: Path) -> None:
    text = html.write(four_words, "made").read_text()
    assert "None of 20 runs collapsed." in text
    runs = {(e.labels["arm"], e.seed): e.run for e in load.load(four_words, "made").runs}
    store.Run(four_words / "runs" / runs["bad", 0]).write_status("diverged")
    text = html.write(four_words, "made").read_text()
    # Wilson's intervals of 1 in 4 and 0 in 4; Fisher's p of (1, 3; 0, 4) is 1
    row = ["bad", "1 of 4", "25 % [5, 70]", "0 of 4", "0 % [0, 49]", "1.000", "1 diverged", "everywhere (1 of 4)"]
    assert row in Page(text).rows
    assert "No run of these collapsed: arm good, arm same, arm noisy." in text


def test_a_control_axis_is_said_to_be_one(tmp_path: Path) -> None:
    axes = {"a": ["x", "y"], "b": ["u", "v"]}
    root = write_sweep(tmp_path, axes, {"a": "x", "b": "u"}, lambda *_: {"eval/accuracy": 0.5}, seeds=3)
    judged = report.judge(change_manifest(root, control=["b"]), "made")
    assert report.remarks(judged)[0].startswith("The axis b is a control: ")
    assert report.remarks(report.judge(change_manifest(root, control=True), "made"))[0].startswith("This sweep is a c")


def test_runs_are_told_apart_by_their_arm_and_linked_with_their_files(many: Path) -> None:
    rows = [row for row in Page(many.read_text()).rows if len(row) == 10 and row[0] == "small_base"]
    assert ["small_base", "easy", "norm batch_z", "1"] in [row[:4] for row in rows]
    assert ["small_base", "medium", "baseline", "0"] in [row[:4] for row in rows]


def test_the_files_of_a_run_are_linked_where_they_are(four_words: Path) -> None:
    runs = sorted(path.name for path in (four_words / "runs").iterdir())
    for name in ("config.yaml", "attempts.jsonl"):
        (four_words / "runs" / runs[0] / name).write_text("")
    (four_words / "sweeps/made/worker-0.log").write_text("")
    text = html.write(four_words, "made").read_text()
    links = {href for _, _, href in Page(text).links if "/runs/" in href}
    expected = {f"../../runs/{run}/" for run in runs}
    assert '<dt>logs of the workers</dt><dd><a href="worker-0.log">worker-0.log</a></dd>' in text
    assert links == expected | {f"../../runs/{runs[0]}/{name}" for name in ("config.yaml", "attempts.jsonl")}


# -- figures -------------------------------------------------------------------------------------------------------


def test_the_figures_are_in_the_page(many: Path) -> None:
    page = Page(many.read_text())
    folder, pictures = many.parent / "figures", [value for tag, key, value in page.links if key == "src"]
    for name, picture in zip(("entropy_by_eps_high", "effects"), pictures, strict=True):
        kind, _, data = picture.partition(",")
        assert kind == "data:image/png;base64" and base64.b64decode(data) == html_figures.picture(
            folder / f"{name}.png"
        )
        assert ("a", "href", f"figures/{name}.pdf") in page.links and ("a", "href", f"figures/{name}.csv") in page.links
    assert "img-src data:" in many.read_text() and many.stat().st_size < 3_000_000


def test_the_small_picture_is_taken_and_what_does_not_fit_is_linked(
    four_words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = four_words / "sweeps/made/figures"
    folder.mkdir()
    for name in ("accuracy_by_arm.png", "accuracy_by_arm.web.png", "effects.png"):
        (folder / name).write_bytes(name.encode())
    monkeypatch.setattr(html_figures, "LIMIT", 40)  # the first is 32 characters in base 64
    text = html_figures.body(load.load(four_words, "made", []))
    assert re.findall(r"base64,([^\"]+)", text) == [base64.b64encode(b"accuracy_by_arm.web.png").decode()]
    assert text.count("Too large for this page.") == 1 and "figures/effects.pdf" in text


def test_a_second_report_draws_nothing_again(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "draw", lambda *_: pytest.fail("drawn again"))
    assert main(["--root", str(many.parents[2]), "report", "made", "--md"]) == 0
    assert "![effects](figures/effects.png)" in (many.parent / "report.md").read_text()
    assert (many.parent / "figures" / "drawn.json").exists() and drawn.WEB == ".web"


# -- curves --------------------------------------------------------------------------------------------------------


def test_a_run_is_in_the_page_once_however_many_axes_show_it(many: Path) -> None:
    data = Page(many.read_text()).data()
    assert [view["axis"] for view in data["views"]] == ["norm", "reward", "eps high", *list(ARMS)[3:], "model", "data"]
    cells = {cell for view in data["views"] for _, _, cell in view["places"]}
    assert cells == set(range(42)) and all(len(metric["lines"]) == 42 for metric in data["metrics"])
    clip = data["views"][2]
    assert clip["panels"] == ["small base, medium", "small aligned, medium"]
    assert len(clip["places"]) == 8
    page = Page(many.read_text())
    base = "held-out accuracy (%)", "small base, easy"
    assert page.line(*base, "group_z", 0) == page.line(*base, "raw", 1)


def test_too_many_numbers_lose_seeds_then_steps_and_the_page_says_so(tmp_path: Path) -> None:
    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        return {"policy/entropy": 1.0 + step, "grad/norm": 1.0} if step < 30 or step > 70 else {}

    sweep = load.load(write_sweep(tmp_path, {"arm": ["a"]}, {"arm": "a"}, curve, seeds=2, steps=200), "made")
    mean, seeds = 7 * 159 * 6, 7 * 159 * 2 * 2  # 30 + 129 steps, six numbers a point of a mean and two of each seed's

    def lines(made: dict[str, Any]) -> list[dict[str, Any]]:
        return [metric["lines"][0] for metric in made["metrics"]]

    whole = html_curves.payload(sweep, 2 * (mean + seeds))
    assert whole["left_out"] == "" and [len(line["seeds"]) for line in lines(whole)] == [2, 2]
    thin = html_curves.payload(sweep, 2 * (mean + seeds) - 1)
    assert "single seeds of 1 metric, the last listed." in thin["left_out"]
    assert [len(line["seeds"]) for line in lines(thin)] == [2, 0]
    half = html_curves.payload(sweep, 2 * mean - 1)
    assert "single seeds, and of longer curves each second step." in half["left_out"]
    steps, line = half["grids"][lines(half)[0]["x"]], lines(half)[0]
    assert len(steps) == 80 and steps[-1] == 199 and steps[line["cuts"][0]] == 71 and line["seeds"] == []
    assert line["raw"]["mean"] == [1.0 + step for step in steps]
    assert "all but each 4th step" in html_curves.payload(sweep, 2 * 7 * 50 * 6)["left_out"]


# -- in a browser --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_many_axes_load_offline_without_a_complaint_and_fit(
    size: tuple[int, int], many: Path, browser: Browser
) -> None:
    browser.errors.clear(), browser.requests.clear()
    browser.load(many, *size)
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
    assert browser.errors == [] and [url for url in browser.requests if not url.startswith("data:")] == [many.as_uri()]
    assert browser.ask("[...document.images].every(i => i.complete && i.naturalWidth > 500)")
    assert browser.ask("[...document.querySelectorAll('#panels figcaption')].length") == 2
    assert browser.ask("document.querySelector('.matrix').getBoundingClientRect().width < 1160")


def test_another_axis_is_another_set_of_panels_and_arms(many: Path, browser: Browser) -> None:
    browser.load(many, *SIZES[0])
    chosen = "const a = document.getElementById('axis'); a.selectedIndex = 2; a.dispatchEvent(new Event('change'))"
    legend = "[...document.querySelectorAll('#legend button')].map(b => b.textContent)"
    assert browser.ask(legend) == ["group_z (baseline)", *ARMS["norm"][1:]]
    browser.ask(f"(() => {{ {chosen} }})()")
    assert browser.ask(legend) == ["0.20 (baseline)", "0.24", "0.28", "0.32"]
    titles = browser.ask("[...document.querySelectorAll('#panels figcaption')].map(c => c.textContent)")
    assert titles == ["small base, medium", "small aligned, medium"]
    assert browser.ask("document.querySelectorAll('#panels path.line').length") == 8
    assert browser.errors == []


def test_printing_opens_every_fold(many: Path, browser: Browser) -> None:
    browser.load(many, *SIZES[0])
    assert browser.ask("document.querySelectorAll('details:not([open])').length") > 8
    browser.ask("dispatchEvent(new Event('beforeprint'))")
    assert browser.ask("document.querySelectorAll('details:not([open])').length") == 0


def test_json_of_many_axes_names_places_by_what_differs(many: Path) -> None:
    value = json.loads((many.parent / "verdict.json").read_text())
    assert all(set(c["stratum"]) == {"model", "data"} for c in value["contrasts"])
