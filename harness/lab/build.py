"""Remakes the miniature models: each size's base from nothing, then its aligned model from the base.

The two sizes train side by side, one thread each. A base model first reads whole answers without random errors,
then the whole corpus with its errors, dead ends and loops; an aligned one goes on with careful answers only. Leaves
out: what the corpus says (`harness.lab.corpus`), the accuracies that are promised (`harness.lab.bands`).

    python -m harness lab build [--only small_base ...] [--target DIR]
"""

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from transformers import Qwen3ForCausalLM

from harness.lab import architecture, corpus, measure
from harness.lab.pretrain import Phase, train
from harness.lab.vocabulary import tokenizer

WEIGHTS = Path(__file__).parent / "weights"
ROLES = ("small_base", "small_aligned", "large_base", "large_aligned")
SEED = 1


def phases(role: str) -> list[Phase]:
    """What a role is trained on, in order."""
    size, kind = role.split("_")
    if kind == "aligned":
        steps = {"small": 250, "large": 200}[size]
        return [Phase(steps, corpus.ALIGNED_STYLES, corpus.ALIGNED, lr=(0.02, 0.002))]
    clean, mixed = {"small": (900, 300), "large": (700, 250)}[size]
    return [
        Phase(clean, corpus.FIRST_STYLES, corpus.FIRST, lr=(0.02, 0.003), first_ops=2, growing=400),
        Phase(mixed, corpus.BASE_STYLES, corpus.BASE, lr=(0.02, 0.001)),
    ]


def build(target: Path, only: list[str] | None = None) -> None:
    """Writes the roles in `only` (all without it) under `target` and prints their measured starts.

    Raises ValueError for an unknown role, and for an aligned role whose base is neither asked for nor in `target`.
    """
    roles = [role for role in ROLES if only is None or role in only]
    unknown = sorted(set(only or []) - set(ROLES))
    if unknown:
        raise ValueError(f"--only: no model '{unknown[0]}' (there are: {', '.join(ROLES)})")
    for role in roles:
        base = role.replace("aligned", "base")
        if base not in roles and not (target / base / "config.json").is_file():
            raise ValueError(f"--only {role}: it is trained from {base}, which is not in {target}; add --only {base}")
    target.mkdir(parents=True, exist_ok=True)
    sizes = [[role for role in roles if role.startswith(size)] for size in architecture.SIZES]
    with ProcessPoolExecutor(max_workers=len(sizes), mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_make, target, part) for part in sizes if part]
        rows = [row for job in jobs for row in job.result()]
    print("\n".join([TABLE_HEAD, *rows]))


TABLE_HEAD = "\n".join(
    [
        "| model | parameters | seconds | difficulty | accuracy, T = 1 | greedy | mean length | truncated |",
        "|---|---|---|---|---|---|---|---|",
    ]
)


def _make(target: Path, roles: list[str]) -> list[str]:
    """Trains, saves and measures roles of one size in order; their rows of the table."""
    torch.set_num_threads(1)
    words, rows = tokenizer(), []
    for role in roles:
        size, kind = role.split("_")
        began = time.perf_counter()
        if kind == "base":
            model = architecture.fresh(size, SEED)
        else:
            model = Qwen3ForCausalLM.from_pretrained(target / f"{size}_base", dtype=torch.float32)

        def say(line: str, role: str = role, began: float = began) -> None:
            print(f"{role}  {time.perf_counter() - began:5.0f} s  {line}", flush=True)

        train(model, words, phases(role), SEED + ROLES.index(role), say)
        seconds = time.perf_counter() - began
        model.eval().save_pretrained(target / role)
        tokenizer().save_pretrained(target / role)  # a used one would save its last padding with it
        (target / role / "model.safetensors").chmod(0o644)
        size_text = f"{model.num_parameters():,}"
        for difficulty in measure.DIFFICULTIES:
            s = measure.start(model, words, difficulty, size=400)
            rows.append(
                f"| {role} | {size_text} | {seconds:.0f} | {difficulty} | {s.accuracy:.2f} | {s.greedy:.2f} "
                f"| {s.length:.0f} | {s.truncated:.2f} |"
            )
            say(rows[-1])
    return rows
