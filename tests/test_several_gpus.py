"""`scale=paper` end to end with small numbers: a model in hub format, real questions, two ranks, the same code.

Leaves out: who gives a worker two GPUs (tests/sweep/test_pool.py, tests/slurm).
"""

import json
from pathlib import Path

import pytest
import yaml

from harness import store
from harness.sweep import plan as plans
from harness.sweep import worker
from tests.conftest import make_model

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared" / "data"

SPEC = """
question: Does the paper's configuration train with small numbers?
base:
  scale: paper
  model: small_base
  engine: hf
  data: gsm8k
  recipe: vanilla
  tricks.advantage: none
  tricks.reward: {{name: affine, scale: -2.0, shift: 1.0}}
  model.path: {model}
  data.path: {train}
  data.template: "{{question}}"
  sampling.prompts_per_step: 4
  sampling.group_size: 2
  sampling.max_new_tokens: 12
  train.steps: 2
  train.updates_per_rollout: 2
  train.warmup_steps: 1
  evaluate.every: 2
  evaluate.samples: 1
  evaluate.pass_at: [2]
  evaluate.max_new_tokens: 12
  evaluate.benchmarks:
    one: {{task: jsonl, path: {math}, question: problem, template: "${{data.template}}", size: 4}}
    two: {{task: jsonl, path: {math}, question: problem, template: "${{data.template}}", size: 3, samples: 2}}
  runtime.gpus: 2
  runtime.threads: 1
  runtime.micro_batch_tokens: 2048
axes:
  eps_high: {{key: tricks.surrogate.high, values: [0.28]}}
seeds: 1
"""

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\\n{{ m['content'] }}<|im_end|>\\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\\n{% endif %}"
    "{% if not enable_thinking %}<think>\\n\\n</think>\\n\\n{% endif %}"
)


def write_model(folder: Path) -> Path:
    """A tiny random Qwen3 whose tokens are bytes, so that it reads any text, with a chat template like Qwen3's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<|im_end|>", "<|im_start|>", "<pad>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    make_model(folder, vocab_size=len(letters) + 8, max_position_embeddings=2048, eos_token_id=256)
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<pad>")
    fast.chat_template = TEMPLATE.replace("\\n", "\n")
    fast.save_pretrained(folder)
    return folder


def questions(folder: Path) -> tuple[Path, Path]:
    """GSM8K to train on and MATH-500 to measure: the files beside the checkout, else a few questions of their kind."""
    train, math = SHARED / "gsm8k_openai_train.jsonl", SHARED / "math500_test.jsonl"
    if train.exists() and math.exists():
        return train, math
    sums = [(f"Tom has {a} apples and buys {a + 3} more. How many has he?", 2 * a + 3) for a in range(2, 34)]
    rows = [{"question": text, "answer": f"He has <<{n}>>{n}.\n#### {n}"} for text, n in sums]
    fractions = [{"problem": f"Simplify $\\frac{{{a}}}{{{2 * a}}}$.", "answer": "\\frac{1}{2}"} for a in range(2, 12)]
    train, math = folder / "train.jsonl", folder / "math.jsonl"
    for path, lines in ((train, rows), (math, fractions)):
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return train, math


def test_the_paper_s_configuration_trains_in_small_on_two_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    model = write_model(tmp_path / "model")
    train, math = questions(tmp_path)
    spec = tmp_path / "small.yaml"
    spec.write_text(SPEC.format(model=model, train=train, math=math))
    made = plans.make(str(spec), (), tmp_path)
    (planned,) = plans.commit(made)
    run = store.Run(tmp_path / "runs" / planned.id)
    assert worker.run_one(run.path) == ("done", ""), run.status()

    config = yaml.safe_load((run.path / "config.yaml").read_text())
    assert config["identity"]["model"]["chat"] and config["identity"]["model"]["dtype"] == "bfloat16"
    assert config["runtime"]["gradient_checkpointing"] and config["runtime"]["gpus"] == 2
    steps = [record["m"] for record in run.read("metrics")]
    assert len(steps) == 3
    for step in steps[:2]:
        assert step["count/updates"] == 2 and step["grad/norm"] > 0
        assert step["ratio/first_update"] < 1e-3  # old log-probabilities are the trainer's, over what was kept
        assert step["gap/mean_abs"] < 0.1
    assert {"eval/one/accuracy", "eval/two/pass_2"} <= steps[0].keys()
    asked = {json.loads(line)["question"] for line in train.read_text(encoding="utf-8").splitlines()}
    assert run.read("samples")[0]["prompt"] in asked
