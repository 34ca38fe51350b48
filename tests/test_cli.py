"""The command line as a new user meets it: help is light, ten mistakes each give one clear line with the cure."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.sweep import contents
from harness.sweep.cli import main
from harness.sweep.mirror import PATIENCE

REPOSITORY = Path(__file__).resolve().parents[1]
GOOD = "question: q?\naxes: {tricks.surrogate.high: [0.2, 0.28]}\nseeds: 2\n"

Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """A spec's text and the words typed after its path -> what stands on stderr; the exit status must be 2."""
    real = contents.model
    here = "harness/lab/weights"
    monkeypatch.setattr(contents, "model", lambda path: (path, path) if path.startswith(here) else real(path))

    def say(text: str, *words: str, command: str = "plan") -> str:
        path = tmp_path / "spec.yaml"
        path.write_text(text)
        root = [] if "--root" in words else ["--root", str(tmp_path)]
        assert main([*root, command, str(path), *words]) == 2
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return captured.err.replace(str(path), "spec.yaml")

    return say


def test_mistake_1_wrong_key(say: Say) -> None:
    assert say(GOOD + "base: {train.stpes: 3}\n") == (
        "spec.yaml:4:8: no such config key 'train.stpes'; did you mean 'train.steps'?\n"
        "    base: {train.stpes: 3}\n"
        "           ^\n"
    )


def test_mistake_2_wrong_trick(say: Say) -> None:
    text = say("question: q?\naxes: {tricks.advantage: [group_z, grup_mean]}\n")
    assert text.startswith(
        "spec.yaml:2:36: tricks.advantage: no trick 'grup_mean' in slot 'advantage'; did you mean 'group_mean'?"
    )


def test_mistake_3_wrong_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "grid_specs/clip_highr.yaml"]) == 2
    text = capsys.readouterr().err
    assert "grid_specs/clip_highr.yaml: no such spec file or sweep; did you mean 'clip_higher'?" in text
    assert "normalization" in text
    assert len(text.splitlines()) == 1


def test_mistake_4_empty_grid(say: Say) -> None:
    assert "has no levels, so the grid is empty; give it a list of values" in say("question: q\naxes: {model: []}")
    text = say(GOOD + "exclude: ['tricks.surrogate.high > 0']\n")
    assert text.startswith("spec.yaml:4:1: the grid is empty: all 2 cells are excluded\n")


def test_mistake_5_bad_seeds(say: Say) -> None:
    assert say(GOOD.replace("seeds: 2", "seeds: [0, 1]")).startswith(
        "spec.yaml:3:1: seeds takes a number of replicates, 1 or more (seeds: 3), or {n: 3, start: 100}, not [0, 1]\n"
    )
    assert say(GOOD, "seeds=none").startswith("command line: seeds takes a number of replicates")


def test_mistake_6_missing_model(say: Say) -> None:
    assert say(GOOD, "model.path=/models/qwen") == (
        "command line: model.path: '/models/qwen': no such model folder; make the miniature models with "
        "`python -m harness lab build`, or give a hub-format folder with model.path=FOLDER\n"
    )


def test_a_name_that_is_no_folder_is_said_to_be_taken_from_the_hub(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spec.yaml").write_text(GOOD)
    assert main(["--root", str(tmp_path), "plan", str(tmp_path / "spec.yaml"), "model.path=models/qwen"]) == 0
    assert "'models/qwen' is no folder here and taken as a name on the model hub" in capsys.readouterr().out


def test_mistake_7_clip_axis_with_one_update_per_rollout(say: Say) -> None:
    assert "1 is not a multiple of train.epochs = 2; set train.epochs=1" in say(GOOD, "train.updates_per_rollout=1")
    text = say(GOOD, "train.updates_per_rollout=1", "train.epochs=1")
    assert text.startswith(
        "spec.yaml:2:8: axis 'tricks.surrogate.high': 0.2 and 0.28 train exactly alike: with "
        "train.updates_per_rollout = 1 every ratio is 1, "
    )
    assert "; set train.updates_per_rollout: 4 in `base`, " in text


def test_mistake_8_unwritable_folder(say: Say, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    text = say(GOOD, "--root", str(tmp_path / "file"), command="sweep")
    assert "cannot be written (Not a directory); give a folder with --root DIR" in text
    assert len(text.splitlines()) == 1


def test_mistake_9_yaml_typo(say: Say) -> None:
    assert say("question: q?\naxes: {model: [small_base, large_base\nseeds: 2\n") == (
        "spec.yaml:3:6: not valid YAML: expected ',' or ']', but got ':'; a [ is not closed, or a comma is missing\n"
        "    seeds: 2\n"
        "         ^\n"
    )


def test_mistake_10_unknown_override(say: Say) -> None:
    assert say(GOOD, "train.step=20") == (
        "command line: unknown key 'train.step'; did you mean 'train.steps'? "
        "(a config key, a group, an axis of the spec, seeds, design, stop or prune)\n"
    )


def test_mistake_11_gae_without_a_critic(say: Say) -> None:
    assert say("question: q?\naxes: {tricks.advantage: [group_z, gae]}\n") == (
        "spec.yaml:2:36: tricks.advantage: 'gae' needs a critic; set critic.lr, or choose recipe=ppo\n"
        "    axes: {tricks.advantage: [group_z, gae]}\n"
        "                                       ^\n"
    )
    text = say("question: q?\nbase: {recipe: ppo}\naxes: {tricks.advantage: [gae, group_z]}\n")
    assert "critic: tricks.advantage = group_z reads no values; take a recipe without a critic, or choose gae" in text
    assert len(text.splitlines()) == 3


def test_mistake_12_a_trick_that_cannot_exist(say: Say) -> None:
    text = say("question: q?\naxes: {tricks.advantage: [group_z, batch_mean_group_std]}\n")
    assert text.startswith(
        "spec.yaml:2:36: tricks.advantage: no trick 'batch_mean_group_std' in slot 'advantage', for a group of equal "
        "rewards is off the batch's mean and has deviation 0: under a batch mean of 1/3 its zeros give "
        f"A = (0 - 1/3) / 1e-6 = {(0 - 1 / 3) / 1e-6:.0f}; choose group_z, batch_z or group_mean_batch_std\n"
    )


def test_missing_data_may_be_planned_but_not_run(say: Say, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD + "base: {data: gsm8k, data.path: nowhere.jsonl}\n")
    assert main(["--root", str(tmp_path), "plan", str(path)]) == 0
    assert "nowhere.jsonl" in capsys.readouterr().out
    text = say(path.read_text(), command="sweep")
    assert text == "data.path: no file 'nowhere.jsonl'; give a JSON-lines file with data.path=FILE, or put it there\n"
    assert not (tmp_path / "runs").exists()


def test_names_that_do_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in {
        ("status", "clip"): "no sweep 'clip'",
        ("status",): "start one with `python -m harness sweep SPEC`",
        ("verdict", "clip"): "no sweep 'clip'",
        ("mirror", "clip"): "no sweep 'clip'",
        ("tricks", "grup_z"): "no trick or slot 'grup_z'; did you mean 'group_z'?",
        ("diff", "dapoo"): "error: no recipe 'dapoo'; did you mean 'dapo'? (there are: cispo, dapo, dr_grpo, grpo, ",
        ("diff", "grpo", "lite_pp"): "no recipe 'lite_pp'; did you mean 'lite_ppo'?",
        ("run", "runs/x"): "no such run folder",
    }.items():
        assert main(["--root", str(tmp_path), *words]) == 2
        assert expected in capsys.readouterr().err, words


def test_options_may_stand_anywhere(say: Say, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD)
    words = ["plan", str(path), "train.steps=3", "--name", "x", "train.lr=1e-3", "--root", str(tmp_path)]
    assert main(words) == 0
    assert "sweep 'x'" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["plan", str(path), "--nmae", "x"])
    assert caught.value.code == 2


def test_help_is_light_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from harness.sweep.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = ('torch', 'pandas', 'mlflow', 'hydra', 'omegaconf', 'rich', 'pydantic', 'yaml')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    before = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert time.perf_counter() - before < 5  # a loaded machine; the CPU time is in bench/sweep.py


@pytest.mark.parametrize("command", ["plan", "status", "tricks", "diff"])
def test_looking_needs_no_torch_pandas_or_mlflow(command: str, tmp_path: Path) -> None:
    more = {"plan": ["grid_specs/clip_higher.yaml", "model=hub_folder"], "diff": ["ppo"]}
    words = [command, *more.get(command, [])]
    code = (
        "import sys\n"
        "from harness.sweep.cli import main\n"
        f"main(['--root', {str(tmp_path)!r}, *{words!r}])\n"
        "print([m for m in ('torch', 'pandas', 'mlflow', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_the_mirror_keeps_telemetry_off_and_patience_short() -> None:
    assert PATIENCE["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert float(PATIENCE["MLFLOW_HTTP_REQUEST_TIMEOUT"]) <= 10


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/b", ".hidden", "..", "-x", "a b", "é", "x" * 101])
def test_no_name_leaves_the_sweeps_folder(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    words = ["--root", str(root), "sweep", "clip_higher", f"--name={name}", "--workers", "1"]
    assert main(words) == 2
    assert "cannot name a sweep" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["plan", "status", "verdict", "report", "mirror"])
def test_a_sweep_elsewhere_is_none_of_ours(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "manifest.json").write_text(
        '{"spec": "x.yaml", "overrides": [], "question": "", "runs": []}'
    )
    (tmp_path / "root" / "sweeps").mkdir(parents=True)
    assert main(["--root", str(tmp_path / "root"), command, "../../outside"]) == 2
    assert "no su" in (said := capsys.readouterr().err) or "no sweep" in said
