"""Held-out accuracy: each benchmark's questions, sampled several times and once greedily.

A benchmark's accuracy is avg@k, the mean over questions and samples; `eval/accuracy` is the plain mean over
benchmarks (macro average). Every question's every sample is kept, since paired and clustered errors need them.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from harness import tasks
from harness.config import Evaluate
from harness.core import seeds
from harness.core.engines import Engine, SamplingParams
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout

ROWS_AT_ONCE = 512  # bounds the cache of one generation call


@dataclass(frozen=True)
class Benchmark:
    name: str
    task: tasks.Task
    prompts: list[list[int]]  # token ids per question


def load(config: Evaluate, policy: Policy) -> list[Benchmark]:
    loaded = []
    for name, data in config.benchmarks.items():
        task = tasks.load(data)
        loaded.append(Benchmark(name, task, policy.encode([problem.prompt for problem in task.problems])))
    return loaded


def evaluate(
    benchmarks: list[Benchmark], engine: Engine, policy: Policy, config: Evaluate, seed: int, step: int
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """(metrics, one record per benchmark and mode with correct, length, truncated [Q, S])."""
    metrics: dict[str, float] = {}
    records = []
    modes = [("sample", config.samples, config.temperature)] + ([("greedy", 1, 0.0)] if config.greedy else [])
    for mode, samples, temperature in modes:
        params = SamplingParams(config.max_new_tokens, temperature)
        scored = _score(benchmarks, mode, samples, params, engine, policy, seed, step)
        prefix = "" if mode == "sample" else "greedy_"
        for benchmark, record in zip(benchmarks, scored, strict=True):
            metrics[f"eval/{benchmark.name}/{prefix}accuracy"] = float(np.mean(record["correct"]))
        metrics[f"eval/{prefix}accuracy"] = float(np.mean([np.mean(record["correct"]) for record in scored]))
        if mode == "sample":
            metrics["eval/length"] = float(np.mean([np.mean(record["length"]) for record in scored]))
            metrics["eval/truncated_share"] = float(np.mean([np.mean(record["truncated"]) for record in scored]))
        records += scored
    return metrics, records


def _score(
    benchmarks: list[Benchmark],
    mode: str,
    samples: int,
    params: SamplingParams,
    engine: Engine,
    policy: Policy,
    seed: int,
    step: int,
) -> list[dict[str, Any]]:
    """One record per benchmark. Questions of all benchmarks are sampled together: few large batches cost least."""
    records: list[dict[str, Any]] = [
        {"step": step, "benchmark": b.name, "mode": mode, "correct": [], "length": [], "truncated": []}
        for b in benchmarks
    ]
    questions = [(number, i) for number, b in enumerate(benchmarks) for i in range(len(b.prompts))]
    chunk = max(1, ROWS_AT_ONCE // samples)
    for start in range(0, len(questions), chunk):
        part = questions[start : start + chunk]
        noise = [_noise(benchmarks[number], i, samples, seed, step) for number, i in part]
        prompts = Prompts.of([benchmarks[number].prompts[i] for number, i in part])
        rollout = engine.generate(prompts, np.array(noise), params)
        for number, (benchmark, record) in enumerate(zip(benchmarks, records, strict=True)):
            rows = [row for row, (owner, _) in enumerate(part) if owner == number]
            if rows:
                own = rollout.take(torch.tensor(rows))
                answers = [benchmark.task.problems[part[row][1]].answer for row in rows]
                record["correct"] += grade(own, policy, benchmark.task, answers).right.int().tolist()
                record["length"] += own.lengths.tolist()
                record["truncated"] += own.truncated.int().tolist()
    return records


def _noise(benchmark: Benchmark, question: int, samples: int, seed: int, step: int) -> list[int]:
    problem = benchmark.task.problems[question]
    return [seeds.derive(seed, "eval", benchmark.name, step, problem.id, sample) for sample in range(samples)]


class Graded(NamedTuple):
    right: Float[Tensor, "P G"]  # float64, 0 or 1
    formatted: Bool[Tensor, "P G"]  # an answer could be read
    texts: list[str]  # in row order


def grade(rollout: Rollout, policy: Policy, task: tasks.Task, answers: list[str]) -> Graded:
    """A truncated response is neither right nor formatted, whatever it says."""
    prompts, samples = rollout.lengths.shape
    texts = policy.decode(rollout.tokens.flatten(0, 1), rollout.lengths.flatten())
    outcomes = task.grade_all(texts, [answers[row // samples] for row in range(len(texts))])
    right = torch.tensor([outcome == "right" for outcome in outcomes], dtype=torch.float64).view(prompts, samples)
    read = torch.tensor([outcome != "unparsable" for outcome in outcomes]).view(prompts, samples)
    return Graded(right.masked_fill(rollout.truncated, 0.0), read & ~rollout.truncated, texts)
