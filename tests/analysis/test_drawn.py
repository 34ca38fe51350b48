"""Figures are drawn again when a run, the manifest or a file of them has changed, and only then."""

import json
from pathlib import Path

import pytest

from analysis import drawn, figures, load
from harness import store
from harness.sweep.cli import main
from tests.analysis.conftest import change_manifest


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Drawing as three empty files; what was drawn, in order."""
    done: list[str] = []

    def draw(root: Path, name: str) -> list[Path]:
        done.append(name)
        folder = root / "sweeps" / name / "figures"
        folder.mkdir(exist_ok=True)
        for suffix in (".png", ".pdf", ".csv"):
            (folder / f"accuracy_by_arm{suffix}").write_bytes(b"")
        return [folder / "accuracy_by_arm.png"]

    monkeypatch.setattr(figures, "draw", draw)
    return done


def test_nothing_new_is_not_drawn_again(four_words: Path, draws: list[str]) -> None:
    first = drawn.current(four_words, "made")
    assert [path.name for path in first] == ["accuracy_by_arm.png"]
    assert drawn.current(four_words, "made") == first and draws == ["made"]
    drawn.draw(four_words, "made")  # asked for by name: always
    assert len(draws) == 2


@pytest.mark.parametrize("what", ["a record", "a state", "the manifest", "a file"])
def test_what_has_changed_is_drawn_again(what: str, four_words: Path, draws: list[str]) -> None:
    drawn.current(four_words, "made")
    run = store.Run(sorted((four_words / "runs").iterdir())[0])
    if what == "a record":
        with open(run.attempt_file("metrics", 0), "a") as file:
            file.write(json.dumps({"step": 61, "m": {"policy/entropy": 0.3}}) + "\n")
    elif what == "a state":
        run.write_status("failed")
    elif what == "the manifest":
        change_manifest(four_words, figures=["entropy_by_arm"])
    else:
        (four_words / "sweeps/made/figures/accuracy_by_arm.csv").unlink()
    drawn.current(four_words, "made")
    drawn.current(four_words, "made")
    assert draws == ["made"] * 2


def test_named_figures_are_drawn_alone(four_words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(figures, "draw", lambda root, name, only=(): asked.append(list(only)) or [])
    assert main(["--root", str(four_words), "figures", "made", "effects", "accuracy_by_arm"]) == 0
    assert main(["--root", str(four_words), "figures", "made"]) == 0
    assert asked == [["effects", "accuracy_by_arm"], []]


def test_a_wrong_figure_is_refused_with_the_nearest(four_words: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(four_words), "figures", "made", "efects"]) == 2
    assert capsys.readouterr().err.startswith("error: figures: no figure 'efects'; did you mean 'effects'?")


def test_the_figures_there_are_in_the_order_of_the_spec(four_words: Path) -> None:
    folder = four_words / "sweeps/made/figures"
    folder.mkdir()
    for name in ("accuracy_by_arm", "accuracy_by_arm.web", "effects", "claims", "entropy_by_arm"):
        (folder / f"{name}.png").write_bytes(b"")
    sweep = load.load(change_manifest(four_words, figures=["entropy_by_arm", "accuracy_by_arm"]), "made", [])
    assert [path.stem for path in drawn.existing(sweep)] == ["entropy_by_arm", "accuracy_by_arm", "claims", "effects"]
