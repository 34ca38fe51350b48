"""The plan's screen and what `sweep` refuses: hours, disk, memory and whether it fits, for every shipped spec."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from harness.sweep import commands, contents, keys, plan, present, spec
from harness.sweep.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]
SPECS = sorted(path for path in (REPOSITORY / "grid_specs").glob("*.yaml") if path != keys.CLAIMS)
SMALL = {"num_hidden_layers": 28, "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16}
SMALL |= {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True}  # 0.6 B
LARGE = SMALL | {"num_hidden_layers": 36, "hidden_size": 2560, "intermediate_size": 9728, "num_attention_heads": 32}


def folder(path: Path, config: dict[str, object]) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return path


def shown(path: Path, root: Path, width: int, *overrides: str) -> str:
    made = plan.of(spec.read(path, ("scale=paper", "launcher=slurm", *overrides)), root)
    console = Console(file=io.StringIO(), width=width)
    present.show(made, console, plan.workers(made))
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_says_at_the_papers_scale_what_it_costs_and_fits(path: Path, tmp_path: Path) -> None:
    own = [f"model.path={folder(tmp_path / 'model', SMALL)}", "data.path=questions.jsonl"]
    text = shown(path, tmp_path, 80, *(own if path.stem == "real_text" else []))
    assert " GPU-hours, " in text
    assert "computed for H100 80 GB, docs/cost.md" in text
    for part in ("of disk", "hours of ", "memory of ", "weights ", "activations ", "engine ", "GiB a GPU"):
        assert part in text, part
    assert "  fits" in text
    assert "too large" not in text
    assert "does not fit" not in text


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_keeps_its_columns(width: int, tmp_path: Path) -> None:
    text = shown(REPOSITORY / "grid_specs/clip_higher.yaml", tmp_path, width)
    lines = [line.rstrip() for line in text.splitlines()]
    assert "computed for one of      runs  GPUs  hours    disk  GiB a GPU" in lines
    assert "Qwen3-4B-Base, Qwen3-4B    18     8   38.5   97 GB       49.3  fits" in lines
    hours = "hours of Qwen3-4B-Base, Qwen3-4B: generate 19.1, update 7.4, score 1.8, evaluate 8.7, other 1.5"
    assert hours in " ".join(text.split())
    assert f"about {18 * 8 * (38.4615 + 74.465):,.0f} GPU-hours, " in text


def test_kinds_of_one_model_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    text = shown(REPOSITORY / "grid_specs/overlong.yaml", tmp_path, 100)
    for limit in (8000, 16000, 20000):
        assert f"Qwen3-8B-Base, {limit} tokens " in text
    text = shown(REPOSITORY / "grid_specs/recipes.yaml", tmp_path, 100)
    for name in ("critic", "reference", "refilled"):
        assert f"Qwen3-4B-Base, {name} " in text


def test_a_miniature_plan_says_nothing_of_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "model", lambda path: (path, f"content of {path}"))
    made = plan.of(spec.read(REPOSITORY / "grid_specs/clip_higher.yaml"), tmp_path)
    console = Console(file=io.StringIO(), width=100)
    present.show(made, console, 2)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "about 18 min of CPU, 9 min with 2 workers (from runtime.minutes_per_run)" in text
    assert "GiB" not in text
    assert "disk" not in text


def test_hours_that_nothing_tells_are_not_made_up(tmp_path: Path) -> None:
    path = REPOSITORY / "grid_specs/real_text.yaml"
    text = shown(path, tmp_path, 100, "model.path=org/unheard-of", "data.path=q.jsonl")
    assert "nothing tells the hours of 1 run yet: set runtime.minutes_per_run, or " in text
    assert "about" not in text


def test_the_page_shows_what_is_really_said(tmp_path: Path) -> None:
    (line,) = [s for s in (REPOSITORY / "docs/cost.md").read_text().splitlines() if s.startswith("    does not fit: ")]
    text = shown(
        REPOSITORY / "grid_specs/clip_higher.yaml", tmp_path, 80, "model=[large_base,large_aligned]", "runtime.gpus=2"
    )
    assert line.strip() in text.splitlines()


@pytest.fixture
def too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A sweep of a model that a GPU cannot hold; training is left out."""
    monkeypatch.setattr(commands, "_launch", lambda *_: 0)
    (tmp_path / "q.jsonl").write_text('{"question": "1 + 1?", "answer": "#### 2"}\n')
    model = folder(tmp_path / "model", LARGE)
    words = ["--root", str(tmp_path), "sweep", str(REPOSITORY / "grid_specs/real_text.yaml"), "scale=paper"]
    return [*words, f"model.path={model}", f"data.path={tmp_path / 'q.jsonl'}"]


def test_sweep_starts_nothing_that_cannot_fit(
    too_large: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(too_large) == 2
    said = capsys.readouterr()
    assert said.err.startswith("does not fit: model on 1 x H100 80 GB needs ")
    assert "; set runtime.gpus=2, or model.lora_rank=32\n" in said.err
    assert "nothing is started; if your GPU is another, hardware=NAME" in said.err
    assert "too large" in said.out
    assert not (tmp_path / "runs").exists()
    assert main([word.replace("sweep", "plan") if word == "sweep" else word for word in too_large]) == 0


def test_sweep_starts_it_on_a_larger_gpu_or_when_forced(too_large: list[str], tmp_path: Path) -> None:
    assert main([*too_large, "hardware.memory_gib=2000"]) == 0
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert main([*too_large, "--force", "--name", "forced"]) == 0
