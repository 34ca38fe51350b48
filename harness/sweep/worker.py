"""A worker: claims runs of a sweep from the store and trains them one after another in one process.

torch is imported once, before the first run is claimed. A run that raises is marked failed, with its traceback
in runs/<id>/error.txt, and the worker goes on. On SIGINT, SIGTERM or SIGUSR2, or when the process that started it is
gone, the run stops at a step boundary with a checkpoint; when its claim was taken over, at once and without a word;
when its disk is full, the worker ends. Leaves out: who starts workers (`pool.py`).
"""

import contextlib
import functools
import importlib
import itertools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from harness import scheduler, store

TRAIN = "harness.core.ranks:train"
DEATHS_ALLOWED, KILLS_ALLOWED = 2, 50  # of workers of one pool, on one run that gets no farther; then it is failed
OWN_DEATH = "own death"  # a note of the pool: the worker crashed, nobody killed it
SESSION = "HARNESS_SESSION"  # names the pool in claims
CURRENT = "HARNESS_CURRENT"  # a file in which a worker says what it trains, for whoever finds it dead
CANCEL = "cancel"  # a file in a run's folder that asks whoever trains it to stop for good
PRUNE = "prune.json"  # the same, written by the rule of a sweep's `prune`: {step, value, rule, reason}
WAIT = 0.5  # seconds between looks at runs that another process holds
DISK_FULL = 74  # exit status: nothing more can be written

Train = Callable[..., Any]  # train(run, stop=flag): returns at a step boundary once flag() is true


class DiskFull(OSError):
    """The storage of a run takes nothing more; what it holds is whole."""


@functools.cache
def load_train() -> Train:
    """The core's `train`; HARNESS_TRAIN=module:function takes another (tests and measurements do)."""
    module, _, name = os.environ.get("HARNESS_TRAIN", TRAIN).partition(":")
    return getattr(importlib.import_module(module), name)


class Stop:
    """True after a signal, or once the process that started this one is gone."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)

    def __init__(self, parent: int | None = None) -> None:
        self.event = threading.Event()
        self.parent = parent

    def __call__(self) -> bool:
        if self.parent is not None and os.getppid() != self.parent:
            self.event.set()
        return self.event.is_set()

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.event.is_set():
            signal.signal(number, signal.SIG_DFL)  # a second Ctrl-C ends the process at once
            os.kill(os.getpid(), number)
        self.event.set()


@contextlib.contextmanager
def signals(stop: Stop) -> Iterator[Stop]:
    before = {number: signal.signal(number, stop.on_signal) for number in Stop.SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Heartbeat:
    """Keeps the claim of the current run fresh, in a thread."""

    def __init__(self) -> None:
        self.held: store.Run | None = None
        self.lock = threading.Lock()
        threading.Thread(target=self._beat, daemon=True).start()

    def hold(self, run: store.Run | None) -> None:
        with self.lock:
            self.held = run

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(store.HEARTBEAT_EVERY):
            with self.lock, contextlib.suppress(OSError, store.ClaimLost):  # the next beat may find the disk again
                if self.held:
                    self.held.guard()
                    self.held.heartbeat()


def work(
    root: Path,
    ids: list[str],
    stop: Callable[[], bool],
    train: Train | None = None,
    limit: int = 0,
    wait: bool = True,
) -> None:
    """Trains what `claimed` yields, `limit` runs at most (0 = all). Raises DiskFull, and what the import raises."""
    beat, session = Heartbeat(), os.environ.get(SESSION, "")
    prepare = (lambda: train) if train else load_train
    with contextlib.closing(claimed(root, ids, stop, session, wait, prepare)) as found:
        for run in itertools.islice(found, limit or None):
            attend(run, prepare(), stop, beat)


def claimed(
    root: Path,
    ids: list[str],
    stop: Callable[[], bool],
    session: str,
    wait: bool = True,
    prepare: Callable[[], Any] = lambda: None,
) -> Generator[store.Run, None, None]:
    """Every run of `ids` that is not final and that no other live process holds, owned while it is out.

    Goes on until none is left; without `wait`, until others hold all that is left. `prepare` (seconds of imports) is
    called before a claim is tried on a run that looks free, so that nobody waits for a run that is only held.
    """
    pending = ids
    while pending and not stop():
        held = []
        for id in pending:
            if stop():
                return
            run = store.Run(root / "runs" / id)
            if run.state() in store.ENDED:
                continue
            if run.is_held():
                held.append(id)
                continue
            prepare()
            with run.owned(session) as mine:
                if mine is None:
                    held.append(id)
                elif not (mine.state() in store.ENDED or end_as_asked(mine) or give_up(mine, session)):
                    yield mine
        pending = held if wait else []
        if pending:
            threading.Event().wait(WAIT)


def attend(run: store.Run, train: Train, stop: Callable[[], bool], beat: Heartbeat) -> None:
    """Trains one claimed run and leaves its status true, whatever happens. Raises DiskFull."""
    _say_current(run)
    beat.hold(run)
    asked = False

    def stopping() -> bool:
        nonlocal asked
        run.guard()
        asked = asked or any((run.path / file).exists() for file in (CANCEL, PRUNE))
        return asked or stop()

    try:
        owner = {key: value for key, value in run.owner().items() if key != "token"}
        run.note("begin", attempt=run.next_attempt(), saved=run.saved_step(), **owner)
        train(run, stop=stopping)
        if asked and run.state() not in store.FINISHED:  # it may have come to its end before it saw the file
            end_as_asked(run)
        elif run.state() not in store.ENDED and not stopping():
            fail(run, "training returned without an end", "")
        run.note("end", state=run.state())
    except store.ClaimLost:
        print(f"{run.id}: taken over by {run.owner().get('host', 'nobody')}; left alone", flush=True)
    except (Exception, SystemExit) as error:
        if _is_storage(error):
            raise DiskFull(f"{run.id}: {error}; its record is whole up to here, the same command goes on") from error
        with contextlib.suppress(store.ClaimLost):
            line = "".join(traceback.format_exception_only(error)).strip()
            fail(run, _out_of_memory(error) or line, traceback.format_exc())
            run.note("end", state="failed")
    finally:
        beat.hold(None)


def give_up(run: store.Run, session: str) -> bool:
    """Whether too many workers of this pool have died on the run while it stood still; it is failed then.

    A crash is likely to come again, a kill from outside is not.
    """
    died = run.deaths(session)
    crashed = {note.get("pid") for note in run.notes() if note["event"] == OWN_DEATH} if died else set()
    crashes = [note for note in died if note.get("pid") in crashed]
    if len(crashes) <= DEATHS_ALLOWED and len(died) <= KILLS_ALLOWED:
        return False
    what = f"crashed {len(crashes)} times" if crashes else f"was killed {len(died)} times"
    fail(run, f"its worker {what} and got no farther; sweeps/*/worker-*.log has its last words", "")
    return True


def _say_current(run: store.Run) -> None:
    if file := os.environ.get(CURRENT):
        Path(file).write_text(f"{run.id} {run.token}")


def _is_storage(error: BaseException) -> bool:
    """safetensors says it in words only."""
    return getattr(error, "errno", None) in store.STORAGE_ERRORS or "No space left on device" in str(error)


def _out_of_memory(error: BaseException) -> str:
    """The cure, where the error is one of memory: it would come again however often the run is tried."""
    text = str(error).strip().splitlines() or [""]
    if not (isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or "allocate memory" in text[0]):
        return ""
    return f"out of memory: {text[0]}; make runtime.micro_batch_rows smaller, or give the run more"


def fail(run: store.Run, error: str, text: str) -> None:
    """status.json: failed, with the error's last line; error.txt: everything. Raises ClaimLost."""
    last = (error.splitlines() or [""])[-1]
    run.guard()
    store.write_atomic(run.path / "error.txt", text or f"{error}\n")
    run.write_status("failed", error=last, **_progress(run))


def cancel(run: store.Run) -> None:
    """Raises ClaimLost."""
    run.write_status("cancelled", **_progress(run))


def prune(run: store.Run) -> None:
    """status.json: pruned, at which step, by which rule and why. Raises ClaimLost."""
    asked, progress = store.read_json(run.path / PRUNE), _progress(run)
    if "steps" not in progress:  # before its first step, as a replicate of a cell that is pruned
        progress |= {"step": 0, "steps": run.config().identity.train.steps}
    run.write_status("pruned", rule=asked.get("rule", ""), why=asked.get("reason", ""), **progress)


def end_as_asked(run: store.Run) -> bool:
    """Ends a run that nobody trains now, where a file in its folder asks for that; whether one does."""
    for file, end in ((CANCEL, cancel), (PRUNE, prune)):
        if (run.path / file).exists():
            end(run)
            return True
    return False


def _progress(run: store.Run) -> dict[str, Any]:
    kept = ("step", "steps", "attempt", "accuracy", "seconds", "evals")
    return {key: value for key, value in store.read_json(run.path / "status.json").items() if key in kept}


def striped(ids: list[str], index: int, count: int) -> list[str]:
    """Every count-th id first, then the others, so that the tasks of an array do not queue up at the same claims."""
    if count < 2:
        return ids
    own = ids[index::count]
    return own + sorted(set(ids) - set(own), key={id: i for i, id in enumerate(ids)}.__getitem__)


def run_one(folder: Path) -> tuple[store.State, str]:
    """Trains the run in a folder, claimed like any other; (its state, its last error or '').

    Raises FileNotFoundError where no run is, RuntimeError where a live process is training it.
    """
    run = store.Run(folder)
    run.config()
    if run.state() in store.FINISHED:
        return run.state(), ""
    with run.owned() as mine, signals(Stop()) as stop:
        if mine is None:
            owner = run.owner()
            where = owner.get("host", "").split("/")[0]
            raise RuntimeError(f"{folder}: process {owner.get('pid')} on {where} trains it")
        attend(mine, load_train(), stop, Heartbeat())
    return run.state(), str(run.status().get("error", ""))


def serve(root: Path, name: str, parent: int | None, group: str = "", limit: int = 0) -> int:
    """What a pool's worker process does: the runs of a sweep's manifest, or of one of its groups of like needs.

    130 when it was stopped, DISK_FULL when nothing could be written any more.
    """
    manifest = store.read_json(root / "sweeps" / name / "manifest.json")
    ids = dict.fromkeys(run["run"] for run in manifest["runs"] if not group or run["group"] == group)
    index, count = (int(os.environ.get(f"SLURM_ARRAY_TASK_{name}", "0")) for name in ("ID", "COUNT"))
    with signals(Stop(parent)) as stop:
        try:
            work(root, striped(list(ids), index, count), stop, limit=limit, wait=not scheduler.incarnation())
        except DiskFull as error:
            print(error, file=sys.stderr, flush=True)
            return DISK_FULL
    return 130 if stop() else 0
