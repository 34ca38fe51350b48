"""The cache is never in the way of the truth: what changed is read anew, what is damaged is ignored."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from analysis import cache, load
from harness import store
from tests.analysis.conftest import change_manifest, write_sweep
from tests.analysis.test_load import EVAL, make


@pytest.fixture(scope="module")
def opened() -> Iterator[list[str]]:
    """The attempt files opened so far, as run/kind/file."""
    names: list[str] = []
    on = [True]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and on and str(arguments[0]).endswith(".jsonl"):
            names.append("/".join(Path(arguments[0]).parts[-3:]))

    sys.addaudithook(hook)
    yield names
    on.clear()  # a hook cannot be removed


def three(root: Path) -> Path:
    return make(root, {f"r{i}": [f'{{"m":{{"a":{i},"b":0.5}},"step":0}}\n'] for i in range(3)})


def test_only_a_run_that_changed_is_read_again(
    tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "RUNS_PER_FILE", 2)
    three(tmp_path)
    first = load.load(tmp_path, "made").frame
    opened.clear()
    assert_frame_equal(load.load(tmp_path, "made").frame, first)
    assert opened == []
    with open(tmp_path / "runs/r1/metrics/a000.jsonl", "a") as file:
        file.write('{"m":{"a":7,"c":8},"step":1}\n')
    opened.clear()
    frame = load.load(tmp_path, "made").frame
    assert opened == ["r1/metrics/a000.jsonl"]
    assert frame["run"].tolist() == ["r0", "r0", "r1", "r1", "r1", "r1", "r2", "r2"]
    assert frame["metric"].tolist() == ["a", "b", "a", "b", "a", "c", "a", "b"]
    assert frame["value"].tolist() == [0, 0.5, 1, 0.5, 7, 8, 2, 0.5]
    (tmp_path / "runs/r2/metrics/a001.jsonl").write_text('{"m":{"a":9},"step":0}\n')  # an attempt begins anew
    opened.clear()
    assert load.load(tmp_path, "made", {"a"}).frame["value"].tolist() == [0, 1, 7, 9]
    assert opened == ["r2/metrics/a000.jsonl", "r2/metrics/a001.jsonl"]
    store.Run(tmp_path / "runs/r0").write_status("failed")
    file = tmp_path / "runs/r1/metrics/a000.jsonl"
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))  # the same size at another time
    opened.clear()
    sweep = load.load(tmp_path, "made")
    assert sorted(opened) == ["r0/metrics/a000.jsonl", "r1/metrics/a000.jsonl"]
    assert [entry.run for entry in sweep.missing] == ["r0"]
    assert sweep.frame["state"].tolist() == ["failed"] * 2 + ["done"] * 5


def test_the_cache_follows_a_manifest_that_changes(tmp_path: Path, opened: list[str]) -> None:
    load.load(three(tmp_path), "made")
    manifest = json.loads((tmp_path / "sweeps/made/manifest.json").read_text())
    runs = [manifest["runs"][2], manifest["runs"][0]]
    change_manifest(tmp_path, runs=runs)
    opened.clear()
    frame = load.load(tmp_path, "made", ["a"]).frame
    assert frame["run"].tolist() == ["r2", "r0"] and frame["value"].tolist() == [2, 0]
    assert opened == []


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def other_format(file: Path) -> None:
    from pyarrow import parquet

    table = parquet.read_table(file)
    about = json.loads(table.schema.metadata[cache.KEY]) | {"format": 0}
    wrong = table.set_column(1, "m:a", [[5.0, 5.0, 5.0]])
    parquet.write_table(wrong.replace_schema_metadata({cache.KEY: json.dumps(about)}), file)


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:-30]),
        lambda file: file.write_text("something else altogether"),
        lambda file: pd.DataFrame({"step": [1, 2, 3], "m:a": [5.0, 5.0, 5.0]}).to_parquet(file),
        other_format,
        lambda file: (file.unlink(), file.mkdir()),
    ],
    ids=["empty", "cut", "text", "foreign", "format", "folder"],
)
def test_a_damaged_or_foreign_cache_is_made_anew(
    tmp_path: Path, harm: Callable[[Path], Any], opened: list[str]
) -> None:
    whole = load.load(three(tmp_path), "made").frame
    file = tmp_path / "sweeps/made/cache/metrics-000.parquet"
    harm(file)
    assert_frame_equal(load.load(tmp_path, "made").frame, whole)
    assert not list(file.parent.glob(".*"))
    opened.clear()
    assert_frame_equal(load.load(tmp_path, "made").frame, whole)
    assert (opened == []) == file.is_file()


def test_no_flipped_bit_gets_through(tmp_path: Path) -> None:
    whole = load.load(three(tmp_path), "made").frame
    file = tmp_path / "sweeps/made/cache/metrics-000.parquet"
    good = file.read_bytes()
    pages = len(good) - 8 - int.from_bytes(good[-8:-4], "little")  # the rest describes them
    names = [at + 2 for at in range(pages, len(good)) if good[at : at + 3] == b"m:a"]
    for at in (*range(0, pages, 3), *names, *range(pages, len(good), 29)):
        file.write_bytes(good)
        flip(file, at)
        assert_frame_equal(load.load(tmp_path, "made").frame, whole)


@pytest.mark.parametrize("kind", ["no folder", "no file"])
def test_where_nothing_can_be_written_there_is_no_cache(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = three(tmp_path) / "sweeps/made/cache"
    if kind == "no folder":
        folder.write_text("in the way")
    else:
        folder.mkdir()
        folder.chmod(0o500)  # which root may write to all the same
        monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no")))
    without = load.load(tmp_path, "made").frame
    assert without["value"].tolist() == [0, 0.5, 1, 0.5, 2, 0.5]
    assert kind == "no folder" or list(folder.iterdir()) == []
    folder.unlink() if kind == "no folder" else folder.chmod(0o700)
    monkeypatch.undo()
    for _ in range(2):
        assert_frame_equal(load.load(tmp_path, "made").frame, without)
    assert [path.name for path in folder.iterdir()] == ["metrics-000.parquet"]


@pytest.mark.parametrize(
    ("metrics", "rows"),  # of each run: the one metric on every step but the last, the other on every tenth
    [(None, 67), ({"x"}, 60), ({"eval/accuracy", "none such"}, 7), ({"none such"}, 0)],
)
def test_frames_are_the_same_with_and_without_cache(
    tmp_path: Path, metrics: set[str] | None, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "RUNS_PER_FILE", 4)
    axes = {"model": ["m", "n"], "arm": ["a", "b", "c"]}
    write_sweep(tmp_path, axes, {"arm": "a"}, lambda labels, seed, step: {"eval/accuracy": step / 7, "x": seed / 3})
    (tmp_path / "runs/0000000000000001-s1/metrics/a000.jsonl").write_text("")
    cold, cached = (load.load(tmp_path, "made", metrics).frame for _ in range(2))
    assert_frame_equal(cold, cached)
    assert len(cold) == 17 * rows  # of 18 runs, one of which has written nothing yet
    assert cold.dtypes.astype(str).to_dict() == {
        **dict.fromkeys(("model", "arm", "run", "state", "metric"), "category"),
        **{"seed": "int64", "step": "int32", "value": "float64"},
    }


def test_only_the_metrics_asked_for_are_taken_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import parquet

    load.load(three(tmp_path), "made")
    asked: list[list[str]] = []
    read = parquet.ParquetFile.read
    monkeypatch.setattr(parquet.ParquetFile, "read", lambda *a, **k: asked.append(k["columns"]) or read(*a, **k))
    frame = load.load(tmp_path, "made", {"b"}).frame
    assert frame["metric"].tolist() == ["b"] * 3 and asked == [["step", "m:b"]]


def test_two_loads_at_once_both_read_the_truth(tmp_path: Path) -> None:
    three(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        frames = list(pool.map(lambda _: load.load(tmp_path, "made").frame, range(8)))
    for frame in frames:
        assert_frame_equal(frame, frames[0])


def test_evals_are_cached_likewise(tmp_path: Path, opened: list[str]) -> None:
    record = EVAL % ("hard", "[[0,1],[1,1]]", "sample", 0)
    make(tmp_path, {"r0": [record], "r1": [record + record.replace("hard", "easy")]}, "evals")
    frame = load.load_evals(tmp_path, "made")
    assert frame["right"].tolist() == [False, True, True, True] * 3
    opened.clear()
    assert_frame_equal(load.load_evals(tmp_path, "made"), frame)
    assert opened == []
    (tmp_path / "runs/r0/evals/a001.jsonl").write_text(record + '{"benchmark":"hard","corr')  # torn: the rest stands
    assert_frame_equal(load.load_evals(tmp_path, "made"), frame)
    assert set(opened) == {"r0/evals/a000.jsonl", "r0/evals/a001.jsonl"}
