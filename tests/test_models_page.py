"""docs/models.md as a stranger follows it: its files under their names in a copy of the repository, its commands."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import WORDS, make_model

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = (REPOSITORY / "docs/models.md").read_text()
FILES = dict(re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", PAGE, re.S))
COMMANDS = re.findall(r"^    python -m (harness .*)$", PAGE, re.M)
TEMPLATE = (
    "{% for m in messages %}{{ m.role }} = {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}A{% endif %}{% if enable_thinking %} ?{% endif %}"
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the page's files, a model with a chat template, and somebody's data."""
    root = tmp_path_factory.mktemp("models_page")
    ignored = shutil.ignore_patterns("__pycache__", "weights")
    for name in ("harness", "analysis", "experiments", "grid_specs"):
        shutil.copytree(REPOSITORY / name, root / name, ignore=ignored)
    for name, text in FILES.items():
        (root / name).write_text(text)
    make_model(root / "models/mine")
    settings = json.loads((root / "models/mine/tokenizer_config.json").read_text())
    (root / "models/mine/tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": TEMPLATE}))
    exam = [{"problem": f"Q {i} + 1 = ?", "solution": rf"It is \boxed{{{i + 1}}}"} for i in range(2)]
    drills = [{"problem": f"Q {i} + 1 = ?", "worked": f"One more.\n#### {i + 1}"} for i in range(6)]
    for name, rows in (("exam", exam), ("drills", drills)):
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root


def harness(root: Path, words: str) -> str:
    environment = os.environ | {"COLUMNS": "160", "PYTHONPATH": str(root), "HARNESS_ROOT": str(root)}
    command = [sys.executable, "-m", *shlex.split(words)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_files_and_commands_do_what_it_says(copy: Path) -> None:
    """In the page's order: what `data prepare` writes is what the specs read."""
    assert [command.split()[1] for command in COMMANDS] == ["data", "plan", "plan"]
    said = harness(copy, COMMANDS[0])
    assert "2 in evaluation set exam" in said
    made = [json.loads(line) for line in (copy / "data/mine/exercises.jsonl").read_text().splitlines()]
    assert len(made) == 3 and {row["question"] for row in made} <= {f"Q {i} + 1 = ?" for i in range(2, 6)}
    planned = [harness(copy, command) for command in COMMANDS[1:]]
    for text in planned:
        assert "2 cells x 3 seeds = 6 runs" in text
        assert "not there" not in text  # every data file is
    cells = [set(re.findall(r"\b[0-9a-f]{16}\b", text)) for text in planned]
    assert len(cells[0]) == len(cells[1]) == 2 and not cells[0] & cells[1]  # another template is another run


RUN = """
import json
from harness import store
from harness.core.policy import Policy
from harness.core.train import train
from harness.sweep import spec
from harness.sweep.expand import expand
from harness.config import RunConfig
from pathlib import Path
words = ("train.steps=1", "model.thinking=true", "sampling.group_size=2")
cell = expand(spec.read(Path("grid_specs/mine.yaml"), words)).cells[0]
run = store.create_run(Path("."), RunConfig(identity=cell.identity, runtime=cell.runtime, seed=0))
train(run)
policy = Policy.load(cell.identity.model)
asked = policy.tokenizer.decode(policy.encode(["Q 1 + 1 = ?"])[0])
print(json.dumps({"metrics": run.read("metrics")[-1]["m"], "evals": run.read("evals")[0], "asked": asked}))
"""


def test_a_run_of_it_asks_through_the_chat_template_and_takes_the_benchmarks_own_k(copy: Path) -> None:
    harness(copy, COMMANDS[0])
    environment = os.environ | {"PYTHONPATH": str(copy), "HARNESS_ROOT": str(copy), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", RUN], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (len(found["evals"]["correct"]), len(found["evals"]["correct"][0])) == (2, 8)
    assert {"eval/exam/accuracy", "eval/exam/pass_4", "eval/pass_4"} <= set(found["metrics"])
    system = yaml.safe_load(FILES["experiments/model/mine.yaml"])["system"]
    said = f"system = {system} user = Q 1 + 1 = ? A ?"  # the last mark is what the template says of thinking
    assert found["asked"].split() == [word if word in WORDS else "<unk>" for word in said.split()]


def test_its_files_name_every_key_of_a_model() -> None:
    from harness import config

    left_out = {"content", "lora_rank", "lora_alpha"}
    assert set(yaml.safe_load(FILES["experiments/model/mine.yaml"])) == set(config.Model.model_fields) - left_out
