"""The notebooks: short, without stored outputs, and each cell shows the numbers of a sweep whose numbers are known."""

import base64
import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from analysis import notebook
from tests.analysis.conftest import change_manifest, write_sweep
from tests.analysis.many import paper_sweep

FOLDER = Path(notebook.__file__).parent / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))
PROBE = "print((_ if hasattr(_, 'to_csv') else _.data).to_csv(index=False))"  # of the cell before, what it shows
Rows = list[dict[str, str]]


def code(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]


class Shown:
    """What a cell shows: the numbers behind it, and the output itself."""

    def __init__(self, outputs: list[Any], probed: str) -> None:
        self.html = "".join(o["data"].get("text/html", "") for o in outputs if "data" in o)
        self.text = "".join(o["data"].get("text/plain", "") for o in outputs if "data" in o)
        self.rows: Rows = list(csv.DictReader(io.StringIO(probed)))

    def having(self, **labels: str) -> Rows:
        return [row for row in self.rows if all(row[key] == value for key, value in labels.items())]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shown]:
    """source of a cell -> what it shows, of every notebook, run in one kernel that forgets all names between two."""
    root = paper_sweep(tmp_path_factory.mktemp("paper"))
    cells, sources = [], []
    for path in BOOKS:
        parameters, *rest = code(path)
        assert re.fullmatch(r'ROOT = "\S+"(  # .*)?\nSWEEP = "\w+"(  # .*)?', parameters)
        cells += ["%reset -f", f"ROOT, SWEEP = {str(root)!r}, 'made'"]
        for source in rest:
            cells.append(source)
            if source.startswith("notebook."):
                sources.append((source, len(cells) - 1))
                cells.append(PROBE if "for_whom" not in source else "")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(book, timeout=300, resources={"metadata": {"path": str(root)}})
    client.execute(env=os.environ | {"OMP_NUM_THREADS": "1"})
    found = {}
    for source, place in sources:
        probed = "".join(o.get("text", "") for o in book.cells[place + 1].outputs)
        found[source] = Shown(book.cells[place].outputs, probed)
    return found


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_stores_no_output(path: Path) -> None:
    book = json.loads(path.read_text())
    assert 4 <= len(book["cells"]) <= 8 and book["cells"][0]["cell_type"] == "markdown"
    for cell in book["cells"]:
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None
    assert book["cells"][1]["metadata"] == {"tags": ["parameters"]}
    nbformat.validate(nbformat.read(path, 4))


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_calls_the_analysis_alone(path: Path) -> None:
    imports = re.findall(r"^\s*(?:from|import) .*", "\n".join(code(path)), re.M)
    assert imports == ["from analysis import notebook"]


def test_there_is_one_for_each_section_with_data() -> None:
    assert [path.stem for path in BOOKS] == [
        "section_3_setup",
        "section_4_1_normalization",
        "section_4_2_clipping",
        "section_4_3_aggregation",
        "section_4_4_overlong",
        "section_5_lite_ppo",
    ]


def test_every_picture_is_drawn_with_its_caption(shown: dict[str, Shown]) -> None:
    pictures = {source: one for source, one in shown.items() if source.startswith("notebook.figure(")}
    assert len(pictures) == 16
    for source, one in pictures.items():
        alt, png, caption = re.fullmatch(
            r'<img alt="(\w+)" src="data:image/png;base64,([\w+/=]+)"><p>(.+)</p>', one.html
        ).groups()
        kind, key = re.search(r'judged, "(\w+)"(?:, "([\w.]+)")?', source).groups()
        assert alt == kind or (key and alt.startswith(f"{kind}_by_")), source
        assert base64.b64decode(png).startswith(b"\x89PNG") and len(png) > 5000 and len(caption) > 30
        assert one.rows, source


def test_the_verdicts_are_the_gains_that_were_put_in(shown: dict[str, Shown]) -> None:
    for key, arm, gain, word in (
        ("tricks.advantage", "batch_z", -6.0, "trap"),
        ("tricks.surrogate.high", "0.28", 4.0, "trick"),
        ("tricks.weight", "sequence_mean", 0.0, "neutral"),
        ("tricks.keep", "drop_truncated", 2.0, "trick"),
        ("recipe", "lite_ppo", 7.0, "trick"),
        ("recipe", "grpo", 0.0, "neutral"),
    ):
        rows = shown[f'notebook.verdicts(judged, "{key}")'].having(arm=arm)
        assert {row["verdict"] for row in rows} == {word}, (arm, rows)
        assert {row["n"] for row in rows} == {"3"} and len(rows) >= 4
        for row in rows:
            assert float(row["difference"]) == pytest.approx(gain, abs=0.21)
            assert float(row["low"]) <= float(row["difference"]) <= float(row["high"])
    limits = {row["where"] for row in shown['notebook.verdicts(judged, "tricks.keep")'].rows}
    assert {"small base, easy", "small base, easy, short", "large aligned, hard, long"} <= limits


def test_the_curves_are_the_numbers_that_were_put_in(shown: dict[str, Shown]) -> None:
    # base models on easy data: seeds .40 .41 .42 and a jitter of -.1 0 .1 or so points; hard data are 10 points lower
    rows = shown['notebook.figure(judged, "accuracy", "data")'].having(model="small_base", step="0")
    means = {row["data"]: float(row["mean"]) for row in rows}
    assert means["easy"] - means["hard"] == pytest.approx(10.0) and means["easy"] == pytest.approx(41.0, abs=0.11)
    lengths = shown['notebook.figure(judged, "length", "data")'].rows
    assert {row["data"]: float(row["mean"]) for row in lengths} == {"easy": 30.0, "hard": 40.0}
    assert {float(row["mean"]) for row in shown['notebook.figure(judged, "repeats", "tricks.keep")'].rows} == {25.0}
    spread = {float(row["mean"]) for row in shown['notebook.figure(judged, "reward_std", "data")'].rows}
    assert list(spread) == [pytest.approx(0.4)]


def test_the_tokens_are_those_that_were_recorded(shown: dict[str, Shown]) -> None:
    shares = shown['notebook.figure(judged, "probabilities", "tricks.surrogate.high")']
    for arm, expected in {"0.20": [1, 2, 3, 4, 10, 80], "0.28": [2, 3, 5, 10, 20, 60]}.items():
        pooled = [row for row in shares.rows if row["seed"] == "all" and row["eps_high"] == arm]
        assert [float(row["share"]) for row in pooled[:6]] == pytest.approx(expected)
    clipped = shown['notebook.figure(judged, "clipped_tokens", "tricks.surrogate.high")']
    assert {row["token"] for row in clipped.rows} == {"Ġso", "then", "is", "7"}


def test_the_claims_are_judged_on_their_findings(shown: dict[str, Shown]) -> None:
    outcomes = {
        row["claim"]: row["outcome"] for source, one in shown.items() if ".claims(" in source for row in one.rows
    }
    assert set(outcomes) == {"T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "C9", "C10", "C11"}
    rows = shown['notebook.claims(judged, "C9")'].rows
    grpo = [row for row in rows if "lite_ppo - grpo" in row["test"]]
    assert len(grpo) == 4 and {row["finding"] for row in grpo} == {"supported"}
    assert all(float(row["difference"]) == pytest.approx(7.0, abs=0.21) for row in grpo)


def test_for_whom_is_a_sentence(shown: dict[str, Shown]) -> None:
    said = shown['notebook.for_whom(judged, "tricks.advantage")'].text
    assert "epend on" in said and "Factorial part: advantage (" in said


def test_an_axis_is_found_by_its_key_and_a_wrong_one_named(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=2)
    judged = notebook.read(change_manifest(root, keys={"arm": "tricks.weight"}), "made")
    assert notebook.axis(judged.sweep, "tricks.weight") == notebook.axis(judged.sweep, "arm") == "arm"
    with pytest.raises(ValueError, match=r"no axis over tricks.wieght; did you mean 'tricks.weight'\? .*arm \(tricks"):
        notebook.figure(judged, "benchmarks", "tricks.wieght")


def test_what_was_not_recorded_is_said(tmp_path: Path) -> None:
    root = write_sweep(tmp_path, {"arm": ["a", "b"]}, {"arm": "a"}, lambda *_: {"eval/accuracy": 0.5}, seeds=2)
    picture = notebook.figure(notebook.read(root, "made"), "repeats", "arm")
    assert picture.data is None and notebook.UNKNOWN in picture._repr_html_()
