"""Accuracy over questions and samples where benchmarks differ in both, pass@k, what is kept, and verifier errors."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness import config, store, tasks
from harness.core import engines, evaluate
from harness.core.engines import SamplingParams
from harness.core.evaluate import Benchmark, pass_at_k
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout
from tests.core.conftest import MakeRun


@pytest.mark.parametrize(
    ("correct", "k", "value"),
    [
        ([[1, 1, 0, 0]], 2, 5 / 6),  # one of the six pairs has none right
        ([[1, 0, 0, 0]], 4, 1.0),
        ([[0, 0, 0, 0]], 4, 0.0),
        ([[1, 0], [1, 1], [0, 0]], 1, 0.5),  # pass@1 is avg@k
        ([[1, 0, 0], [0, 0, 0]], 2, 1 / 3),
    ],
)
def test_pass_at_k_by_hand(correct: list[list[int]], k: int, value: float) -> None:
    assert pass_at_k(correct, k) == pytest.approx(value, abs=1e-15)


def test_pass_at_k_is_the_share_of_all_draws_of_k_with_one_right() -> None:
    rows = [[int(i < c) for i in range(7)] for c in range(8)]
    for k in range(1, 8):
        drawn = [np.mean([any(draw) for draw in itertools.combinations(row, k)]) for row in rows]
        assert pass_at_k(rows, k) == pytest.approx(np.mean(drawn), abs=1e-12)


def settings(make_run: MakeRun, **changes: Any) -> config.RunConfig:
    return make_run(**changes).config()


def test_each_benchmark_has_its_own_k_and_counts_the_same(make_run: MakeRun, policy: Policy, sums: Path) -> None:
    three = {"task": "jsonl", "path": str(sums), "size": 3, "samples": 5}
    nine = {"task": "jsonl", "path": str(sums), "size": 9}
    both = settings(make_run, evaluate__benchmarks={"a": three, "b": nine}, evaluate__pass_at=[2, 4])
    engine = engines.load(both)
    engine.sync(policy)
    found = evaluate.evaluate(both, evaluate.load(both.identity.evaluate, policy), engine, policy, 0)
    lines = {(line["benchmark"], line["mode"]): line for line in found.lines["evals"]}
    for name, mode, questions, samples in [("a", "sample", 3, 5), ("b", "sample", 9, 2), ("a", "greedy", 3, 1)]:
        for key in ("correct", "length", "truncated"):
            assert np.shape(lines[name, mode][key]) == (questions, samples), (name, mode, key)
    shares = [np.mean(lines[name, "sample"]["correct"]) for name in "ab"]
    assert [found.metrics[f"eval/{name}/accuracy"] for name in "ab"] == shares
    assert found.metrics["eval/accuracy"] == pytest.approx(sum(shares) / 2)
    assert found.metrics["eval/length"] == np.mean([np.mean(lines[name, "sample"]["length"]) for name in "ab"])
    assert "eval/b/pass_4" not in found.metrics  # of two samples
    assert found.metrics["eval/pass_4"] == found.metrics["eval/a/pass_4"]
    assert found.metrics["eval/pass_2"] == (found.metrics["eval/a/pass_2"] + found.metrics["eval/b/pass_2"]) / 2

    alone = settings(make_run, evaluate__benchmarks={"b": nine})  # another benchmark changes no answer
    own = evaluate.evaluate(alone, evaluate.load(alone.identity.evaluate, policy), engine, policy, 0)
    assert own.lines["evals"][0] == lines["b", "sample"]


class Said(Policy):
    """Policy and engine in one: every sample of a question says one of its texts, by turns."""

    def __init__(self, texts: list[list[str]]) -> None:
        self.texts, self.asked = texts, list[tuple[int, int, SamplingParams]]()

    def sync(self, policy: object) -> None: ...
    def close(self) -> None: ...

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[int(text) + 1] for text in texts]

    def decode(self, tokens: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        return [self.texts[question - 1][sample] for question, sample in tokens[:, :2].tolist()]

    def generate(self, prompts: Prompts, seeds: np.ndarray, params: SamplingParams) -> Rollout:
        shape = seeds.shape
        self.asked.append((*shape, params))
        sample = torch.arange(shape[1]).expand(shape)
        tokens = torch.stack([prompts.ids[:, :1].expand(shape), sample], dim=-1)
        none = torch.zeros(*shape, 2)
        return Rollout(prompts, tokens, torch.full(shape, 2), torch.zeros(shape, dtype=torch.bool), none, none)


def said(
    make_run: MakeRun, texts: list[list[str]], answers: list[str], path: Path, **changes: Any
) -> tuple[evaluate.Evaluation, Said]:
    path.write_text("".join(json.dumps({"question": i, "answer": answer}) + "\n" for i, answer in enumerate(answers)))
    data = {"task": "jsonl", "path": str(path), "samples": len(texts[0])}
    how = settings(make_run, evaluate__benchmarks={"b": data}, evaluate__greedy=False, **changes)
    model: Any = Said(texts)
    task = tasks.load(how.identity.evaluate.benchmarks["b"])
    bench = Benchmark("b", task, model.encode([problem.prompt for problem in task.problems]))
    return evaluate.evaluate(how, [bench], model, model, 0), model


def test_what_was_sampled_is_what_was_asked_for(make_run: MakeRun, tmp_path: Path) -> None:
    changes = {"evaluate__temperature": 0.6, "evaluate__top_p": 0.9, "evaluate__top_k": 50}
    found, model = said(make_run, [["1", "2"], ["2", "2"]], ["1", "2"], tmp_path / "q.jsonl", **changes)
    assert model.asked == [(2, 2, SamplingParams(16, 0.6, 0.9, 50))]
    assert found.lines["evals"][0]["correct"] == [[1, 0], [1, 1]]


def test_large_batches_are_cut_by_rows(make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(evaluate.ROWS_AT_ONCE, "hf", 5)
    found, model = said(make_run, [["1", str(i)] for i in range(5)], ["1"] * 5, tmp_path / "q.jsonl")
    assert [(rows, samples) for rows, samples, _ in model.asked] == [(2, 2), (2, 2), (1, 2)]
    assert found.lines["evals"][0]["correct"] == [[1, 0], [1, 1], [1, 0], [1, 0], [1, 0]]


def test_the_ends_of_some_responses_are_kept(make_run: MakeRun, tmp_path: Path) -> None:
    long = "a" * 5000 + "the end 7"
    found, _ = said(make_run, [[long, "7", "8", "9", "10"]], ["7"], tmp_path / "q.jsonl")
    (line,) = found.lines["outputs"]
    assert {key: line[key] for key in ("step", "benchmark", "mode")} == {"step": 0, "benchmark": "b", "mode": "sample"}
    assert line["texts"] == [["…" + long[-1000:], "7", "8", "9"]]
    assert "texts" not in found.lines["evals"][0]


def test_what_the_verifier_fails_on_is_counted_apart_from_wrong_answers(make_run: MakeRun, tmp_path: Path) -> None:
    tower = r"\boxed{9^{9^{9^9}}}"  # said twice, and judged once
    texts = [[tower, r"\boxed{x}"], [r"\boxed{1+x}", tower]]
    found, _ = said(make_run, texts, ["x+1", "x+1"], tmp_path / "q.jsonl")
    assert found.metrics["eval/verifier_errors"] == 2
    assert found.lines["evals"][0]["correct"] == [[0, 0], [1, 0]]
    again, _ = said(make_run, [[r"\boxed{x}"]], ["x+1"], tmp_path / "r.jsonl")
    assert again.metrics["eval/verifier_errors"] == 0


def test_problems_that_no_answer_can_be_graded_against_are_told_by_data_set(tmp_path: Path) -> None:
    def task(*answers: str) -> tasks.Task:
        path = tmp_path / f"{len(answers)}.jsonl"
        path.write_text("".join(json.dumps({"question": "q", "answer": answer}) + "\n" for answer in answers))
        return tasks.load(config.JsonlData(path=str(path)))

    exam = Benchmark("exam", task("1", "", "t(0,4]"), [])
    assert evaluate.dropped(task("1", "2"), [exam]) == {"data": 0, "evaluate.benchmarks.exam": 2}


def test_a_run_records_them_and_keeps_what_was_said(make_run: MakeRun, sums: Path) -> None:
    from harness.core.train import train

    run = make_run(train__steps=2, evaluate__every=2)
    train(run)
    assert store.read_json(run.path / "provenance.json")["dropped"] == {"data": 0, "evaluate.benchmarks.sums": 0}
    first, last = run.read("metrics")[0]["m"], run.read("metrics")[-1]["m"]
    assert (first["eval/verifier_errors"], first["grading/verifier_errors"], last["eval/verifier_errors"]) == (0, 0, 0)
    kept = [(line["step"], line["mode"], np.shape(line["texts"])) for line in run.read("outputs")]
    assert kept == [(0, "sample", (40, 2)), (0, "greedy", (40, 1)), (2, "sample", (40, 2)), (2, "greedy", (40, 1))]


def test_pass_at_more_than_any_benchmark_is_sampled_is_refused(make_run: MakeRun) -> None:
    with pytest.raises(config.ConfigError, match=r"evaluate.pass_at: pass@8 .* no benchmark has more than 2; set"):
        make_run(evaluate__pass_at=[1, 8])


def test_k_is_part_of_an_evaluation_and_of_no_training_set(make_run: MakeRun, sums: Path) -> None:
    data = {"task": "jsonl", "path": str(sums)}
    twice = data | {"samples": 2}
    plain = settings(make_run).cell_id
    assert settings(make_run, data=twice).cell_id == plain
    assert settings(make_run, evaluate__benchmarks={"sums": twice}).cell_id != plain
