"""The evaluation of a starting point is made once, and what a run records is the same as if it had made its own."""

from typing import Any

import pytest

from harness import config, store
from harness.core import evaluate, first_eval
from harness.core.train import train
from tests.core.conftest import MakeRun

KINDS = ("metrics", "evals", "outputs", "counts", "samples")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of the evaluations that were made, in order."""
    made: list[int] = []
    real = evaluate.evaluate

    def noted(*given: Any) -> evaluate.Evaluation:
        made.append(given[-1])
        return real(*given)

    monkeypatch.setattr(evaluate, "evaluate", noted)
    return made


def record(run: store.Run) -> dict[str, bytes]:
    return {kind: run.attempt_file(kind, 0).read_bytes() for kind in KINDS}


def test_two_arms_share_it_and_each_has_the_record_of_one_that_ran_alone(make_run: MakeRun, steps: list[int]) -> None:
    punished = {"name": "affine", "scale": 1.0, "shift": -1.0}  # this policy's answers are nearly all wrong
    arm = {"tricks__reward": punished, "train__steps": 2, "evaluate__every": 2}
    baseline = make_run("shared", train__steps=2, evaluate__every=2)
    shared, alone = make_run("shared", **arm), make_run("alone", **arm)
    for run in (baseline, shared, alone):
        train(run)
    assert steps == [0, 2, 2, 0, 2]
    assert record(shared) == record(alone)
    assert record(shared)["metrics"] != record(baseline)["metrics"]
    assert shared.read("evals")[0] == baseline.read("evals")[0]


def test_what_stands_there_is_what_is_recorded_and_a_torn_file_is_made_again(
    make_run: MakeRun, steps: list[int]
) -> None:
    runs = [make_run("a", train__steps=1, train__lr=lr) for lr in (1e-3, 2e-3, 3e-3)]
    train(runs[0])
    (file,) = (runs[0].path.parents[1] / first_eval.FOLDER).iterdir()
    assert file.stem == first_eval.key(runs[0].config())
    kept = store.read_json(file)
    assert kept["seconds"] > 0 and "spared" not in runs[0].read("timing")[0]
    kept["metrics"]["eval/accuracy"], kept["seconds"] = 0.123, 12.5
    store.write_atomic(file, store.dump_json(kept))
    train(runs[1])
    assert runs[1].read("metrics")[0]["m"]["eval/accuracy"] == 0.123
    first, last = runs[1].read("timing")
    assert first["spared"]["evaluate"] == 12.5 and "spared" not in last
    assert first["seconds"]["load"] > 0 and "load" not in last["seconds"]
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    train(runs[2])
    assert runs[2].read("metrics")[0]["m"]["eval/accuracy"] == runs[0].read("metrics")[0]["m"]["eval/accuracy"]
    assert len(file.read_bytes()) > len(whole) // 2
    assert steps == [0, 1, 1, 0, 1]


def test_the_key_follows_what_determines_the_numbers_and_nothing_else(make_run: MakeRun) -> None:
    def key(**changes: Any) -> str:
        return first_eval.key(make_run(**changes).config())

    def bench(**changes: Any) -> dict[str, Any]:
        return {"sums": {"task": "jsonl", "path": "somewhere", "content": "abc"} | changes}

    same = [
        key(evaluate__benchmarks=bench()),
        key(evaluate__benchmarks=bench(path="elsewhere", role="exam")),
        key(evaluate__benchmarks=bench(), model__path="elsewhere", model__role="other"),
        key(evaluate__benchmarks=bench(), evaluate__every=1, train__steps=9, tricks__penalty="k3"),
        key(evaluate__benchmarks=bench(), sampling__temperature=0.5, runtime__threads=2),
    ]
    assert len(set(same)) == 1
    different = [
        same[0],
        key(evaluate__benchmarks=bench(content="abd")),
        key(evaluate__benchmarks=bench(samples=3)),
        key(evaluate__benchmarks={"others": bench()["sums"]}),
        key(evaluate__benchmarks=bench(), evaluate__top_p=0.9),
        key(evaluate__benchmarks=bench(), evaluate__greedy=False),
        key(evaluate__benchmarks=bench(), model__content="fine-tuned"),
        key(evaluate__benchmarks=bench(), model__chat=True),
        key(evaluate__benchmarks=bench(), model__dtype="bfloat16"),
        key(evaluate__benchmarks=bench(), sampling__engine="vllm"),
        key(evaluate__benchmarks=bench(), seed=2),
        key(evaluate__benchmarks=bench(content="", path="one")),  # nothing says that two files are the same
        key(evaluate__benchmarks=bench(content="", path="two")),
    ]
    assert len(set(different)) == len(different)


def test_another_meaning_of_numbers_is_another_key(make_run: MakeRun) -> None:
    now = make_run().config()
    later = now.identity.model_copy(update={"result_version": now.identity.result_version + 1})
    assert first_eval.key(config.RunConfig(identity=later, runtime=now.runtime, seed=1)) != first_eval.key(now)
