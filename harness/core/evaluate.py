"""Held-out accuracy: each benchmark's questions, each sampled k times and once greedily.

A benchmark's accuracy is avg@k, the mean over questions and their k samples; k is the benchmark's own (`samples`), or
`evaluate.samples`. `eval/accuracy` is the plain mean over benchmarks (macro average), whatever their k. Every
question's every sample is kept, since paired and clustered errors need them, and the ends of some responses. Leaves
out: how sure an accuracy is (`analysis.questions`), and that the first evaluation is made once (`first_eval.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from harness import tasks
from harness.config import KEPT_CHARACTERS, KEPT_SAMPLES, ROWS_AT_ONCE, Evaluate, RunConfig
from harness.core import seeds
from harness.core.engines import Engine, SamplingParams
from harness.core.parallel import gathered, in_shares
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout


@dataclass(frozen=True)
class Benchmark:
    name: str
    task: tasks.Task
    prompts: list[list[int]]  # token ids per question


class Evaluation(NamedTuple):
    metrics: dict[str, float]
    lines: dict[str, list[dict[str, Any]]]  # for the record, by kind: `evals` and `outputs`
    spared: float = 0.0  # seconds that it took the run that made it, where this one only reads it


def load(config: Evaluate, policy: Policy) -> list[Benchmark]:
    loaded = []
    for name, data in config.benchmarks.items():
        task = tasks.load(data)
        loaded.append(Benchmark(name, task, policy.encode([problem.prompt for problem in task.problems])))
    return loaded


def dropped(task: tasks.Task, benchmarks: list[Benchmark]) -> dict[str, int]:
    """Problems left out since their reference answer cannot be graded against: of the training set, of benchmarks."""
    return {"data": task.dropped} | {f"evaluate.benchmarks.{b.name}": b.task.dropped for b in benchmarks}


def evaluate(config: RunConfig, benchmarks: list[Benchmark], engine: Engine, policy: Policy, step: int) -> Evaluation:
    """Metrics, and a line per benchmark and mode: correct, length, truncated [Q][S], and the texts [Q][≤ S]."""
    how = config.identity.evaluate
    errors = tasks.verifier_errors()
    metrics: dict[str, float] = {}
    lines: dict[str, list[dict[str, Any]]] = {"evals": [], "outputs": []}
    for mode in ("sample", "greedy") if how.greedy else ("sample",):
        scored = _score(config, benchmarks, mode, engine, policy, step)
        for one in scored:
            lines["outputs"].append(
                {key: one[key] for key in ("step", "benchmark", "mode")} | {"texts": one.pop("texts")}
            )
        lines["evals"] += scored
        metrics |= _metrics(scored, "" if mode == "sample" else "greedy_", how.pass_at if mode == "sample" else [])
        if mode == "sample":
            metrics["eval/length"] = _macro([line["length"] for line in scored])
            metrics["eval/truncated_share"] = _macro([line["truncated"] for line in scored])
    metrics["eval/verifier_errors"] = sum(gathered(tasks.verifier_errors() - errors))
    return Evaluation(metrics, lines)


def _metrics(scored: list[dict[str, Any]], prefix: str, pass_at: Sequence[int]) -> dict[str, float]:
    """Each benchmark's avg@k, its pass@k where it has k samples, and the plain means of either."""
    found: dict[str, float] = {}
    for line in scored:
        found[f"eval/{line['benchmark']}/{prefix}accuracy"] = float(np.mean(line["correct"]))
    found[f"eval/{prefix}accuracy"] = _macro([line["correct"] for line in scored])
    for k in pass_at:
        each = {line["benchmark"]: pass_at_k(line["correct"], k) for line in scored if len(line["correct"][0]) >= k}
        found |= {f"eval/{name}/pass_{k}": value for name, value in each.items()}
        found[f"eval/pass_{k}"] = float(np.mean(list(each.values())))
    return found


def _macro(tables: list[list[list[int]]]) -> float:
    return float(np.mean([np.mean(table) for table in tables]))


def pass_at_k(correct: list[list[int]], k: int) -> float:
    """Mean over questions of 1 - C(n - c, k) / C(n, k), c right of n samples: unbiased for any n ≥ k.

    Ref: arXiv:2107.03374 (Codex), equation 1.
    """
    return float(np.mean([1 - math.comb(len(row) - sum(row), k) / math.comb(len(row), k) for row in correct]))


def _score(
    config: RunConfig, benchmarks: list[Benchmark], mode: str, engine: Engine, policy: Policy, step: int
) -> list[dict[str, Any]]:
    """One line per benchmark, with its texts. Questions sampled equally often go together: large batches cost least."""
    how = config.identity.evaluate
    lines: list[dict[str, Any]] = [
        {"step": step, "benchmark": b.name, "mode": mode, "correct": [], "length": [], "truncated": [], "texts": []}
        for b in benchmarks
    ]
    if mode == "sample":
        params = SamplingParams(how.max_new_tokens, how.temperature, how.top_p, how.top_k)
        samples = [how.samples_of(b.name) for b in benchmarks]
    else:
        params, samples = SamplingParams(how.max_new_tokens, 0.0), [1] * len(benchmarks)
    for k in dict.fromkeys(samples):
        questions = [(n, i) for n, b in enumerate(benchmarks) if samples[n] == k for i in range(len(b.prompts))]
        at_once = max(1, ROWS_AT_ONCE[config.identity.sampling.engine] // k)
        for start in range(0, len(questions), at_once):
            part = questions[start : start + at_once]
            noise = [_noise(benchmarks[n], i, k, config.seed, step) for n, i in part]
            prompts = Prompts.of([benchmarks[n].prompts[i] for n, i in part])
            rollout = engine.generate(prompts, np.array(noise), params)
            for n in dict.fromkeys(n for n, _ in part):
                rows = [row for row, (owner, _) in enumerate(part) if owner == n]
                _add(lines[n], rollout.take(torch.tensor(rows)), policy, benchmarks[n], [part[row][1] for row in rows])
    return lines


def _add(line: dict[str, Any], rollout: Rollout, policy: Policy, benchmark: Benchmark, questions: list[int]) -> None:
    """These questions' graded responses to the line of their benchmark."""
    graded = grade(rollout, policy, benchmark.task, [benchmark.task.problems[i].answer for i in questions])
    samples = rollout.lengths.shape[1]
    line["correct"] += graded.right.int().tolist()
    line["length"] += rollout.lengths.tolist()
    line["truncated"] += rollout.truncated.int().tolist()
    groups = [graded.texts[start : start + samples] for start in range(0, len(graded.texts), samples)]
    line["texts"] += [[_end(text) for text in group[:KEPT_SAMPLES]] for group in groups]


def _end(text: str) -> str:
    return text if len(text) <= KEPT_CHARACTERS else f"…{text[-KEPT_CHARACTERS:]}"


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
    outcomes = in_shares(task.grade_all, texts, [answers[row // samples] for row in range(len(texts))])
    right = torch.tensor([outcome == "right" for outcome in outcomes], dtype=torch.float64).view(prompts, samples)
    read = torch.tensor([outcome != "unparsable" for outcome in outcomes]).view(prompts, samples)
    return Graded(right.masked_fill(rollout.truncated, 0.0), read & ~rollout.truncated, texts)
