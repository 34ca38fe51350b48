"""Sweeps that stop when decided: the spec's words, the rounds, and that they follow from the run folders alone."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from analysis import undecided
from harness import store
from harness.sweep import commands, rounds, slurm
from harness.sweep import plan as plans
from harness.sweep.spec import read
from harness.sweep.stop import Rounds, Stop
from tests.sweep.conftest import Harness

TRAIN = {"HARNESS_TRAIN": "tests.sweep.staged_train:train"}
PLAIN = "question: q?\naxes: {train.lr: [1e-4, 2e-4]}\nbaseline: {train.lr: 1e-4}\n"


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory, bare_model: Path) -> Path:
    """Two arms against a baseline: one much better, one alike with noise; margin 1 point."""
    path = tmp_path_factory.mktemp("spec") / "staged.yaml"
    path.write_text(
        f"""question: does the learning rate matter?
base: {{model: hub_folder, model.path: {bare_model}, train.steps: 2, evaluate.every: 2}}
axes:
  train.lr: [1e-4, 2e-4, 3e-4]
seeds: 3
stop: {{when: decided, max_seeds: 6, step: 2, futility: null}}
baseline: {{train.lr: 1e-4}}
"""
    )
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, staged: Path) -> tuple[Harness, str]:
    """That sweep, and what it printed."""
    harness = Harness(tmp_path_factory.mktemp("finished"))
    status, said = harness("sweep", str(staged), "--no-mirror", **TRAIN)
    assert status == 0, said
    return harness, said


def by_rate(harness: Harness, sweep: str = "staged") -> dict[str, int]:
    """lr -> seeds that the manifest has."""
    manifest = json.loads((harness.root / f"sweeps/{sweep}/manifest.json").read_text())
    return dict(Counter(run["labels"]["train.lr"] for run in manifest["runs"]))


def test_the_spec_takes_it_and_says_what_does_not_fit(problems: Callable[..., str]) -> None:
    said = problems(f"{PLAIN}seeds: 3\nstop: {{when: decided, max_seed: 10}}")
    assert "stop: unknown key 'max_seed'; did you mean 'max_seeds'?" in said
    assert "stop takes {when: decided, max_seeds: 10, step: 1, futility: 0.05}, not 'decided'" in problems(
        f"{PLAIN}stop: decided"
    )
    assert "stop.when takes decided, not 'soon'" in problems(f"{PLAIN}stop: {{when: soon, max_seeds: 10}}")
    assert "stop.max_seeds takes a whole number of seeds" in problems(f"{PLAIN}seeds: 3\nstop: {{when: decided}}")
    for chance in ("0", "1", "1.5", "10 %"):
        text = f"{PLAIN}seeds: 3\nstop: {{when: decided, max_seeds: 10, futility: {chance}}}"
        assert "stop.futility takes a chance between 0 and 1, such as 0.05, or null to give nothing" in problems(text)
    wanted = "stop: {when: decided, max_seeds: 10}"
    sample = f"{PLAIN}seeds: 3\ndesign: {{kind: sample, size: 2}}\n{wanted}"
    assert "an effect of kind sample takes all cells" in problems(sample)
    assert "seeds is 1, the first round of `stop`" in problems(f"{PLAIN}seeds: 1\n{wanted}")
    assert "stop.max_seeds is 10, and the first round has 10" in problems(f"{PLAIN}seeds: 10\n{wanted}")
    assert "stop has nothing to decide" in problems(
        f"question: q?\naxes: {{train.lr: [1e-4, 2e-4]}}\nseeds: 3\n{wanted}"
    )
    assert "stop has nothing to decide" in problems(f"{PLAIN}seeds: 3\ncontrol: true\n{wanted}")


def test_the_command_line_sets_it_and_takes_it_off(write: Callable[..., Path], no_weights: None) -> None:
    path = write(f"{PLAIN}seeds: 3\n")
    assert read(path).stop is None
    assert read(path, ("stop={when: decided, max_seeds: 8}",)).stop == Stop(8, 1, 0.05)
    assert read(path, ("stop={when: decided, max_seeds: 8, futility: null}",)).stop == Stop(8, 1, None)
    path.write_text(f"{path.read_text()}stop: {{when: decided, max_seeds: 9, step: 2}}\n")
    assert read(path).stop == Stop(9, 2)
    assert read(path, ("stop=null", "seeds=9")).stop is None


def test_what_the_plan_says_of_each_stage() -> None:
    stop = Stop(10)
    assert (
        Rounds({"a": 3}, 1).said(stop)
        == "round 1, 3 seeds (at most 10): the first; 10 runs in all if nothing were ever decided"
    )
    two = Rounds({"a": 4, "b": 3}, 2, contrasts=5, undecided=2)
    assert two.said(stop) == "round 2, 4 seeds (at most 10): 2 of 5 contrasts undecided"
    given_up = Rounds({"a": 4}, 2, contrasts=5, undecided=3, given_up=1, claims=4, open_claims=2)
    assert given_up.said(stop).endswith("3 of 5 contrasts undecided, 1 of them given up; 2 of 4 claims undecided")
    done = Rounds({"a": 4}, 2, contrasts=5, claims=4, over=True)
    assert done.said(stop).endswith("the last; all is decided")
    over = Rounds({"a": 10}, 8, contrasts=5, undecided=1, over=True)
    assert over.said(stop).endswith("the last; 1 of 5 contrasts stay undecided")
    assert "3 runs failed" in Rounds({"a": 4}, 2, 5, 2, unsettled=3).said(stop)


def test_a_decided_arm_stops_and_an_undecided_one_goes_on_with_its_baseline(finished: tuple[Harness, str]) -> None:
    harness, said = finished
    assert by_rate(harness) == {"1e-4": 6, "2e-4": 3, "3e-4": 6}
    assert len(harness.trained()) == len(set(harness.trained())) == 15
    lines = [line.strip() for line in said.splitlines() if line.startswith("round ")]
    assert lines == [
        "round 1, 3 seeds (at most 6): the first; 18 runs in all if nothing were ever decided",
        "round 2, 5 seeds (at most 6): 1 of 2 contrasts undecided; 4 runs to do",
        "round 3, 6 seeds (at most 6): 1 of 2 contrasts undecided; 2 runs to do",
    ]
    assert " ".join(said.split()).count("Sequential design (3 rounds so far, 3 … 6 seeds of at most 6)") == 1
    verdict = json.loads((harness.root / "sweeps/staged/verdict.json").read_text())
    found = {c["arm"]: c for c in verdict["contrasts"] if c["read"] == "last"}
    assert {arm: (c["word"], c["effect"]["n"]) for arm, c in found.items()} == {
        "2e-4": ("trick", 3),
        "3e-4": ("inconclusive", 6),
    }
    assert verdict["stop"] | {"wanted": 0} == {
        "when": "decided", "max_seeds": 6, "step": 2, "futility": None, "first": 3, "round": 3, "wanted": 0,
    }  # fmt: skip


def test_the_rounds_are_replayed_from_the_run_folders_alone(
    finished: tuple[Harness, str], staged: Path, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(finished[0].root, tmp_path / "copy"))
    whole = plans.make(str(staged), (), root)
    assert whole.expansion.rounds is not None and whole.todo() == [] and rounds.following(whole) is None
    assert whole.expansion.rounds.said(Stop(6)).endswith("the last; 1 of 2 contrasts stay undecided")
    # as a killed sweep leaves it: the third round has one of its two runs, whatever the manifest says
    lost = next(run for run in whole.expansion.runs() if run.seed == 5 and run.labels["train.lr"] == "3e-4")
    store.Run(root / "runs" / lost.id).write_status("running", step=1, steps=2, attempt=0)
    again = plans.make(str(staged), (), root)
    assert again.expansion.rounds is not None
    assert (again.expansion.rounds.number, again.expansion.rounds.wanted) == (3, whole.expansion.rounds.wanted)
    assert [run.id for run in again.todo()] == [lost.id]
    # and with a run of the first round lost, nobody knows yet what the second will be
    first = next(iter(whole.expansion.runs()))
    store.Run(root / "runs" / first.id).write_status("running", step=1, steps=2, attempt=0)
    early = plans.make(str(staged), (), root)
    assert early.expansion.rounds is not None
    assert early.expansion.rounds.number == 1 and set(early.expansion.rounds.wanted.values()) == {3}
    assert rounds.following(early) is not None and [run.id for run in early.todo()] == [first.id]


def test_rounds_that_another_sweep_has_trained_follow_each_other_by_themselves(
    finished: tuple[Harness, str], staged: Path, tmp_path: Path
) -> None:
    again = Harness(Path(shutil.copytree(finished[0].root, tmp_path / "copy")))
    status, said = again("sweep", str(staged), "--no-mirror", "--name", "other", **TRAIN)
    assert status == 0, said
    assert by_rate(again, "other") == by_rate(finished[0])
    assert len(again.trained()) == len(finished[0].trained())
    assert "round 3, 6 seeds (at most 6): the last; 1 of 2 contrasts stay undecided; 0 runs to do" in said
    assert " ".join(said.split()).count("Sequential design (3 rounds so far") == 1


def test_a_failed_run_holds_the_rounds_up_until_it_is_tried_again(harness: Harness, staged: Path) -> None:
    (harness.root / "fail").write_text("3e-4")
    status, said = harness("sweep", str(staged), "--no-mirror", **TRAIN)
    assert status == 1 and "3 runs failed" in said
    assert set(by_rate(harness).values()) == {3}
    _, said = harness("plan", str(staged), **TRAIN)
    assert "round 1, 3 seeds (at most 6): 3 runs failed or were cancelled; seeds are added after `retry`" in said
    (harness.root / "fail").unlink()
    status, said = harness("retry", "staged", "--failed", "--no-mirror", **TRAIN)
    assert status == 0, said
    assert by_rate(harness) == {"1e-4": 6, "2e-4": 3, "3e-4": 6}


def test_an_arm_without_a_chance_is_given_up_at_the_first_look(
    finished: tuple[Harness, str], staged: Path, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(finished[0].root, tmp_path / "copy"))
    spec = tmp_path / "staged.yaml"  # 3e-4 is 0.3 ± 2.3 points off, and the margin is one
    spec.write_text(staged.read_text().replace("futility: null", "futility: 0.1"))
    made = plans.make(str(spec), (), root)
    assert made.expansion.rounds is not None and made.todo() == []
    assert set(made.expansion.rounds.wanted.values()) == {3} and rounds.following(made) is None
    said = made.expansion.rounds.said(Stop(6))
    assert said == ("round 1, 3 seeds (at most 6): the last; 1 of 2 contrasts stay undecided, 1 of them given up")


def test_a_cell_that_is_ahead_of_those_it_is_compared_with_waits_for_them() -> None:
    def found(cells: dict[str, int]) -> undecided.Undecided:
        return undecided.Undecided(contrasts=2, undecided=2, given_up=1, claims=0, open_claims=0, cells=cells)

    first, stop = Rounds({"plain": 3, "good": 3, "odd": 3}, 1), Stop(6, 2)
    second = rounds._after(first, stop, found({"plain": 3, "good": 3}))
    assert second.wanted == {"plain": 5, "good": 5, "odd": 3}
    alone = rounds._after(second, stop, found({"plain": 3, "odd": 3}))  # what was given up asks again
    assert alone.wanted == {"plain": 5, "good": 5, "odd": 5} and not alone.over
    both = rounds._after(second, stop, found({"plain": 5, "good": 5, "odd": 3}))
    assert both.wanted == {"plain": 6, "good": 6, "odd": 5}
    last = rounds._after(both, stop, found({"plain": 5, "odd": 5}))
    assert last.wanted == {"plain": 6, "good": 6, "odd": 6}
    assert rounds._after(last, stop, found({"plain": 6, "odd": 6})).over
    assert rounds._after(second, stop, found({})).over


def test_on_slurm_nobody_waits_and_the_next_sweep_goes_on(
    finished: tuple[Harness, str], staged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(finished[0].root, tmp_path / "copy"))
    for run in (root / "runs").glob("*-s[345]"):
        shutil.rmtree(run)  # the first round is all there is
    made = plans.make("staged", ("launcher=slurm",), root, "staged")
    assert Counter(run.labels["train.lr"] for run in made.todo()) == {"1e-4": 2, "3e-4": 2}
    monkeypatch.setattr(slurm, "show", lambda plan, console: [])
    monkeypatch.setattr(slurm, "submit", lambda plan, wanted, mirror: ["71"])
    console = Console(record=True, width=200)
    assert commands._submit(made, console, False) == 0
    said = console.export_text()
    assert "submitted 71" in said
    assert "when these runs have ended, the same command adds seeds where nothing is decided yet" in said


def test_a_sweep_without_it_has_no_rounds(write: Callable[..., Path], tmp_path: Path, no_weights: None) -> None:
    made = plans.of(read(write(f"{PLAIN}seeds: 3\n")), tmp_path)
    assert made.expansion.rounds is None and rounds.following(made) is None
    assert "stop" not in plans.manifest(made)
    assert made.expansion.num_runs == 6
