"""The loop: byte-equal curves, kills at any moment, what is recorded, real folders and files."""

import json
import signal
import time
from pathlib import Path

import pytest

from harness import store
from harness.core.train import train
from tests.core.conftest import MakeRun
from tests.core.together import CONTEXT


def curve(run: store.Run) -> str:
    return "\n".join(store.dump_json(run.read(kind)) for kind in ("metrics", "evals", "counts", "samples"))


def test_two_runs_of_one_seed_are_byte_equal_and_another_seed_is_not(make_run: MakeRun) -> None:
    one, two, other = make_run("one"), make_run("two"), make_run("other", seed=2)
    for run in (one, two, other):
        train(run)
        assert run.state() == "done"
    name = "metrics/a000.jsonl"
    assert (one.path / name).read_bytes() == (two.path / name).read_bytes()
    assert (one.path / "evals/a000.jsonl").read_bytes() == (two.path / "evals/a000.jsonl").read_bytes()
    assert (one.path / name).read_bytes() != (other.path / name).read_bytes()


def test_it_learns(make_run: MakeRun, tmp_path: Path) -> None:
    # a random policy that is paid for ending on the number 3 says it at first one time in thirty
    threes = tmp_path / "threes.jsonl"
    threes.write_text("".join(json.dumps({"question": f"Q {i} = ? A", "answer": "3"}) + "\n" for i in range(16)))
    run = make_run(
        "learn",
        data={"task": "jsonl", "path": str(threes)},
        train__steps=30,
        train__lr=1e-2,
        tricks__advantage="group_z",
        sampling__prompts_per_step=8,
        sampling__group_size=8,
        evaluate__every=30,
        evaluate__greedy=False,
    )
    train(run)
    accuracy = [record["m"]["train/accuracy"] for record in run.read("metrics")[:-1]]
    assert accuracy[0] < 0.15
    assert sum(accuracy[-5:]) / 5 > 0.5


@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_a_stop_at_any_boundary_resumes_to_the_same_bytes(make_run: MakeRun, at: int) -> None:
    whole, halves = make_run("whole"), make_run("halves")
    train(whole)
    calls = iter(range(100))
    train(halves, lambda: next(calls) >= at)
    status = halves.status()
    assert {key: status[key] for key in ("state", "step", "steps", "attempt")} == {
        "state": "stopped",
        "step": at,
        "steps": 6,
        "attempt": 0,
    }
    assert [step for step, _ in status["evals"]] == [0, 3][: 1 + (at > 3)]
    assert 0 < status["seconds"] < 60
    train(halves)
    assert curve(halves) == curve(whole)
    assert halves.next_attempt() == 2


def test_a_kill_at_any_instant_resumes_to_the_same_bytes(make_run: MakeRun) -> None:
    whole, killed = make_run("whole", train__steps=12), make_run("killed", train__steps=12)
    train(whole)
    for lines in (1, 3, 8):  # kill -9 as soon as that many steps are recorded
        process = CONTEXT.Process(target=train, args=(killed,))
        process.start()
        deadline = time.monotonic() + 60
        while len(killed.read("metrics")) < lines and time.monotonic() < deadline and process.is_alive():
            time.sleep(0.002)
        process.kill()
        process.join()
        assert lines <= len(killed.read("metrics")) < 13 and process.exitcode == -signal.SIGKILL
    with open(killed.attempt_file("metrics", killed.next_attempt() - 1), "a") as file:
        file.write('{"step": 99, "m": {"torn')  # a write cut short by the kill
    train(killed)
    assert curve(killed) == curve(whole)


def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, damaged = make_run("whole"), make_run("damaged")
    train(whole)
    calls = iter(range(100))
    train(damaged, lambda: next(calls) >= 5)
    newest = sorted((damaged.path / "checkpoint").glob("step_*"))[-1] / "rank-00000.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    train(damaged)
    assert "trying the one before" in capsys.readouterr().err
    assert curve(damaged) == curve(whole)


def test_micro_batches_are_runtime_and_leave_the_curve_within_rounding(make_run: MakeRun) -> None:
    one, other = make_run("one"), make_run("other", runtime__micro_batch_rows=3)
    assert one.id == other.id
    train(one)
    train(other)
    for a, b in zip(one.read("metrics"), other.read("metrics"), strict=True):
        assert set(a["m"]) == set(b["m"])
        for key in {"grad/norm", "policy/entropy", "eval/accuracy"} & set(a["m"]):
            assert a["m"][key] == pytest.approx(b["m"][key], rel=1e-3, abs=1e-6)


def test_arms_of_one_seed_share_prompts_and_noise(make_run: MakeRun) -> None:
    # wrong answers, which this policy nearly always gives, score +1: ratios rise and the upper clip has work to do
    upside_down = {"name": "affine", "scale": -2.0, "shift": 1.0}
    settings = {"tricks__reward": upside_down, "train__lr": 1e-2}
    low, high = make_run("low", **settings), make_run("high", tricks__surrogate__high=0.28, **settings)
    assert low.id != high.id
    train(low)
    train(high)
    texts = [[sample["text"] for sample in run.read("samples")[0]["samples"]] for run in (low, high)]
    assert texts[0] == texts[1]
    first = [run.read("metrics")[0]["m"] for run in (low, high)]
    assert first[0]["policy/entropy"] == first[1]["policy/entropy"]
    assert first[0]["clip/high_20"] > 0  # the knob bites here,
    assert first[1]["clip/knob_changed_tokens"] > 0 == first[0]["clip/knob_changed_tokens"]
    assert curve(low) != curve(high)  # and it changes the run


@pytest.mark.parametrize(
    "changes",
    [{}, {"tricks__penalty": "k3"}, {"critic__lr": 1e-3, "tricks__advantage": "gae"}],
    ids=["plain", "reference", "critic"],
)
def test_every_recorded_key_is_documented(make_run: MakeRun, changes: dict) -> None:
    run = make_run("keys", **changes)
    train(run)
    documented = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
    keys = {key.replace("/sums/", "/<benchmark>/") for record in run.read("metrics") for key in record["m"]}
    missing = [key for key in sorted(keys) if f"`{key}`" not in documented]
    assert not missing
    assert {"eval/accuracy", "grad/norm", "clip/high_28"} <= keys


def test_evaluation_rows_are_kept_and_average_to_the_metric(make_run: MakeRun) -> None:
    run = make_run("evals")
    train(run)
    assert [record["step"] for record in run.read("evals") if record["mode"] == "sample"] == [0, 3, 6]
    for record in run.read("evals"):
        flat = [c for question in record["correct"] for c in question]
        key = "eval/sums/accuracy" if record["mode"] == "sample" else "eval/sums/greedy_accuracy"
        row = next(m["m"] for m in run.read("metrics") if m["step"] == record["step"])
        assert row[key] == pytest.approx(sum(flat) / len(flat))
        assert len(record["correct"]) == 40 and len(flat) == (80 if record["mode"] == "sample" else 40)


def test_a_gradient_that_is_not_finite_is_a_result(make_run: MakeRun) -> None:
    upside_down = {"name": "affine", "scale": -2.0, "shift": 1.0}
    run = make_run("diverged", train__lr=1e30, train__max_grad_norm=None, tricks__reward=upside_down)
    train(run)
    status = run.status()
    assert status["state"] == "diverged" and "not finite" in status["error"]


def test_provenance_is_recorded(make_run: MakeRun) -> None:
    run = make_run("provenance")
    train(run, lambda: True)
    record = json.loads((run.path / "provenance.json").read_text())
    assert record["packages"]["torch"] and "commit" in record and record["attempt"] == 0


SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.skipif(not SHARED.exists(), reason="needs a trained language model folder and GSM8K beside the checkout")
def test_a_real_language_model_trains_on_real_questions(make_run: MakeRun) -> None:
    run = make_run(
        "real",
        model__path=str(SHARED / "glass-en-hf"),
        data={
            "task": "jsonl",
            "path": str(SHARED / "gsm8k_openai_train.jsonl"),
            "answer_pattern": r"####\s*(.+)$",
            "size": 16,
        },
        train__steps=5,
        sampling__max_new_tokens=24,
        tricks__advantage="group_z",
    )
    train(run)
    rows = [record["m"] for record in run.read("metrics")]
    assert len(rows) == 6 and run.state() == "done"
    assert all(0 <= row["length/truncated_share"] <= 1 and row["policy/entropy"] > 0.5 for row in rows[:5])
    assert all(sample["text"].strip() for sample in run.read("samples")[0]["samples"])
