"""Seconds per training step and tokens per second, beside TRL's GRPOTrainer on the same work.

Same miniature model, prompts, 32 prompts × 8 samples, 4 updates of 64 rows, exactly TOKENS response tokens (nothing
ends early), fp32, one thread, CPU seconds, medians. The two take turns, each round in a fresh process, so that a
slow spell of the machine hits both. Also prints where our time goes, and what the bare matrix products of the same
tokens cost.

    python -m bench.step
"""

import os

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}

import contextlib
import io
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness import config, store, tasks
from harness.core import train as core
from harness.core.memory import keep_freed_memory
from harness.core.policy import Policy
from harness.lab import architecture, vocabulary

PROMPTS, SAMPLES, UPDATES, TOKENS = 32, 8, 4, 32
ROUNDS, STEPS = 3, 5  # per round each side makes STEPS steps, of which the first is warm-up
DATA = {"task": "arithmetic", "min_ops": 4, "max_ops": 6, "size": 512}


def main() -> None:
    if len(sys.argv) > 1:
        return _side(sys.argv[1], Path(sys.argv[2]))
    with tempfile.TemporaryDirectory() as name:
        model = Path(name) / "model"
        architecture.fresh("small", 0).save_pretrained(model)
        vocabulary.tokenizer().save_pretrained(model)
        results: dict[str, list[dict[str, Any]]] = {"ours": [], "trl": [], "bare": []}
        for _ in range(ROUNDS):
            for side, found in results.items():
                command = [sys.executable, "-m", "bench.step", side, str(model)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found.append(json.loads(done.stdout.splitlines()[-1]))
    ours, theirs, bare = ([s for r in results[side] for s in r["seconds"]] for side in results)
    _report(ours, theirs, [phase for r in results["ours"] for phase in r["phases"]], statistics.median(bare))


def _side(side: str, model: Path) -> None:
    """Prints one side's CPU seconds of each step as JSON."""
    torch.set_num_threads(1)
    phases: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as root:
        if side == "ours":
            seconds, phases = _ours(Path(root), model)
        else:
            seconds = _trl(Path(root), model) if side == "trl" else _bare_products(model)
    print("\n" + json.dumps({"seconds": seconds, "phases": phases}))


def _ours(root: Path, model: Path) -> tuple[list[float], list[dict[str, float]]]:
    """(CPU seconds of each step after warm-up, seconds by phase of each)."""
    tree = {
        "model": {"role": "bench", "path": str(model)},
        "data": DATA,
        "tricks": {"admit": "everything", "reward": "raw", "keep": "everything", "advantage": "group_z"}
        | {"weight": "token_mean", "surrogate": "clip", "penalty": "none"},
        "sampling": {"prompts_per_step": PROMPTS, "group_size": SAMPLES, "max_new_tokens": TOKENS},
        "train": {"steps": STEPS, "updates_per_rollout": UPDATES, "lr": 1e-5},
        "evaluate": {"every": 1000, "samples": 1, "max_new_tokens": 1, "benchmarks": {"one": DATA | {"size": 1}}},
        "runtime": {"checkpoint_every": 1000},
    }
    identity, runtime, *_ = config.build(tree)
    run = store.create_run(root, config.RunConfig(identity=identity, runtime=runtime, seed=0))
    load, marks = Policy.load, [time.process_time()]

    def endless(*given: Any) -> Policy:
        policy = load(*given)
        policy.end_tokens = []  # no token ends a response
        return policy

    def mark() -> bool:
        marks.append(time.process_time())
        return False

    with unittest.mock.patch.object(Policy, "load", endless):
        core.train(run, mark)
    assert all(row["m"]["length/mean"] == TOKENS for row in run.read("metrics")[:-1])
    seconds = [after - before for before, after in itertools.pairwise(marks[1:])]
    return seconds[1:], [record["seconds"] for record in run.read("timing")][1:-1]


def _trl(root: Path, model: Path) -> list[float]:
    """CPU seconds of each of TRL's rollout batches with its updates, after warm-up."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    problems = tasks.load(config.ArithmeticData.model_validate(DATA)).problems
    end = vocabulary.tokens().index(vocabulary.END)
    marks: list[float] = []

    class Marks(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step % UPDATES == 0:
                marks.append(time.process_time())

        def on_train_end(self, args, state, control, **kwargs):
            marks.append(time.process_time())

    def reward(completions: list[str], **kwargs: object) -> list[float]:
        return [float(len(text) % 2) for text in completions]

    settings = GRPOConfig(
        output_dir=str(root),
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=PROMPTS * SAMPLES // UPDATES,
        gradient_accumulation_steps=1,
        steps_per_generation=UPDATES,
        num_generations=SAMPLES,
        max_completion_length=TOKENS,
        max_steps=UPDATES * STEPS,
        learning_rate=1e-5,
        beta=0.0,
        loss_type="dapo",
        scale_rewards="group",
        top_k=0,
        generation_kwargs={"suppress_tokens": [end]},
        gradient_checkpointing=False,
        logging_steps=1000,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=0,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(model),
            reward_funcs=reward,
            args=settings,
            train_dataset=Dataset.from_list([{"prompt": problem.prompt} for problem in problems]),
            processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
            callbacks=[Marks()],
        )
        torch.set_num_threads(1)
        trainer.train()
    seconds = [after - before for before, after in itertools.pairwise(marks)]
    assert len(seconds) == STEPS, seconds
    return seconds[1:]


def _bare_products(folder: Path) -> list[float]:
    """CPU seconds of the weight products alone: one pass to sample, three to train (forward and two backward)."""
    model = architecture.fresh("small", 0)
    weights = [p.detach() for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    weights.append(model.lm_head.weight.detach())
    prompt_tokens = PROMPTS * 8

    inputs: dict[tuple[int, int], torch.Tensor] = {}

    def products(tokens: int, passes: int) -> None:
        for weight in weights:
            shape = (tokens, weight.shape[1])
            x = inputs.setdefault(shape, torch.ones(shape) if shape not in inputs else inputs[shape])
            for _ in range(passes):
                x @ weight.T

    def step() -> None:
        products(prompt_tokens, 1)
        for _ in range(TOKENS):
            products(PROMPTS * SAMPLES, 1)
        for _ in range(UPDATES):
            products((PROMPTS * SAMPLES * TOKENS + prompt_tokens) // UPDATES, 3)

    keep_freed_memory()
    return [_cpu(step) for _ in range(STEPS)][1:]


def _cpu(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _report(ours: list[float], theirs: list[float], phases: list[dict[str, float]], bare: float) -> None:
    tokens = PROMPTS * SAMPLES * TOKENS
    mine, peer = statistics.median(ours), statistics.median(theirs)
    print(
        f"one step = {PROMPTS} prompts x {SAMPLES} samples x {TOKENS} tokens, {UPDATES} updates; CPU seconds, 1 thread"
    )
    for name, values in (("ours", ours), ("TRL GRPOTrainer", theirs)):
        middle = statistics.median(values)
        print(
            f"  {name:16} {middle:6.3f} s/step (min {min(values):.3f}, max {max(values):.3f}, n {len(values)}), "
            f"{tokens / middle:7.0f} tokens/s"
        )
    print(f"  ratio            {peer / mine:6.2f} x faster than TRL (target >= 2.5)")
    names = ["generate", "grade", "prepare", "update"]
    wall = {name: statistics.median(phase[name] for phase in phases) for name in names}
    print("  where ours goes  " + ", ".join(f"{name} {1000 * wall[name]:.0f} ms" for name in names) + " (wall)")
    print(f"  bare products    {1000 * bare:.0f} ms for the same tokens: ours is {mine / bare:.1f} x that")
    print(json.dumps({"ours_s": mine, "trl_s": peer, "ratio": peer / mine, "bare_s": bare}))


if __name__ == "__main__":
    main()
