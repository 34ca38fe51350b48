"""Stopping what runs: a sweep as a whole, so that the same command goes on later, or single runs for good.

Leaves out: what a worker does when it is told to stop (`worker.py`, `task.py`).
"""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from harness import scheduler, store
from harness.sweep import plan as plans
from harness.sweep import slurm_rounds, worker
from harness.sweep.plan import Plan

LAUNCH = "launch"  # a claim on the sweep's folder, held by the process that trains it on this machine


def sweep(root: Path, name: str) -> list[str]:
    """Tells every task in the queue, and the process that trains the sweep here, to stop; what was done, in lines.

    A job that would submit the next round is cancelled before what it waits for.
    """
    folder = root / "sweeps" / name
    done = []
    names = slurm_rounds.first_to_cancel(store.read_json(folder / "slurm" / "jobs.json"))
    if names:
        tasks = scheduler.tasks(names)
        live = [task for task in tasks or [] if task.is_live]
        if tasks is None or (live and not scheduler.cancel(names)):
            raise RuntimeError(f"Slurm does not answer; by hand: scancel --me --name={','.join(names)}")
        if live:
            done.append(f"{len(live)} tasks cancelled in Slurm; those that train save a checkpoint first")
    owner = store.read_json(folder / LAUNCH)
    if store.claims.is_live(folder / LAUNCH):
        if owner["host"] != store.claims.host():
            raise RuntimeError(f"'{name}' is trained by process {owner['pid']} on {owner['host'].split('/')[0]}")
        os.kill(int(owner["pid"]), signal.SIGTERM)
        done.append(f"process {owner['pid']} told to stop; each of its workers saves a checkpoint first")
    return done or [f"nothing of '{name}' is running or queued"]


def runs(root: Path, chosen: Iterable[store.Run]) -> list[str]:
    """Cancels single runs for good: whoever trains one stops at its next step; `retry` takes it back."""
    lines = []
    for run in chosen:
        if run.state() in store.ENDED:
            lines.append(f"{run.id}: {run.state()} already")
            continue
        store.write_atomic(run.path / worker.CANCEL, "")
        with run.owned() as mine:
            if mine:
                worker.cancel(mine)
        lines.append(f"{run.id}: {'cancelled' if mine else 'stops at its next step'}")
    return lines


def forgive(root: Path, ids: Iterable[str]) -> int:
    """Makes failed, cancelled and pruned runs new again; how many."""
    count = 0
    for id in ids:
        run = store.Run(root / "runs" / id)
        for file in (worker.CANCEL, worker.PRUNE):
            (run.path / file).unlink(missing_ok=True)
        run.write_status("new", retried=True)
        count += 1
    return count


def left_the_spec(plan: Plan) -> list[store.Run]:
    """Unfinished runs that the sweep had before and has no more, and that no other sweep wants."""
    before = {run["run"] for run in store.read_json(plan.folder / "manifest.json").get("runs", [])}
    left = before - set(plan.states)
    for name in plans.sweep_names(plan.root) if left else []:
        if name != plan.name:
            manifest = store.read_json(plan.root / "sweeps" / name / "manifest.json")
            left -= {run["run"] for run in manifest["runs"]}
    found = [store.Run(plan.root / "runs" / id) for id in sorted(left)]
    return [run for run in found if run.path.is_dir() and run.state() not in store.ENDED]
