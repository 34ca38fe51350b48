"""Runs the tests against mutants: this process loads what the tests load and forks once per mutant.

Each child works in its own copy of the repository, where the mutated file stands in place of the original. First the
unmutated tests run and must pass; that run notes which tests call which function, so that a mutant meets only the tests
that can see it, the likeliest and quickest first. Leaves out: which mutants there are (`bench.mutants`), what their
fate says (`bench.mutation`).
"""

import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from bench.mutants import Mutant

OURS = {"harness", "analysis", "tests", "bench", "conftest"}
NOTHING_RAN = int(pytest.ExitCode.NO_TESTS_COLLECTED)
TIMEOUT = 30.0  # seconds, or five times the unmutated run where that is more


@dataclass
class Trial:
    """A mutant, its tests and what became of it: killed (by a test, or by time) or not."""

    mutant: Mutant
    tests: tuple[str, ...]
    seconds: float = 0.0
    killed: bool = False
    late: bool = False


@dataclass
class Calls:
    """Of an unmutated run: what each test calls as "file:function", what runs outside any test, and the seconds."""

    tests: dict[str, list[str]] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def seen_by(self, mutant: Mutant) -> set[str] | None:
        """The tests that can notice a mutant; None = all, as for code that runs on import, in fixtures or once."""
        name = f"{mutant.path}:{mutant.function}"
        if not mutant.function or name in self.outside:
            return None
        return {test for test, called in self.tests.items() if name in called}


class _Plugin:
    """What every run under pytest shares: property tests without chance and without shrinking."""

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile(
            "mutation", settings.default, derandomize=True, database=None, deadline=None, phases=phases
        )
        settings.load_profile("mutation")


class _Watch(_Plugin):
    """Notes what each test calls of the files under test."""

    def __init__(self, folder: Path) -> None:
        self.outside: set[str] = set()
        self.now, self.prefix = self.outside, f"{folder}/"
        self.tests: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = {}

    def trace(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(self.prefix):
            self.now.add(f"{code.co_filename.removeprefix(self.prefix)}:{code.co_qualname.split('.')[0]}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        self.now, started = set(), time.perf_counter()
        try:
            yield
        finally:
            self.tests[item.nodeid] = sorted(self.now)
            self.seconds[item.nodeid] = time.perf_counter() - started
            self.now = self.outside


class _Select(_Plugin):
    """Keeps the tests that can notice a mutant, the likeliest and quickest first."""

    def __init__(self, mutant: Mutant, calls: Calls) -> None:
        self.seen, self.known, self.seconds = calls.seen_by(mutant), calls.tests, calls.seconds
        self.words = [word for word in (mutant.function, Path(mutant.path).stem) if word]

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.seen is not None:
            items[:] = [item for item in items if item.nodeid in self.seen or item.nodeid not in self.known]
        items.sort(key=lambda i: ([word not in i.nodeid for word in self.words], self.seconds.get(i.nodeid, 0.0)))


def _fork(work: Callable[[], int], log: str) -> int:
    """The process id of a child in a group of its own, whose exit code is what `work` returns."""
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    code = 3
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = work()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _end(pid: int, reaped: bool) -> None:
    """Ends a child with whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not reaped:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _run_tests(folder: Path, tests: Sequence[str], plugin: _Plugin, detail: str) -> int:
    """Runs tests in a copy of the repository; the exit code of pytest."""
    here = str(Path(__file__).parents[1])
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path[:] = [str(folder), *(p for p in sys.path if p not in ("", here))]
    for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
        del sys.modules[name]
    options = ["-x", "-q", f"--tb={detail}", "--disable-warnings", "-p", "no:cacheprovider", "-p", "no:xdist"]
    code = int(pytest.main([*options, f"--basetemp={folder}.tmp", *tests], plugins=[plugin]))
    if not (sys.modules["harness.tricks"].__file__ or "").startswith(str(folder)):
        raise RuntimeError("the tests imported another harness than the copy's")
    return code


def baseline(folder: Path, tests: tuple[str, ...]) -> Calls:
    """Runs the unmutated tests, once to watch them, and once more after loading what they load, to time them."""
    log, found = f"{folder}.log", Path(f"{folder}.json")

    def run(watched: bool) -> int:
        watch = _Watch(folder)
        if watched:
            sys.settrace(watch.trace)
        code = _run_tests(folder, tests, watch, "short")
        sys.settrace(None)
        names = [name for name in sys.modules if name.split(".")[0] not in OURS | {"__main__"}]
        found.write_text(json.dumps([names, watch.tests, sorted(watch.outside), watch.seconds]))
        return code

    calls = Calls()
    for watched in (True, False):
        pid, status = _fork(lambda watched=watched: run(watched), log), -1  # type: ignore[misc]
        try:
            _, status = os.waitpid(pid, 0)
        finally:
            _end(pid, reaped=status >= 0)
        if status:
            tail = "\n".join(Path(log).read_text(errors="replace").splitlines()[-30:])
            raise SystemExit(f"{tail}\n\nthe unmutated tests fail ({' '.join(tests)}): no mutant was tried")
        names, called, outside, seconds = json.loads(found.read_text())
        if watched:
            calls.tests, calls.outside = called, outside
            _load(names)
    calls.seconds = seconds
    return calls


def _load(names: Sequence[str]) -> None:
    """Imports modules quietly, for every later child."""
    with open(os.devnull, "w") as void, contextlib.redirect_stdout(void), contextlib.redirect_stderr(void):
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    gc.collect()
    gc.freeze()


class _Slot:
    """One copy of the repository, in which one mutant at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pid = folder, 0

    def start(self, trial: Trial, calls: Calls) -> None:
        self.trial, self.started = trial, time.monotonic()
        mutant, seen = trial.mutant, calls.seen_by(trial.mutant)
        tests = trial.tests if seen is None else sorted({test.split("::")[0] for test in seen})
        self.limit = max(TIMEOUT, 5 * sum(calls.seconds.values()))
        self.file = self.folder / mutant.path
        self.before, stat = self.file.read_bytes(), self.file.stat()
        self.times = (stat.st_atime_ns, stat.st_mtime_ns)
        self.file.write_text(mutant.source, encoding="utf-8")
        os.utime(self.file, (1, 1))  # so that no bytecode of the original passes for the mutant's

        def work() -> int:
            sys.dont_write_bytecode = True
            return _run_tests(self.folder, tests, _Select(mutant, calls), "no") if tests else NOTHING_RAN

        self.pid = _fork(work, os.devnull)

    def done(self) -> bool:
        """Whether the trial has ended; puts the file back if so."""
        late = time.monotonic() - self.started > self.limit
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid and not late:
            return False
        self.trial.seconds, self.trial.late = time.monotonic() - self.started, not pid
        self.trial.killed = not pid or os.waitstatus_to_exitcode(status) not in (0, NOTHING_RAN)
        self.stop(reaped=bool(pid))
        return True

    def stop(self, reaped: bool = False) -> None:
        """Ends the child, and puts the file back."""
        if self.pid:
            _end(self.pid, reaped)
            self.pid = 0
            self.file.write_bytes(self.before)
            os.utime(self.file, ns=self.times)


def try_all(trials: Sequence[Trial], jobs: int, work: Path) -> None:
    """Tries every mutant, `jobs` at a time, in copies of the folder `work`/0."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    slots = [_Slot(work / str(number)) for number in range(jobs)]
    calls = {}
    for tests in sorted({trial.tests for trial in trials}):
        calls[tests] = baseline(slots[0].folder, tests)
        seconds = sum(calls[tests].seconds.values())
        print(
            f"{' '.join(tests)}: {len(calls[tests].tests)} tests pass without a mutant in {seconds:.1f} s", flush=True
        )
    for slot in slots[1:]:
        shutil.copytree(slots[0].folder, slot.folder)
    waiting, ended = iter(trials), 0
    try:
        while ended < len(trials):
            for slot in slots:
                if slot.pid and slot.done():
                    ended += 1
                    if sys.stderr.isatty():
                        print(f"{ended}/{len(trials)}", end="\r", file=sys.stderr, flush=True)
                if not slot.pid and (trial := next(waiting, None)):
                    slot.start(trial, calls[trial.tests])
            time.sleep(0.005)
    finally:
        for slot in slots:
            slot.stop()
