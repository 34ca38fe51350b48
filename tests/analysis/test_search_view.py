"""What is shown of a search: the terminal's text, both reports and the figure, on trials of known values."""

import csv
import html as markup
import json
import math
import re
from pathlib import Path

import pytest

from analysis import figures, html, load, markdown, plot_search, search_arms, terminal
from harness.sweep.cli import main
from tests.analysis import searched
from tests.analysis.conftest import change_manifest
from tests.analysis.searched import Searched, Tried

CONDITIONAL = searched.OVER | {"kl": {"key": "k", "low": 0.0, "high": 0.1, "log": False, "step": None}}


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer pixels: most of the time goes into them."""
    monkeypatch.setattr(figures, "DPI", 60)
    monkeypatch.setattr(figures, "WEB_DPI", 60)


def over(root: Path) -> Path:
    """Two arms whose search has ended. The arm's ten done trials rise with the learning rate from .31 to .40."""
    plain = [
        Tried({"lr": 1e-3, "updates": "1"}, (0.30,), imported=True),
        Tried({"lr": 2e-3, "updates": "4", "kl": 0.05}, (0.60,), ("diverged",)),
        Tried({"lr": 3e-3, "updates": "4", "kl": 0.01}, (0.46,)),
        Tried({"lr": 4e-3, "updates": "1"}, (0.45,)),
        Tried({"lr": 5e-3, "updates": "1"}, (0.20,), ("failed",)),
        Tried({"lr": 6e-3, "updates": "1"}, (0.20,), ("pruned",)),
    ]
    good = [Tried({"lr": 10 ** (n / 5 - 4), "updates": "14"[n % 2]}, (0.31 + n / 100,)) for n in range(10)]
    arms = {"group_z": Searched(plain, 2, (0.40, 0.41, 0.42)), "batch_z": Searched(good, 9, (0.39, 0.40, 0.41))}
    return searched.write(root, arms, CONDITIONAL, trials=10)


def going(root: Path) -> Path:
    """Two arms in the midst of their search, without a fresh run."""
    trials = [Tried({"lr": 1e-3, "updates": "1"}, (0.30,)), Tried({"lr": 2e-3, "updates": "1"}, (0.2,), ("new",))]
    return searched.write(root, {"group_z": Searched(trials), "batch_z": Searched(trials[1:])})


def test_each_arm_has_its_setting_its_two_values_and_how_its_trials_ended(tmp_path: Path) -> None:
    sweep = load.load(over(tmp_path), "made", {"eval/accuracy"})
    first, second = search_arms.read(sweep)
    assert first.ended == {"done": 3, "diverged": 1, "failed": 1, "pruned": 1} and first.imported == 1
    assert first.chosen and first.chosen.params == {"lr": 3e-3, "updates": "4", "kl": 0.01}
    assert first.chosen.value == pytest.approx(0.46) and first.fresh == pytest.approx(0.41) and first.fresh_seeds == 3
    assert [trial.number for trial in first.best] == [2, 3, 0] and (first.tried, first.planned) == (6, 10)
    assert [trial.number for trial in second.best] == [9, 8, 7] and second.fresh == pytest.approx(0.40)
    assert all(math.isnan(i.fanova) for i in first.importances)  # three values
    assert [(i.axis, i.trials) for i in second.importances] == [("lr", 10), ("updates", 10), ("kl", 0)]


def test_with_goal_min_the_lowest_come_first(tmp_path: Path) -> None:
    change_manifest(over(tmp_path), endpoint={"metric": "eval/accuracy", "last": 2, "goal": "min", "margin": 0.01})
    (first, _) = search_arms.read(load.load(tmp_path, "made", {"eval/accuracy"}))
    assert [trial.number for trial in first.best] == [0, 3, 2]


def test_the_terminal_shows_the_search_before_the_verdict(tmp_path: Path) -> None:
    said = terminal.verdict(over(tmp_path), "made")
    assert max(map(len, said.splitlines())) <= 100
    assert "16 of 20 trials, 6 of 6 fresh runs done" in said
    row = r"group_z +trial 2 +46\.0 +41\.0 +3 +3 +1 +1 +1 +1$"  # done, diverged, failed, pruned, imported
    assert re.search(row, said, re.M) and re.search(r"batch_z +trial 9 +40\.0 +40\.0 +3 +10 +0 +0 +0 +0$", said, re.M)
    assert "46.0  trial 2   lr 0.003, updates 4, kl 0.01 (chosen)" in said
    assert "30.0  trial 0   lr 0.001, updates 1 (imported)" in said
    assert re.search(r"mattered, of 10 trials: lr 0\.\d\d / 0\.\d\d, updates 0\.\d\d / 0\.\d\d, kl - / - \(0\)", said)
    assert said.index("Chosen settings") < said.index("41.0 → 40.0") < said.index("The value of a chosen setting")
    assert "lr (0.0001 … 0.01, evenly in the logarithm), updates (1, 4), kl (0 … 0.1)" in " ".join(said.split())


def test_many_arms_show_their_settings_and_the_rest_when_asked(tmp_path: Path) -> None:
    arms = {f"arm_{i}": Searched([Tried({"lr": 1e-3, "updates": "1"}, (0.3,))], 0, (0.3,)) for i in range(7)}
    root = searched.write(tmp_path, arms)
    short = terminal.verdict(root, "made")
    assert short.count("trial 0") == 7 and "`verdict made --all`" in short
    assert main(["--root", str(root), "verdict", "made", "--all"]) == 0


def test_a_search_without_a_fresh_run_says_so_and_shows_its_trials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = going(tmp_path)
    assert main(["--root", str(root), "verdict", "made"]) == 0
    said = capsys.readouterr().out
    assert "1 of 8 trials, 0 of 6 fresh runs done" in said
    assert "No verdict yet. The search goes on" in said and "Nothing" not in said.partition("Chosen settings")[0]
    assert re.search(r"group_z +none yet +- +- +0 +1 +1$", said, re.M)  # done, running
    shown = said.partition("The best 3 trials")[2]
    assert "30.0  trial 0   lr 0.001, updates 1\n" in shown and "batch_z" not in shown  # which has no value yet
    assert "Under 8 trials with a value nothing is said" in said and "fANOVA:" not in said


def test_settings_that_are_chosen_and_not_yet_run_are_said(tmp_path: Path) -> None:
    root = searched.write(tmp_path, {"group_z": Searched([Tried({"lr": 1e-3, "updates": "1"}, (0.3,))], 0)})
    assert "No verdict yet. The settings are chosen" in terminal.verdict(root, "made")


def test_an_arm_without_a_single_value_is_named(tmp_path: Path) -> None:
    lost = [Tried({"lr": 1e-3, "updates": "1"}, (0.3,), ("diverged",))] * 4
    root = searched.write(
        tmp_path, {"group_z": Searched(lost), "batch_z": Searched([Tried({"lr": 1e-3, "updates": "1"})])}
    )
    assert "No setting for group_z: no trial has a value." in terminal.verdict(root, "made")


def test_an_axis_that_no_trial_has_is_left_out_and_an_arm_whose_settings_are_all_tried_is_said(tmp_path: Path) -> None:
    arms = {"group_z": Searched([Tried({"lr": 1e-3, "updates": "1"}, (0.3,))], 0, (0.3,))}
    root = searched.write(tmp_path, arms, CONDITIONAL)  # kl is under a condition that no trial has met
    asked = load.read_manifest(root, "made")["search"]
    asked["studies"][0]["exhausted"] = True
    said = terminal.verdict(change_manifest(root, search=asked), "made")
    assert "kl" not in said and "1 of 1 trials" in said
    assert "group_z: every setting is tried, so that it has 1 trial." in said
    made = plot_search.draw(load.load(root, "made"))
    assert made and len(made.figure.axes) == 3 and "kl" not in made.data


def test_verdict_json_has_the_search(tmp_path: Path) -> None:
    terminal.verdict(over(tmp_path), "made")
    told = json.loads((tmp_path / "sweeps/made/verdict.json").read_text())["search"]
    assert [(arm["labels"]["advantage"], arm["chosen"]["number"]) for arm in told] == [("group_z", 2), ("batch_z", 9)]
    assert told[0]["fresh"] == pytest.approx(0.41) and told[0]["importances"][0]["fanova"] is None


def test_both_reports_have_the_tables_of_the_search(tmp_path: Path) -> None:
    root = over(tmp_path)
    page = markdown.write(root, "made").read_text()
    assert "| group_z | trial 2 | 46.0 | 41.0 | 3 | 3 | 1 | 1 | 1 | 1 |" in page
    assert "| group_z | 3 | 45.0 | 0.004 | 1 | - |  |" in page and "| batch_z | kl | - | - | 0 |" in page
    assert page.index("## The search") < page.index("## Eval/accuracy in points, mean of the last")
    shown = html.write(root, "made").read_text()
    section = shown.partition('<section id="search">')[2].partition("</section>")[0]
    cells = [markup.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", section)]
    assert cells[:10] == ["group_z", "trial 2", "46.0", "41.0", "3", "3", "1", "1", "1", "1"]
    assert "looks too good" in section and shown.index('id="search"') < shown.index('id="verdict"')


def test_other_sweeps_say_nothing_of_a_search(four_words: Path) -> None:
    assert "trial" not in terminal.verdict(four_words, "made")
    assert "earch" not in markdown.write(four_words, "made").read_text()
    assert 'id="search"' not in html.write(four_words, "made").read_text()
    assert plot_search.draw(load.load(four_words, "made")) is None


# -- the figure ----------------------------------------------------------------------------------------------------


def test_the_figure_of_a_search_is_drawn_unasked_with_its_numbers(tmp_path: Path) -> None:
    drawn = {path.stem: path for path in figures.draw(over(tmp_path), "made")}
    assert set(drawn) == {"effects", "search"}
    with open(drawn["search"].with_suffix(".csv")) as file:
        rows = list(csv.DictReader(file))
    first = [row for row in rows if row["advantage"] == "group_z"]
    assert [row["value"] for row in first] == ["30", "", "46", "45", "", ""]
    assert [row["best"] for row in first] == ["30", "30", "46", "46", "46", "46"]
    assert [row["state"] for row in first] == ["done", "diverged", "done", "done", "failed", "pruned"]
    assert [row["chosen"] for row in rows].count("True") == 2 and first[2]["chosen"] == "True"
    assert (first[0]["kl"], first[1]["kl"], first[0]["imported"]) == ("", "0.05", "True")


def test_it_is_drawn_before_there_is_anything_else_and_not_before_a_trial_has_ended(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert [path.name for path in figures.draw(going(tmp_path / "a"), "made")] == ["search.png"]
    new = {"group_z": Searched([Tried({"lr": 1e-3, "updates": "1"}, (0.3,), ("new",))])}
    assert figures.draw(searched.write(tmp_path / "b", new), "made") == []


def test_labels_of_six_arms_and_four_axes_stand_apart(tmp_path: Path) -> None:
    levels = ["sequence_mean", "constant_length"]
    axes = {
        "learning_rate_of_critic": {"key": "a", "low": 1.25e-4, "high": 3.75e-3, "log": True, "step": None},
        "penalty_coefficient": {"key": "b", "low": 0.00125, "high": 0.0375, "log": False, "step": None},
        "aggregation_of_token_losses": {"key": "c", "levels": levels},
        "prompts": {"key": "d", "low": 4, "high": 1024, "log": True, "step": None},
    }
    trials = [
        Tried(dict(zip(axes, (1e-3, 0.02, level, 8), strict=True)), (value,))
        for level, value in zip(levels, (0.3, 0.4), strict=True)
    ]
    root = searched.write(tmp_path, {f"group_mean_{i}": Searched(trials, 1) for i in range(6)}, axes)
    made = plot_search.draw(load.load(root, "made"))
    assert made
    made.figure.draw_without_rendering()
    texts = [label for axes in made.figure.axes for label in (*axes.get_xticklabels(), axes.xaxis.label)]
    boxes = [text.get_window_extent() for text in texts if text.get_text() and text.get_visible()]
    assert len(boxes) >= 5 * 3
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
