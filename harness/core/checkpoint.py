"""Checkpoints: everything a run has learnt and the step it precedes; atomic, the last few kept.

A checkpoint is a folder `checkpoint/step_000020` that appears by rename when complete, each rank's rows in a file of
its own (`pieces.py`); it is read by any number of ranks. Randomness and data position follow from (seed, step), so none
is stored. Leaves out: what is in it (`learner.py`).
"""

import os
import shutil
import sys
import uuid
from pathlib import Path

from harness.core import parallel, pieces
from harness.core.history import History
from harness.core.learner import Learner
from harness.store import Run, dump_json, read_json, write_atomic


def save(run: Run, learner: Learner, step: int, keep: int) -> None:
    """Writes the state before `step` and drops all but the newest `keep` checkpoints. All ranks call it.

    Raises ClaimLost where the run is another's by now, and what a full disk raises.
    """
    run.guard()
    folder, chief = run.path / "checkpoint", parallel.is_chief()
    final, temporary = folder / f"step_{step:06d}", folder / f".{uuid.uuid4().hex[:8]}"
    if chief and not final.exists():
        temporary.mkdir(parents=True)
    temporary = parallel.from_chief(temporary)
    if not temporary.exists():
        return
    file = temporary / f"rank-{parallel.rank():05d}.safetensors"
    index = pieces.write(file, learner.pieces(), chief)
    _sync(file)
    index = pieces.merge(parallel.gathered(index))  # every rank's file is on the disk
    if chief:
        write_atomic(temporary / "index.json", dump_json({"step": step, "tensors": index}))
        os.replace(temporary, final)
        _sync(folder)
        for old in _newest_first(folder)[keep:]:
            shutil.rmtree(old, ignore_errors=True)
        for torn in folder.glob(".*"):
            shutil.rmtree(torn, ignore_errors=True)


def restore(run: Run, learner: Learner) -> int:
    """Loads the newest readable checkpoint in place and returns its step; 0 where there is none. All ranks call it.

    A damaged one, or one that a single rank cannot read, is passed over by all with a warning on stderr.
    """
    for path in parallel.from_chief(_newest_first(run.path / "checkpoint")):
        fault = ""
        try:
            index = read_json(path / "index.json")
            step, reader = int(index["step"]), pieces.Reader(path, index["tensors"])
            history = History.load({name: reader.all(f"history/{name}") for name in History().tensors()})
            values = {name: reader.like(name, piece) for name, piece in learner.trained().items()}
        except Exception as error:  # any damage: the one before it is as good
            fault = f"{type(error).__name__}: {error}"
        faults = [found for found in parallel.gathered(fault) if found]
        if not faults:
            learner.load(values, history)
            return step
        if parallel.is_chief():
            print(f"warning: {path} cannot be read ({faults[0]}); trying the one before", file=sys.stderr)
    return 0


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("step_*"), reverse=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
