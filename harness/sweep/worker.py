"""A worker: claims runs of a sweep from the store and trains them one after another in one process.

torch is imported once, with the first run that is claimed. A run that raises is marked failed, with its traceback
in runs/<id>/error.txt, and the worker goes on. On SIGINT or SIGTERM, when the sweep that started it is gone, or when
its claim was taken over, the run stops at a step boundary with a checkpoint. Leaves out: who starts workers
(`launch.py`).
"""

import contextlib
import importlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from harness import store

TRAIN = "harness.core.train:train"
FINAL: tuple[store.State, ...] = ("done", "diverged", "failed")
DEATHS_ALLOWED = 2  # of workers, on one run in one launch; the run is failed at the next
SESSION = "HARNESS_SESSION"  # names the launch in claims
WAIT = 0.5  # seconds between looks at runs that another process holds

Train = Callable[..., Any]  # train(run, stop=flag): returns at a step boundary once flag() is true


def load_train() -> Train:
    """The core's `train`; HARNESS_TRAIN=module:function takes another (tests and measurements do)."""
    module, _, name = os.environ.get("HARNESS_TRAIN", TRAIN).partition(":")
    return getattr(importlib.import_module(module), name)


class Stop:
    """True after a signal, or once the process that started this one is gone."""

    def __init__(self, parent: int | None = None) -> None:
        self.event = threading.Event()
        self.parent = parent

    def __call__(self) -> bool:
        if self.parent is not None and os.getppid() != self.parent:
            self.event.set()
        return self.event.is_set()

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self.event.set()
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once


@contextlib.contextmanager
def signals(stop: Stop) -> Iterator[Stop]:
    before = {number: signal.signal(number, stop.on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Heartbeat:
    """Keeps the claim of the current run fresh, in a thread; `lost` once the claim is another's."""

    def __init__(self) -> None:
        self.held: tuple[store.Run, str] | None = None
        self.lost = False
        self.lock = threading.Lock()
        threading.Thread(target=self._beat, daemon=True).start()

    def hold(self, run: store.Run, token: str) -> None:
        with self.lock:
            self.held, self.lost = (run, token), False

    def drop(self) -> None:
        with self.lock:
            self.held = None

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(store.HEARTBEAT_EVERY):
            with self.lock:
                if self.held:
                    run, token = self.held
                    if run.owns(token):
                        run.heartbeat()
                    else:
                        self.lost = True


def work(root: Path, ids: list[str], stop: Callable[[], bool], train: Train | None = None) -> None:
    """Trains every run of `ids` that is not final and that no other live process holds, until none is left."""
    beat = Heartbeat()
    session = os.environ.get(SESSION, "")
    pending = ids
    while pending and not stop():
        held = []
        for id in pending:
            if stop():
                return
            run = store.Run(root / "runs" / id)
            if run.state() in FINAL:
                continue
            before = store.read_json(run.path / "claim")
            token = run.claim(session)
            if token is None:
                held.append(id)
                continue
            try:
                train = train or load_train()
                if run.state() not in FINAL and not _given_up(run, session, before):
                    attend(run, token, train, stop, beat)
            finally:
                run.release(token)
        pending = held
        if pending:
            threading.Event().wait(WAIT)


def _given_up(run: store.Run, session: str, before: dict[str, Any]) -> bool:
    """Whether too many workers of this launch died while they trained the run; it is failed then.

    A claim that was there and could be taken over belonged to a process that died.
    """
    if not session or before.get("session") != session:
        return False
    counted = store.read_json(run.path / "deaths.json")
    deaths = 1 + (counted["deaths"] if counted.get("session") == session else 0)
    store.write_atomic(run.path / "deaths.json", store.dump_json({"session": session, "deaths": deaths}))
    if deaths > DEATHS_ALLOWED:
        fail(run, f"its worker died {deaths} times without a word: out of memory?", "")
    return deaths > DEATHS_ALLOWED


def attend(run: store.Run, token: str, train: Train, stop: Callable[[], bool], beat: Heartbeat) -> None:
    """Trains one claimed run and leaves its status true, whatever happens."""
    beat.hold(run, token)
    try:
        train(run, stop=lambda: stop() or beat.lost)
    except (Exception, SystemExit) as error:
        fail(run, "".join(traceback.format_exception_only(error)).strip(), traceback.format_exc())
    else:
        if run.state() not in FINAL and not stop() and not beat.lost:
            fail(run, "training returned without an end", "")
    finally:
        beat.drop()


def fail(run: store.Run, error: str, text: str) -> None:
    """status.json: failed, with the error's last line; error.txt: everything."""
    progress = {key: value for key, value in store.read_json(run.path / "status.json").items() if key in _PROGRESS}
    last = (error.splitlines() or [""])[-1]
    store.write_atomic(run.path / "error.txt", text or f"{error}\n")
    run.write_status("failed", error=last, **progress)


_PROGRESS = ("step", "steps", "attempt", "accuracy")


def run_one(folder: Path) -> tuple[store.State, str]:
    """Trains the run in a folder, claimed like any other; (its state, its last error or '').

    Raises FileNotFoundError where no run is, RuntimeError where a live process is training it.
    """
    run = store.Run(folder)
    run.config()
    if run.state() in ("done", "diverged"):
        return run.state(), ""
    token = run.claim()
    if token is None:
        owner = store.read_json(folder / "claim")
        raise RuntimeError(f"{folder}: process {owner.get('pid')} on {owner.get('host', '').split('/')[0]} trains it")
    try:
        with signals(Stop()) as stop:
            attend(run, token, load_train(), stop, Heartbeat())
    finally:
        run.release(token)
    return run.state(), str(run.status().get("error", ""))


def serve(root: Path, name: str, parent: int | None) -> int:
    """What a pool's worker process does: the runs of a sweep's manifest. 130 when it was stopped."""
    manifest = store.read_json(root / "sweeps" / name / "manifest.json")
    with signals(Stop(parent)) as stop:
        work(root, list(dict.fromkeys(run["run"] for run in manifest["runs"])), stop)
    return 130 if stop() else 0
