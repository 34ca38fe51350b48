"""Nothing a spec, a name or a run's folder says leads out of the root, and nothing in it is executed."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import store
from tests.sweep.conftest import Harness

Write = Callable[..., Path]
OUTSIDE = [
    "../evil",
    "/tmp/evil",
    "a/b",
    "..",
    ".hidden",
    "a\nb",
    "a\x00b" if os.name != "posix" else "a b",
    "%j",
    "$(id)",
]


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("command", ["plan", "sweep"])
def test_a_sweep_s_name_stays_in_its_folder(tmp_path: Path, small_spec: Path, name: str, command: str) -> None:
    harness = Harness(tmp_path / "deep" / "root")
    before = everything(tmp_path)
    code, output = harness(command, str(small_spec), f"--name={name}")
    assert code == 2
    assert "cannot name a sweep" in output
    assert everything(tmp_path) == before


@pytest.mark.parametrize("stem", ["..", "a b", "$(touch evil)", "-x"])
def test_a_spec_file_s_stem_names_no_other_place(tmp_path: Path, small_spec: Path, stem: str) -> None:
    harness = Harness(tmp_path / "root")
    (tmp_path / f"{stem}.yaml").write_text(small_spec.read_text())
    before = everything(tmp_path)
    code, output = harness("sweep", "--no-mirror", str(tmp_path / f"{stem}.yaml"))
    assert code == 2
    assert "cannot name a sweep" in output
    assert everything(tmp_path) == before


@pytest.mark.parametrize("command", ["status", "verdict", "figures", "mirror", "cancel"])
@pytest.mark.parametrize("name", ["../other", "/etc", "rates/../../x"])
def test_commands_on_a_sweep_take_no_path(harness: Harness, small_spec: Path, command: str, name: str) -> None:
    harness("sweep", "--no-mirror", "--workers", "2", str(small_spec), "seeds=1", "--name", "rates")
    code, output = harness(command, name)
    assert code == 2
    assert "no sweep" in output


@pytest.mark.parametrize("axis", ["../../evil", "a/b", "model\n"])
def test_labels_make_no_path(harness: Harness, write: Write, bare_model: Path, axis: str, tmp_path: Path) -> None:
    """Axis and level names reach figures and tables; a file is never named by one as it stands."""
    path = write(
        "question: q?\n"
        f"base: {{model: hub_folder, model.path: {bare_model}, train.steps: 2}}\n"
        f"axes:\n  {json.dumps(axis)}: {{key: train.lr, values: [1e-4, 2e-4]}}\n"
    )
    code, _ = harness("sweep", "--no-mirror", "--workers", "1", str(path))
    assert code in (0, 2)
    assert not [name for name in everything(tmp_path) if "evil" in name]


def test_run_folders_are_named_by_hash_and_seed_alone(harness: Harness, small_spec: Path) -> None:
    harness("sweep", "--no-mirror", "--workers", "2", str(small_spec))
    names = [path.name for path in (harness.root / "runs").iterdir()]
    assert len(names) == 6
    for name in names:
        cell, seed = name.split("-s")
        assert len(cell) == 16 and set(cell) <= set("0123456789abcdef") and seed.isdigit()


@pytest.mark.parametrize(
    "line, message",
    [
        ("question: !!python/object/apply:os.system ['touch evil']", "takes a sentence"),
        ("set: {train.lr: !!python/name:os.system }", "tag"),
        ("exclude: [\"__import__('os').system('touch evil') == 0\"]", "Call"),
        ('exclude: ["train.lr.__class__ == 1"]', ""),
        ("set: {train.lr: '${oc.env:HOME}'}", ""),
        ("set: {train.lr: '${hydra:runtime.cwd}'}", ""),
        ("set: {launcher.setup: ['touch evil']}", "ends in a shell script"),
    ],
)
def test_a_spec_executes_nothing(harness: Harness, write: Write, bare_model: Path, line: str, message: str) -> None:
    base = f"base: {{model: hub_folder, model.path: {bare_model}}}\naxes: {{train.steps: [1, 2]}}\n"
    question = "" if line.startswith("question") else "question: q?\n"
    code, output = harness("plan", str(write(question + base + line + "\n")))
    assert code == 2, output
    assert message in output
    assert "Traceback" not in output
    assert not Path("evil").exists() and not (harness.root / "evil").exists()


class Bomb:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch evil",)


def test_nothing_in_a_run_folder_is_unpickled(harness: Harness, small_spec: Path) -> None:
    """Whatever lies in a run's folder as a pickle is passed over by everything that reads runs."""
    harness("sweep", "--no-mirror", "--workers", "2", str(small_spec))
    for run in (harness.root / "runs").iterdir():
        for place in ("checkpoint/step_000004", "metrics", "."):
            (run / place).mkdir(parents=True, exist_ok=True)
            (run / place / "state.pt").write_bytes(pickle.dumps(Bomb()))
            (run / place / "state.pkl").write_bytes(pickle.dumps(Bomb()))
    for words in (("status",), ("verdict", "rates"), ("sweep", "--no-mirror", "rates"), ("logs", run.name)):
        assert harness(*words)[0] == 0
    assert not Path("evil").exists()
    assert store.Run(run).state() == "done"


def test_no_source_file_unpickles() -> None:
    for path in (Path(__file__).resolve().parents[2] / "harness").rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text and "pickle.load" not in text, path
        assert "torch.load" not in text or "weights_only=True" in text, path
