"""A Slurm that exists only as events on a virtual clock: hundreds of nodes, preemption, dead nodes, time limits.

It answers squeue in squeue's own form and runs tasks whose workers are ours: they claim runs from a real store by
`worker.claimed`, and "train" by letting virtual time pass. State sequences are those measured on Slurm 22.05. Leaves
out: batch scripts, and what a process does (tests/slurm has the real ones).
"""

import heapq
import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import store
from harness.sweep import worker

HOLD = 120.0  # seconds that Slurm keeps a requeued job waiting


@dataclass
class Job:
    """One task of an array; `life` counts its incarnations, so that events of an earlier one find it gone."""

    id: str
    name: str
    root: Path
    runs: list[str]
    limit: int  # runs after which it leaves; 0 = none
    state: str = "PENDING"
    node: str = ""
    life: int = 0
    earliest: float = 0.0
    holding: store.Run | None = None
    source: Iterator[store.Run] | None = None
    after: tuple[str, ...] = ()  # arrays that it waits for
    call: Callable[[], None] | None = None  # what it does, where it is no pool of workers


@dataclass
class FakeCluster:
    nodes: int
    dice: random.Random
    clock: float = 1_000_000_000.0
    events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    order: Iterator[int] = field(default_factory=itertools.count)
    jobs: dict[str, Job] = field(default_factory=dict)
    throttles: dict[str, int] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    acting: Job | None = None  # whose process "this" is
    graves: list[Iterator[store.Run] | None] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    busiest: int = 0
    questions: int = 0
    seconds: Callable[[], float] = lambda: 60.0
    train: Callable[[store.Run], None] = lambda run: run.write_status("done")  # raises ClaimLost if another had it

    def at(self, delay: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.clock + delay, next(self.order), what))

    def run(self, until: Callable[[], bool]) -> None:
        while self.events and not until():
            self.clock, _, what = heapq.heappop(self.events)
            what()

    # -- what our side sees -----------------------------------------------------------------------------------

    def submit(self, name: str, tasks: list[Any], throttle: int, runs: list[str]) -> str:
        array = str(1000 + next(self.order))
        self.throttles[array] = throttle
        for index, task in enumerate(tasks):
            mine = worker.striped(runs, index, len(tasks))
            job = Job(f"{array}_{index}", name, Path(task.root), mine, task.runs_per_task)
            self.jobs[job.id] = job
        self.at(1.0, self.schedule)
        return array

    def submit_after(self, name: str, root: Path, after: tuple[str, ...], call: Callable[[], None]) -> str:
        """One job that waits for all tasks of these arrays, whatever became of them."""
        job = Job(str(1000 + next(self.order)), name, root, [], 0, after=after, call=call)
        self.jobs[job.id], self.throttles[job.id] = job, 1
        self.at(1.0, self.schedule)
        return job.id

    def answer(self, *command: str) -> str | None:
        """squeue's and scontrol's words; None = it does not answer."""
        self.questions += 1
        if command[0] == "squeue":
            live = [job for job in self.jobs.values() if job.state in ("PENDING", "RUNNING")]
            if "--states=RUNNING" in command:
                live = [job for job in live if job.state == "RUNNING"]
            ids = {job.id: [*job.id.split("_"), "N/A"][:2] for job in live}
            return "\n".join("|".join([*ids[job.id], job.name, job.state, "None", job.node]) for job in live)
        return "MaxArraySize = 1001\n" if command[:2] == ("scontrol", "show") else None

    def incarnation(self) -> dict[str, Any]:
        return {"job": self.acting.id, "restart": self.acting.life} if self.acting else {}

    def owner(self) -> dict[str, Any]:
        node = self.acting.node if self.acting else "login"
        return {"host": node, "pid": 1, "started": "0"} | self.incarnation()

    # -- what happens there -------------------------------------------------------------------------------------

    def schedule(self) -> None:
        free = {f"n{i}" for i in range(self.nodes)} - self.dead
        free -= {job.node for job in self.jobs.values() if job.state == "RUNNING"}
        running = dict.fromkeys(self.throttles, 0)
        for job in self.jobs.values():
            running[job.id.split("_")[0]] += job.state == "RUNNING"
        unfinished = {job.id.split("_")[0] for job in self.jobs.values() if job.state in ("PENDING", "RUNNING")}
        for job in self.jobs.values():
            array = job.id.split("_")[0]
            waits = job.state == "PENDING" and job.earliest <= self.clock and unfinished.isdisjoint(job.after)
            if waits and free and running[array] < self.throttles[array]:
                job.state, job.node = "RUNNING", free.pop()
                running[array] += 1
                self.at(self.dice.uniform(3, 10), lambda job=job, life=job.life: self.begin(job, life))
        self.busiest = max(self.busiest, sum(running.values()))

    def begin(self, job: Job, life: int) -> None:
        if job.life != life or job.state != "RUNNING":
            return
        if job.call:
            self.acting = job
            job.call()
            self.acting, job.state, job.node = None, "COMPLETED", ""
            self.at(1.0, self.schedule)
        else:
            job.source = worker.claimed(job.root, job.runs, lambda: False, "", wait=False)
            self.next_run(job, life, 0)

    def next_run(self, job: Job, life: int, trained: int) -> None:
        """The worker's loop body: release the last run (the generator does), take the next, let time pass."""
        self.acting = job
        assert job.source is not None
        run = None if job.limit and trained >= job.limit else next(job.source, None)
        self.acting, job.holding = None, run
        if run is None:
            job.state, job.node = "COMPLETED", ""
            job.source.close()  # type: ignore[attr-defined]
            self.at(1.0, self.schedule)
            return
        duration = self.seconds()
        beat = self.clock + duration  # heartbeats until then
        os.utime(run.path / "claim", (beat, beat))
        self.at(duration, lambda: self.end_run(job, life, run, trained))

    def end_run(self, job: Job, life: int, run: store.Run, trained: int) -> None:
        if job.life != life or job.state != "RUNNING":
            return
        self.acting = job
        self.train(run)
        self.acting = None
        self.finished.append(run.id)
        self.next_run(job, life, trained + 1)

    def interrupt(self, job: Job, saves: bool) -> None:
        """Preempted or out of time (`saves`: it leaves its run in order), or killed with its node; queued again."""
        if job.state != "RUNNING":
            return
        if job.holding is not None:
            if saves:
                job.holding.write_status("stopped", step=1)
                job.holding.release()
            else:
                os.utime(job.holding.path / "claim", (self.clock, self.clock))  # its last heartbeat
        self.graves.append(job.source)  # a killed process runs no `finally`, and a collected generator would
        job.source = job.holding = None
        job.life, job.state, job.node, job.earliest = job.life + 1, "PENDING", "", self.clock + HOLD
        self.at(HOLD + 1, self.schedule)

    def lose(self, node: str, seconds: float) -> None:
        """A node without power for so long."""

        def back() -> None:
            self.dead.discard(node)
            self.schedule()

        self.dead.add(node)
        self.at(seconds, back)

    def on(self, node: str) -> Job | None:
        return next((job for job in self.jobs.values() if job.state == "RUNNING" and job.node == node), None)
