"""The table and the event lines say what the statuses say; the plan's estimate follows finished runs."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness import store
from harness.sweep import columns, estimate, hours, plan, present, spec, status

MANIFEST: dict[str, Any] = {
    "name": "clip",
    "question": "does it?",
    "axes": {"model": ["a", "b"], "eps": ["0.20"]},
    "baseline": {"eps": "0.20"},
    "runs": [
        {"run": f"{cell}-s{seed}", "cell": cell, "seed": seed, "labels": {"model": model, "eps": "0.20"}}
        for cell, model in (("c0", "a"), ("c1", "b"))
        for seed in (0, 1)
    ],
}
STATUSES: status.Statuses = {
    "c0-s0": {"state": "done", "accuracy": 0.5, "step": 4, "steps": 4},
    "c0-s1": {"state": "running", "accuracy": 0.25, "step": 2, "steps": 4},
    "c1-s0": {"state": "failed", "error": "ValueError: no"},
    "c1-s1": {"state": "stopped", "step": 1, "steps": 4},
}


def printed(thing: Any, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(thing)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_table_has_a_row_per_cell() -> None:
    lines = [line.split() for line in printed(status.table(MANIFEST, STATUSES)).splitlines()]
    assert lines[0] == ["model", "eps", "done", "seeds", "accuracy", "now"]
    assert lines[1] == ["a", "0.20", "1/2", "●◐", "0.500", "s1", "2/4", "acc", "0.250"]
    assert lines[2] == ["b", "0.20", "0/2", "✗◌"]
    assert lines[3] == ["✗", "c1-s0", "model=b", "eps=0.20", "s0:", "ValueError:", "no"]
    assert " ".join(lines[4]) == "4 runs: 1 done, 1 running, 1 interrupted, 1 failed"


def test_large_grids_show_what_is_at_work_first() -> None:
    runs = [{"run": f"{i}", "cell": f"c{i}", "seed": 0, "labels": {"eps": str(i)}} for i in range(100)]
    statuses: status.Statuses = {"99": {"state": "failed", "error": "x"}, "98": {"state": "running"}}
    lines = printed(status.table(MANIFEST | {"axes": {"eps": []}, "runs": runs}, statuses)).splitlines()
    assert lines[1].split()[0] == "99"
    assert lines[2].split()[0] == "98"
    assert "… and 60 more cells" in "\n".join(lines)


def test_the_time_left_follows_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 100.0, 110.0])
    monkeypatch.setattr(status.time, "monotonic", lambda: next(clock))
    progress = status.Progress()
    new: status.Statuses = {"a": {"state": "new"}, "b": {"state": "new"}}
    assert progress.left(new) is None
    # 1.5 of 2 runs in ten seconds: the other half run takes a third of that
    half = {"a": {"state": "done"}, "b": {"state": "running", "step": 2, "steps": 4}}
    assert progress.left(half) == pytest.approx(10 / 3)


def test_event_lines_say_each_thing_once() -> None:
    console = Console(file=io.StringIO(), width=200)
    with status.display(MANIFEST, console, True) as display:
        display.update({id: {"state": "new"} for id in STATUSES})
        display.update(STATUSES)
        display.update(STATUSES)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split()[1:4] for line in lines] == [
        ["[1/4]", "done", "c0-s0"],
        ["[1/4]", "running", "c0-s1"],
        ["[2/4]", "failed", "c1-s0"],
        ["[2/4]", "stopped", "c1-s1"],
    ]
    assert "accuracy 0.500" in lines[0]
    assert "ValueError: no" in lines[2]


def test_the_live_table_is_for_terminals() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with status.display(MANIFEST, terminal, True) as display:
        assert isinstance(display, status.LiveTable)
        display.update(STATUSES)
        display.say("worker 0 died")
    text = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "worker 0 died" in text
    assert "2/4 acc 0.250" in text


@pytest.fixture
def made(small_spec: Path, tmp_path: Path) -> plan.Plan:
    return plan.of(spec.read(small_spec), tmp_path)


def test_the_estimate_is_measured_where_it_can_be(made: plan.Plan, tmp_path: Path) -> None:
    guess = estimate.of(made, 2)
    assert guess.cpu_hours == pytest.approx(6 * 0.5 / 60)  # minutes_per_run of experiments/scale/mini.yaml
    assert guess.wall_hours == pytest.approx(guess.cpu_hours / 2)
    assert guess.measured == 0
    run = store.create_run(tmp_path, next(iter(made.expansion.runs())).config)
    (run.path / "timing").mkdir()
    lines = [{"step": s, "time": 0.0, "seconds": {"update": 20.0, "evaluate": 10.0}} for s in range(6)]
    run.attempt_file("timing", 0).write_text("".join(json.dumps(line) + "\n" for line in lines))
    run.write_status("done")
    made = plan.of(made.expansion.spec, tmp_path)
    guess = estimate.of(made, 2)
    assert guess.cpu_hours == pytest.approx(5 * 180 / 3600)  # five runs of the same kind are left
    assert guess.measured == 1


def test_gpu_hours_count_every_gpu_of_a_run(write: Callable[..., Path], no_weights: None, tmp_path: Path) -> None:
    text = "question: q?\naxes: {train.lr: [1e-4, 2e-4]}\nseeds: 3\nresources: {minutes: 45, gpus: 8}\n"
    guess = estimate.of(plan.of(spec.read(write(text, "gpus.yaml")), tmp_path), 2)
    assert guess.gpu_hours == pytest.approx(6 * 8 * 0.75)  # six runs of 45 minutes on eight GPUs
    assert guess.wall_hours == pytest.approx(6 * 0.75 / 2)


def test_many_arms_share_a_column_that_says_what_differs() -> None:
    baseline = {"recipe": "vanilla", "clip": "0.20", "keep": "all", "weight": "token"}
    axes = ["model", *baseline]
    assert columns.names(axes, baseline) == ["model", "differs"]
    assert columns.cells({"model": "small", **baseline}, axes, baseline) == ["small", "baseline"]
    other = {"model": "small", "recipe": "vanilla", "clip": "0.28", "keep": "some", "weight": "token"}
    assert columns.cells(other, axes, baseline) == ["small", "clip 0.28, keep some"]
    alone = {"model": "small", "recipe": "dapo"}  # the other axes do not reach it
    assert columns.cells(alone, axes, baseline) == ["small", "recipe dapo"]
    assert columns.line(alone, axes, baseline) == "model=small recipe dapo"
    few = {"clip": "0.20"}
    assert columns.names(["clip", "model"], few) == ["model", "clip"]
    assert columns.line({"model": "small", "clip": "0.28"}, ["clip", "model"], few) == "model=small clip=0.28"


def test_the_plan_is_printed_with_arms_last(made: plan.Plan) -> None:
    console = Console(file=io.StringIO(), width=100)
    present.show(made, console, 2)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "3 cells x 2 seeds = 6 runs" in text
    assert "2 workers (from runtime.minutes_per_run)" in text
    assert made.expansion.cells[0].id in text


def test_a_large_plan_is_abbreviated(write: Callable[..., Path], no_weights: None, tmp_path: Path) -> None:
    rates = ", ".join(f"{i}e-6" for i in range(1, 51))
    path = write(f"question: q?\naxes: {{train.lr: [{rates}], train.steps: [1, 2]}}\n", "large.yaml")
    console = Console(file=io.StringIO(), width=100)
    present.show(plan.of(spec.read(path), tmp_path), console, 2)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "… and 70 more cells" in text
    assert "train.lr: 1e-6, 2e-6, 3e-6, 4e-6, … 50e-6 (50)" in text


def test_arms_are_compared_at_the_step_that_all_have_reached() -> None:
    statuses: status.Statuses = {
        "c0-s0": {"state": "done", "accuracy": 0.9, "evals": [[0, 0.1], [10, 0.3], [20, 0.9]]},
        "c0-s1": {"state": "running", "evals": [[0, 0.2], [10, 0.5]]},
        "c1-s0": {"state": "running", "evals": [[0, 0.1], [10, 0.6], [20, 0.7]]},
        "c1-s1": {"state": "new"},
    }
    assert status.common_step(statuses) == 10
    lines = [line.split() for line in printed(status.table(MANIFEST, statuses)).splitlines()]
    assert lines[0] == ["model", "eps", "done", "seeds", "accuracy", "at", "step", "10", "now"]
    assert lines[1][:6] == ["a", "0.20", "1/2", "●◐", "0.900", "0.400"]  # (.3 + .5) / 2
    assert lines[2][:5] == ["b", "0.20", "0/2", "◐·", "0.600"]
    everything_done = {id: {"state": "done", "evals": [[0, 0.1]]} for id in statuses}
    assert status.common_step(everything_done) is None  # `accuracy` says it


def test_hours_spent_and_left() -> None:
    """Two GPUs a run, and an hour for a whole one."""
    manifest = MANIFEST | {
        "groups": {"g": {"gpus": 2, "cpus": 0, "mem_gb": None, "threads": 1}},
        "runs": [run | {"group": "g"} for run in MANIFEST["runs"]],
    }
    statuses: status.Statuses = {
        "c0-s0": {"state": "done", "seconds": 3600.0, "step": 10, "steps": 10},
        "c0-s1": {"state": "running", "seconds": 900.0, "step": 5, "steps": 10},
        "c1-s0": {"state": "failed", "seconds": 720.0},
        "c1-s1": {"state": "new"},
    }
    found = hours.of(manifest, statuses)
    assert found.unit == "GPU"
    assert found.spent == pytest.approx(2 * (3600 + 900 + 720) / 3600)  # 2.9
    assert found.left == pytest.approx(2 * (1800 + 3600) / 3600)  # half of c0-s1, all of c1-s1 as any done run
    assert found.wall == pytest.approx(1800 + 3600)  # one run at a time
    assert found.text() == "2.9 GPU-hours spent, about 3.0 left, 1.5 h to go"
    assert hours.of(MANIFEST, {}).text() == ""
    only_one = {"c0-s0": {"state": "running", "seconds": 100.0, "step": 2, "steps": 10}}
    assert hours.of(MANIFEST, only_one).left == pytest.approx((400 + 3 * 500) / 3600)  # 50 s a step


def test_the_last_run_is_waited_for_whoever_else_is_free() -> None:
    statuses: status.Statuses = {
        "c0-s0": {"state": "done", "seconds": 100.0, "step": 10, "steps": 10},
        "c0-s1": {"state": "running", "seconds": 10.0, "step": 1, "steps": 10},
        "c1-s0": {"state": "running", "seconds": 90.0, "step": 9, "steps": 10},
        "c1-s1": {"state": "done", "seconds": 100.0, "step": 10, "steps": 10},
    }
    assert hours.of(MANIFEST, statuses).wall == pytest.approx(90)  # not (90 + 10) / 2
    statuses["c0-s0"] = {"state": "new"}
    assert hours.of(MANIFEST, statuses).wall == pytest.approx(110)  # it follows the one that has 10 s left


def test_a_pruned_run_is_told_with_its_reason_and_no_mean_is_of_those_that_are_left() -> None:
    statuses: status.Statuses = STATUSES | {
        "c0-s0": {"state": "done", "accuracy": 0.5, "step": 4, "steps": 4, "evals": [[0, 0.2], [4, 0.5]]},
        "c0-s1": {"state": "pruned", "step": 2, "steps": 4, "why": "best 0.1, median 0.5", "evals": [[0, 0.1]]},
        "c1-s1": {"state": "running", "step": 4, "steps": 4, "evals": [[0, 0.2], [4, 0.3]]},
    }
    assert status.common_step(statuses) == 4  # the pruned run holds nobody back
    lines = [line.split() for line in printed(status.table(MANIFEST, statuses)).splitlines()]
    assert lines[1] == ["a", "0.20", "1/2", "●✂"]
    assert " ".join(lines[4]) == "✂ c0-s1 model=a eps=0.20 s1: at step 2 of 4: best 0.1, median 0.5"
    assert " ".join(lines[5]) == "4 runs: 1 done, 1 running, 1 failed, 1 pruned"
    console = Console(file=io.StringIO(), width=200)
    with status.display(MANIFEST, console, True) as display:
        display.update({id: {"state": "running"} for id in statuses})
        display.update(statuses)
    (said,) = [line for line in console.file.getvalue().splitlines() if "c0-s1" in line][1:]  # type: ignore[attr-defined]
    assert said.split(maxsplit=1)[1].startswith("[2/4] pruned    c0-s1  model=a eps=0.20 s1  at step 2 of 4: best 0.1")
