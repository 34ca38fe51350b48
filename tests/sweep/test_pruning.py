"""Looks at runs that train: who is compared with whom, what a request does, what a kill in between leaves."""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis import load, report, terminal
from harness import store
from harness.sweep import cli, commands, pruning, worker
from harness.sweep import plan as plans
from tests.sweep.conftest import Harness

TRAIN = {"HARNESS_TRAIN": "tests.sweep.pruned_train:train"}
MANIFEST: dict[str, Any] = {
    "axes": {"model": ["small"], "arm": ["plain", "good", "bad", "aa"], "check": ["no", "yes"]},
    "baseline": {"arm": "plain", "check": "no"},
    "control": ["check"],
    "endpoint": {"metric": "eval/accuracy", "goal": "max"},
    "prune": {"rule": "median", "after": 10, "least": 1},
}


def run(arm: str, seed: int, model: str = "small", check: str = "no", **more: Any) -> dict[str, Any]:
    cell = f"{arm}{model}{check}"
    labels = {"model": model, "arm": arm, "check": check}
    return {"run": f"{cell}-s{seed}", "cell": cell, "seed": seed, "labels": labels, **more}


def write(root: Path, runs: list[dict[str, Any]], **changes: Any) -> pruning.Pruning:
    folder = root / "sweeps" / "made"
    folder.mkdir(parents=True, exist_ok=True)
    store.write_atomic(folder / "manifest.json", json.dumps(MANIFEST | {"runs": runs} | changes))
    return pruning.Pruning(root, "made", print)


def trained(root: Path, run: dict[str, Any], state: str, values: dict[int, float]) -> store.Run:
    """A run folder whose claim this process holds, as a worker does while it trains."""
    found = store.Run(root / "runs" / run["run"])
    (found.path / "metrics").mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"step": step, "m": {"eval/accuracy": value}}) + "\n" for step, value in values.items()]
    found.attempt_file("metrics", 0).write_text("".join(lines))
    found.claim()
    found.write_status(state, step=max(values, default=0), steps=40)  # type: ignore[arg-type]
    return found


def asked(root: Path) -> list[str]:
    return sorted(path.parent.name for path in root.glob("runs/*/prune.json"))


def log(root: Path) -> list[dict[str, Any]]:
    return list(store.read_lines(root / "sweeps/made" / pruning.LOG))


def test_runs_of_one_seed_and_stratum_are_compared_and_the_baseline_and_controls_are_kept(tmp_path: Path) -> None:
    runs = [
        run(arm, seed, model) for model in ("small", "large") for seed in (0, 1) for arm in ("plain", "good", "bad")
    ]
    runs.append(run("plain", 0, check="yes"))
    look = write(tmp_path, runs)
    for one in runs:
        low = one["labels"]["arm"] != "good" and (one["seed"], one["labels"]["model"]) == (0, "small")
        state = "done" if one["labels"]["arm"] == "good" and one["seed"] == 0 else "running"
        trained(tmp_path, one, state, {0: 0.9, 10: 0.1 if low else 0.5})
    look.look(lambda: [one["run"] for one in runs])
    assert asked(tmp_path) == ["badsmallno-s0"]  # plain and its control are as low; what is before step 10 is unseen
    (line,) = log(tmp_path)
    told = {"run": "badsmallno-s0", "step": 10, "value": 0.1, "rule": "median"}
    assert line == told | {"reason": "best 0.1 up to step 10, median of 1 finished runs there 0.5"}


def test_only_groups_in_which_the_caller_trains_are_looked_at_and_only_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "EVERY", 0.0)
    runs = [run(arm, seed) for seed in (0, 1) for arm in ("plain", "good", "bad")]
    look = write(tmp_path, runs)
    for one in runs:
        trained(tmp_path, one, "done" if one["labels"]["arm"] == "good" else "running", {10: 0.5})
    questions: list[int] = []
    monkeypatch.setattr(pruning, "decisions", lambda *_: questions.append(1) or iter(()))
    for _ in range(3):
        look.next = 0.0
        look.look(lambda: ["badsmallno-s1"])
    assert len(questions) == 1
    trained(tmp_path, run("bad", 1), "running", {10: 0.5, 20: 0.1})
    look.next = 0.0
    look.look(lambda: ["badsmallno-s1"])
    assert len(questions) == 2


def test_a_run_that_was_taken_back_is_left_alone_and_a_lost_line_is_written(tmp_path: Path) -> None:
    runs = [run("good", 0), run("bad", 0)]
    trained(tmp_path, runs[0], "done", {10: 0.5})
    bad = trained(tmp_path, runs[1], "running", {10: 0.1})
    write(tmp_path, runs).look(lambda: ["badsmallno-s0"])
    assert asked(tmp_path) == ["badsmallno-s0"] and len(log(tmp_path)) == 1
    (tmp_path / "sweeps/made" / pruning.LOG).unlink()  # as a kill between the request and its line leaves it
    write(tmp_path, runs).look(lambda: ["badsmallno-s0"])
    assert [line["value"] for line in log(tmp_path)] == [0.1]
    (bad.path / worker.PRUNE).unlink()  # as `retry` does
    write(tmp_path, runs).look(lambda: ["badsmallno-s0"])
    assert asked(tmp_path) == [] and len(log(tmp_path)) == 1


def test_wilcoxon_stops_all_replicates_of_a_cell_and_leaves_one_that_was_taken_back(tmp_path: Path) -> None:
    runs = [run(arm, seed) for seed in (0, 1, 2) for arm in ("plain", "good", "bad")]
    look = write(tmp_path, runs, prune={"rule": "wilcoxon", "after": 10, "p": 0.05})
    for one in runs[:6]:
        height = {"plain": 0.2, "good": 0.5, "bad": 0.1}[one["labels"]["arm"]]
        trained(
            tmp_path, one, "running", {10 * k: height + 0.01 * k + 0.001 * k * (height > 0.3) for k in (0, 1, 2, 3)}
        )
    for one in runs[6:]:
        (tmp_path / "runs" / one["run"]).mkdir()
    look.look(lambda: [runs[0]["run"]])
    assert asked(tmp_path) == [f"badsmallno-s{seed}" for seed in (0, 1, 2)]  # the third has not begun
    assert log(tmp_path)[2] | {"reason": ""} == {
        "run": "badsmallno-s2", "step": 0, "value": None, "rule": "wilcoxon", "reason": "",
    }  # fmt: skip
    assert "behind model=small arm=good check=no on average over 6 pairs" in log(tmp_path)[0]["reason"]
    for file in tmp_path.glob("runs/*/prune.json"):
        file.unlink()
    trained(tmp_path, run("bad", 0), "running", {10 * k: 0.01 * k for k in range(1, 5)})
    write(tmp_path, runs, prune={"rule": "wilcoxon", "after": 10, "p": 0.05}).look(lambda: [runs[0]["run"]])
    assert asked(tmp_path) == []


def test_trials_of_a_search_are_compared_within_their_own_arm(tmp_path: Path) -> None:
    """The baseline's arm is searched like any other: what is compared with its runs are fresh ones."""
    runs = [
        run(arm, 7, trial=True) | {"run": f"{arm}{i}-s7", "cell": f"{arm}{i}"}
        for arm in ("plain", "bad")
        for i in (0, 1)
    ]
    for number, one in enumerate(runs):
        one["labels"] |= {"lr": str(number)}
    look = write(tmp_path, [*runs, run("plain", 0)])
    for one, value in zip(runs, (0.9, 0.8, 0.2, 0.3), strict=True):
        trained(tmp_path, one, "done" if one["run"] in ("plain0-s7", "bad0-s7") else "running", {10: value})
    look.look(lambda: [one["run"] for one in runs])
    assert asked(tmp_path) == ["plain1-s7"]
    (tmp_path / "runs/plain1-s7/prune.json").unlink()
    for place, one in enumerate(runs[:2]):  # a trial is a cell of its own, though all of an arm stand in one place
        trained(tmp_path, one, "running", {10 * k: 0.9 - 0.1 * place - 0.01 * place * k for k in range(1, 8)})
    (tmp_path / "sweeps/made" / pruning.LOG).unlink()
    rule = {"rule": "wilcoxon", "after": 10, "p": 0.05}
    write(tmp_path, runs, prune=rule).look(lambda: [one["run"] for one in runs])
    assert asked(tmp_path) == ["plain1-s7"]
    assert "behind model=small lr=0 arm=plain check=no on average over 7 pairs" in log(tmp_path)[0]["reason"]


def test_a_look_never_raises_and_says_each_trouble_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    look = write(tmp_path, [run("good", 0)])
    (tmp_path / "sweeps/made/manifest.json").unlink()
    for _ in range(2):
        look.next = 0.0
        look.look(lambda: ["goodsmallno-s0"])
    assert capsys.readouterr().out.count("nothing is pruned for now: FileNotFoundError") == 1
    write(tmp_path, [run("good", 0)], prune=None).look(lambda: pytest.fail("nobody asks what is trained"))


def test_curves_are_of_evaluations_and_whole_lines_and_a_later_attempt_cuts(tmp_path: Path) -> None:
    found = store.Run(tmp_path / "runs" / "r-s0")
    (found.path / "metrics").mkdir(parents=True)
    first = [
        {"step": s, "m": {"policy/entropy": 0.1 * s, **({"eval/accuracy": s} if s % 2 == 0 else {})}} for s in range(7)
    ]
    again = [{"step": 4, "m": {"policy/entropy": 9.0, "eval/accuracy": None}}, {"step": 6, "m": {"eval/accuracy": 60}}]
    found.attempt_file("metrics", 0).write_text("".join(json.dumps(line) + "\n" for line in first))
    assert pruning.read_curve(found, "eval/accuracy", 2) == {2: 2, 4: 4, 6: 6}
    assert pruning.read_curve(found, "policy/entropy", 0) == pytest.approx({0: 0.0, 2: 0.2, 4: 0.4, 6: 0.6})
    torn = json.dumps({"step": 8, "m": {"eval/accuracy": 80}})
    found.attempt_file("metrics", 1).write_text("".join(json.dumps(line) + "\n" for line in again) + torn)
    assert pruning.read_curve(found, "eval/accuracy", 2) == {2: 2, 6: 60}


# -- a sweep -------------------------------------------------------------------------------------------------------


def staged(root: Path, model: Path) -> Path:
    """A spec whose third arm waits, far behind, until it is told to stop."""
    (root / "hold").write_text("3e-4")
    (root / "spec.yaml").write_text(
        f"""question: does the learning rate matter?
base: {{model: hub_folder, model.path: {model}, train.steps: 10, evaluate.every: 2}}
axes: {{train.lr: [1e-4, 2e-4, 3e-4]}}
seeds: 3
prune: {{rule: median, after: 4, least: 2}}
baseline: {{train.lr: 1e-4}}
"""
    )
    return root / "spec.yaml"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, bare_model: Path) -> Iterator[tuple[Path, str]]:
    """That sweep, at its end, and what it printed; reports are made by who asks for them."""
    root = tmp_path_factory.mktemp("pruned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_TRAIN", TRAIN["HARNESS_TRAIN"])
        patch.setattr(pruning, "EVERY", 0.2)
        patch.setattr(commands, "_analyse", lambda root, name: None)
        words = ("sweep", str(staged(root, bare_model)), "--name", "rates", "--no-mirror", "--workers", "2")
        status, said = command(root, *words)
        assert status == 0, said
        yield root, said


def command(root: Path, *words: str) -> tuple[int, str]:
    """(exit status, everything printed) of a command in this process."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = cli.main(["--root", str(root), *words])
    return status, " ".join(printed.getvalue().split())


def trained_in(root: Path) -> list[str]:
    return (root / "started.txt").read_text().split()


def test_the_arm_that_is_behind_stops_early_and_the_report_says_so(finished: tuple[Path, str]) -> None:
    root, said = finished
    runs = json.loads((root / "sweeps/rates/manifest.json").read_text())["runs"]
    states = {(one["labels"]["train.lr"], store.Run(root / "runs" / one["run"]).state()) for one in runs}
    assert states == {("1e-4", "done"), ("2e-4", "done"), ("3e-4", "pruned")}
    assert "prune: median after 4 steps; pruned runs count in no statistic" in said
    status = store.read_json(next(path for path in root.glob("runs/*/prune.json")).with_name("status.json"))
    assert (status["rule"], status["step"], status["steps"]) == ("median", 5, 10)
    assert status["why"] == "best 0.104 up to step 4, median of 2 finished runs there 0.554"
    judged = report.judge(root, "rates")
    text = " ".join(terminal.said(judged).split())
    assert "6 of 9 runs done; 3 pruned at step 5 of 10" in text
    assert "Pruned: 3 of 9 runs were stopped early, by the rule median, after 4 steps" in text
    found = {c.arm: (c.word, c.pruned, c.effect is None) for c in judged.headline()}
    assert found == {"2e-4": ("trick", 0, False), "3e-4": ("pruned", 3, True)}
    assert "9 runs: 6 done, 3 pruned" in command(root, "status", "rates")[1]


def test_retry_trains_a_pruned_run_on_and_nothing_prunes_it_again(finished: tuple[Path, str]) -> None:
    root, _ = finished
    before = len(trained_in(root))
    assert "6 done, 3 pruned, 0 to do" in command(root, "plan", "rates")[1]
    first = next(path.parent for path in sorted(root.glob("runs/*/prune.json")))
    (root / "hold").write_text("")
    status, said = command(root, "retry", "rates", first.name, "--no-mirror")
    assert status == 0, said
    assert "1 runs to train again" in said and trained_in(root)[before:] == [first.name]
    again = store.Run(first)
    assert again.state() == "done" and [record["step"] for record in again.read("metrics")] == list(range(11))
    assert again.read("metrics")[4]["m"] == {"eval/accuracy": pytest.approx(0.104)} and again.next_attempt() == 2
    assert load.load(root, "rates").progress() == "7 of 9 runs done; 2 pruned at step 5 of 10"


def test_a_task_of_a_cluster_looks_as_well(tmp_path: Path, bare_model: Path) -> None:
    made = plans.make(str(staged(tmp_path, bare_model)), ("seeds=1",), tmp_path, "rates")
    plans.commit(made)
    needs = "workers=2, gpus=0, workers_per_gpu=1, threads=1, runs_per_task=9, minutes=60, warning=60, mirror=False"
    group = plans.Needs.of(made.expansion.cells[0].runtime).group
    code = (
        f"from harness.sweep.task import Task; Task(root={str(tmp_path)!r}, name='rates', group={group!r}, {needs})()"
    )
    environment = Harness(tmp_path).environment | TRAIN
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [store.Run(tmp_path / "runs" / run.id).state() for run in made.todo()] == ["done", "done", "pruned"]
    assert "median of 2 finished runs there 0.554" in done.stdout


def test_a_request_outlives_the_worker_that_was_to_hear_it(small_spec: Path, tmp_path: Path) -> None:
    """Whoever takes the run next ends it, without training a step; one that never began has come to step 0."""
    made = plans.make(str(small_spec), ("seeds=1",), tmp_path)
    plans.commit(made)
    begun, new = (store.Run(tmp_path / "runs" / run.id) for run in made.todo()[:2])
    begun.write_status("running", step=3, steps=5, attempt=0)  # by a worker that is gone
    for one in (begun, new):
        store.write_atomic(one.path / worker.PRUNE, store.dump_json({"rule": "median", "reason": "far behind"}))
    worker.work(tmp_path, [begun.id, new.id], lambda: False, train=lambda run, stop: pytest.fail("it trains"))
    told = {"state": "pruned", "rule": "median", "why": "far behind", "steps": 5, "time": 0}
    assert begun.status() | {"time": 0} == told | {"step": 3, "attempt": 0}
    assert new.status() | {"time": 0} == told | {"step": 0}


def test_a_pruned_run_holds_no_round_up_and_its_arm_gets_no_more_seeds(small_spec: Path, tmp_path: Path) -> None:
    words = ("seeds=3", "stop={when: decided, max_seeds: 5, futility: null}", "prune={rule: median, after: 2}")
    made = plans.make(str(small_spec), words, tmp_path, "rates")
    plans.commit(made)
    for one in made.todo():
        noise = (0.08, -0.09, 0.1)[one.seed] if one.labels["train.lr"] == "2e-4" else 0.0
        behind = one.labels["train.lr"] == "3e-4" and one.seed == 1
        store.write_atomic(tmp_path / "runs" / one.id / "provenance.json", "{}")
        trained(tmp_path, {"run": one.id}, "pruned" if behind else "done", {2: 0.5 + noise, 5: 0.5 + noise})
    again = plans.make("rates", (), tmp_path, "rates")
    rounds = again.expansion.rounds
    assert rounds is not None and (rounds.number, rounds.unsettled) == (2, 0)
    wanted = {cell.labels["train.lr"]: rounds.wanted[cell.id] for cell in again.expansion.cells}
    assert wanted == {"1e-4": 4, "2e-4": 4, "3e-4": 3}
    assert {run.labels["train.lr"] for run in again.todo()} == {"1e-4", "2e-4"}
