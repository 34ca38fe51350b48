"""Judges answers by algebra in processes of their own, each answer with a hard limit.

The processes (`judge.py`) start when first needed and end with this one; after a fork the child starts its own.
Leaves out: which answers need algebra (`grading.py`).
"""

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

CPU_SECONDS = 1.5  # of one answer; on an idle machine under 2 s with what stands around it
STUCK_SECONDS = 600.0  # of the clock, for one that waits without working; a crowded machine works slowly
START_SECONDS = 600.0  # importing takes 3 s, on a crowded machine many times that
PER_PROCESS = 64  # answers that are worth another process
LOST = "lost"  # an outcome of no answer: its process is gone or stuck

_SCRIPT = Path(__file__).with_name("judge.py")


class Reply(NamedTuple):
    outcome: str  # right | wrong | unparsable | error
    why: str  # of an error: time | stuck | signal N | ended | gold | the exception's name


class Judge:
    """One process. Not for several threads at once."""

    def __init__(self, cpu_seconds: float = CPU_SECONDS) -> None:
        """Raises RuntimeError with the process's last words when it does not start."""
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(_SCRIPT), str(cpu_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
            start_new_session=True,  # one group to kill, and no Ctrl-C of the terminal
        )
        ready = self._read(START_SECONDS)
        if ready.outcome != "ready":
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip().splitlines()
            self.close(kill=True)
            raise RuntimeError(f"math-verify does not start: {said[-1] if said else 'no message'}")

    def ask(self, gold: str, given: str) -> Reply:
        """LOST: the process is of no more use."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps({"gold": gold, "given": given}).encode() + b"\n")
        except OSError:
            return Reply(LOST, "ended")
        return self._read(STUCK_SECONDS)

    def _read(self, seconds: float) -> Reply:
        assert self.process.stdout
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], seconds)[0]:
                return Reply(LOST, "stuck")
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:  # whoever has just been killed may not look dead yet, but has let go of its pipe
                return Reply(LOST, "ended")
            line += part
        return Reply(**json.loads(line))

    def close(self, kill: bool = False) -> None:
        """Closing the pipe ends it; what does not end at once is killed with its child."""
        self.release()
        try:
            self.process.wait(0 if kill else 2)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def release(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream:
                stream.close()


class Pool:
    """Judges of this process, started one by one as work asks for them."""

    def __init__(self) -> None:
        self.idle: list[Judge] = []
        self.lock = threading.Lock()

    def ask_all(self, pairs: Sequence[tuple[str, str]]) -> list[Reply]:
        """A reply per (gold, given), in order. Raises RuntimeError only when no process can be started at all."""
        workers = max(1, min(_cores(), 8, len(pairs) // PER_PROCESS))
        if workers == 1:
            return self._work(pairs)
        shares = [pairs[start::workers] for start in range(workers)]
        with ThreadPoolExecutor(workers) as threads:
            done = list(threads.map(self._work, shares))
        return [done[i % workers][i // workers] for i in range(len(pairs))]

    def _work(self, pairs: Sequence[tuple[str, str]]) -> list[Reply]:
        judge = self._take()
        replies = []
        for gold, given in pairs:
            reply = judge.ask(gold, given)
            if reply.outcome == LOST:
                judge.close(kill=True)
                judge, reply = Judge(), Reply("error", reply.why)
            replies.append(reply)
        with self.lock:
            self.idle.append(judge)
        return replies

    def _take(self) -> Judge:
        with self.lock:
            if self.idle:
                return self.idle.pop()
        return Judge()

    def close(self) -> None:
        while self.idle:
            self.idle.pop().close()

    def forget(self) -> None:
        """In a forked child: the processes are the parent's, and these pipes would keep them alive."""
        for judge in self.idle:
            judge.release()
            judge.process.returncode = 0
        self.idle, self.lock = [], threading.Lock()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_POOL = Pool()
atexit.register(_POOL.close)
os.register_at_fork(after_in_child=_POOL.forget)


def ask_all(pairs: Sequence[tuple[str, str]]) -> list[Reply]:
    """A reply per (gold, given) from this process's judges. Raises RuntimeError when none can be started."""
    return _POOL.ask_all(pairs) if pairs else []
