"""A sweep on hundreds of nodes that fail, on a virtual clock; prints as JSON what came of it.

Run as a process of its own, for the type checks of the test suite would triple its time.

    python -m tests.sweep.simulate FOLDER MODEL RATES STEPS NODES RUNS_PER_TASK
"""

import contextlib
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from harness import scheduler, store
from harness.store import claims
from harness.sweep import plan, slurm, spec
from tests.sweep.fake_cluster import FakeCluster

Made = plan.Plan


def planned(folder: Path, model: str, rates: int, steps: int, nodes: int, runs_per_task: int) -> Made:
    path = folder / "big.yaml"
    path.write_text(
        f"question: q?\nbase: {{model: hub_folder, model.path: {model}, launcher: slurm}}\n"
        f"axes:\n  train.lr: [{', '.join(f'{i}e-6' for i in range(1, rates + 1))}]\n"
        f"  train.steps: {list(range(1, steps + 1))}\nseeds: 5\n"
        f"set: {{launcher.max_concurrent: {nodes}, launcher.runs_per_task: {runs_per_task}}}\n"
    )
    return plan.of(spec.read(path), folder / "root")


@contextlib.contextmanager
def in_place_of_this_machine(cluster: FakeCluster) -> Iterator[None]:
    """The cluster's clock, squeue and processes."""
    with contextlib.ExitStack() as stack:
        for target, name, value in (
            (claims, "time", SimpleNamespace(time=lambda: cluster.clock)),
            (claims, "_owner", cluster.owner),
            (scheduler, "incarnation", cluster.incarnation),
            (scheduler, "ask", cluster.answer),
            (scheduler, "KNOWN_FOR", -1.0),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        yield


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Past what is not looked at here."""
    ended: set[Path] = set()
    state = store.Run.state

    def remembered(run: store.Run) -> store.State:  # an end is for good; every worker passes all of them
        if run.path in ended:
            return "done"
        found = state(run)
        if found == "done":
            ended.add(run.path)
        return found

    def bare_folder(root: Path, made: Any) -> None:
        (root / "runs" / made.run_id).mkdir(parents=True, exist_ok=True)

    with contextlib.ExitStack() as stack:
        for target, name, value in (
            (os, "fsync", lambda descriptor: None),
            (store, "create_run", bare_folder),
            (store.Run, "state", remembered),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        yield


class Executor:
    """submitit's, as far as `slurm.submit` uses it."""

    def __init__(self, cluster: FakeCluster, name: str, throttle: int, runs: list[str]) -> None:
        self.cluster, self.name, self.throttle, self.runs = cluster, name, throttle, runs
        self.tasks: list[Any] = []
        self.made: list[SimpleNamespace] = []

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        yield
        array = self.cluster.submit(self.name, self.tasks, self.throttle, self.runs)
        for job in self.made:
            job.job_id = f"{array}_0"

    def submit(self, task: Any) -> SimpleNamespace:
        self.tasks.append(task)
        self.made.append(SimpleNamespace(job_id=""))
        return self.made[-1]


def submit(made: Made, cluster: FakeCluster) -> int:
    """Tasks submitted by what `sweep` does after planning."""
    plan.commit(made)
    before = len(cluster.jobs)
    runs = list(made.states)

    def executor(made: Made, order: slurm.Order, code: Path, throttle: int) -> Executor:
        return Executor(cluster, order.name, throttle, runs)

    with mock.patch.object(slurm, "_executor", executor):
        slurm.submit(made, slurm.orders(made), mirror=False)
    return len(cluster.jobs) - before


def simulate(made: Made, nodes: int) -> dict[str, Any]:
    dice = random.Random(1)
    cluster = FakeCluster(nodes, random.Random(0), seconds=lambda: dice.lognormvariate(4, 0.5))
    lives: dict[str, int] = {"preempted": 0, "nodes lost": 0}
    asked_again: list[int] = []

    def preempt() -> None:
        if job := cluster.on(f"n{dice.randrange(nodes)}"):
            lives["preempted"] += 1
            cluster.interrupt(job, saves=dice.random() < 0.5)
        cluster.at(dice.expovariate(nodes / 2000), preempt)  # a node is wanted for others twice an hour

    def lose_a_node() -> None:
        node = f"n{dice.randrange(nodes)}"
        if job := cluster.on(node):
            lives["nodes lost"] += 1
            cluster.lose(node, 600)
            cluster.interrupt(job, saves=False)
        cluster.at(dice.expovariate(nodes / 20_000), lose_a_node)

    def ask_again() -> None:
        """A user who types the same command now and then."""
        again = plan.Plan(made.name, made.root, made.expansion, plan.scan(made.root, made.states))
        asked_again.append(submit(again, cluster) if again.todo() else 0)
        cluster.at(1500, ask_again)

    with in_place_of_this_machine(cluster), shortcuts():
        first = submit(made, cluster)
        for delay, what in ((30, preempt), (100, lose_a_node), (700, ask_again)):
            cluster.at(delay, what)
        total = made.expansion.num_runs
        cluster.run(until=lambda: len(cluster.finished) >= total or cluster.clock > 1e9 + 1e5)
        done = plan.Plan(made.name, made.root, made.expansion, plan.scan(made.root, made.states))
        return lives | {
            "runs": total,
            "first": first,
            "again": asked_again,
            "finished": len(cluster.finished),
            "distinct": len(set(cluster.finished)),
            "left": len(done.todo()),
            "orders": len(slurm.orders(done)),
            "busiest": cluster.busiest,
            "questions": cluster.questions,
            "seconds": cluster.clock - 1e9,
        }


if __name__ == "__main__":
    rates, steps, nodes, runs_per_task = map(int, sys.argv[3:7])
    made = planned(Path(sys.argv[1]), sys.argv[2], rates, steps, nodes, runs_per_task)
    print(json.dumps(simulate(made, nodes)))
