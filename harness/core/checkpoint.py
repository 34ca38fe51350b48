"""Checkpoints: everything a run has learnt and the step it precedes; atomic, the last few kept.

A checkpoint is a folder `checkpoint/step_000020` that appears by rename when complete. Nothing in it is pickled.
Randomness and data position follow from (seed, step), so none is stored. Leaves out: what is in it (`learner.py`).
"""

import os
import shutil
import sys
import uuid
from pathlib import Path

from safetensors.torch import load_file, save_file

from harness.core.learner import Learner
from harness.store import Run, dump_json, read_json, write_atomic


def save(run: Run, learner: Learner, step: int, keep: int) -> None:
    """Writes the state before `step` and drops all but the newest `keep` checkpoints.

    Raises ClaimLost where the run is another's by now, and what a full disk raises.
    """
    run.guard()
    folder = run.path / "checkpoint"
    folder.mkdir(exist_ok=True)
    final, temporary = folder / f"step_{step:06d}", folder / f".{uuid.uuid4().hex[:8]}"
    if final.exists():
        return
    temporary.mkdir()
    tensors = {key: value.contiguous() for key, value in learner.tensors().items()}
    save_file(tensors, temporary / "state.safetensors")
    _sync(temporary / "state.safetensors")
    write_atomic(temporary / "meta.json", dump_json({"step": step}))
    os.replace(temporary, final)
    _sync(folder)
    for old in _newest_first(folder)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    for torn in folder.glob(".*"):
        shutil.rmtree(torn, ignore_errors=True)


def restore(run: Run, learner: Learner) -> int:
    """Loads the newest readable checkpoint in place and returns its step; 0 where there is none.

    A damaged one is passed over with a warning on stderr.
    """
    for path in _newest_first(run.path / "checkpoint"):
        try:
            step, tensors = int(read_json(path / "meta.json")["step"]), load_file(path / "state.safetensors")
            learner.load(tensors)
        except Exception as error:  # any damage: the one before it is as good
            print(f"warning: {path} cannot be read ({error}); trying the one before", file=sys.stderr)
            continue
        return step
    return 0


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("step_*"), reverse=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
