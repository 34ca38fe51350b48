"""A watchdog over work that advances in short steps: no step ended for too long means that it hangs.

    with Watchdog(600, "what to do about it") as dog:
        while ...: step(); dog.pat()

At the limit SIGALRM raises RuntimeError in the main thread. Where that thread is stuck inside a library and never comes
back to Python, the process says where it is and ends a minute later, and whoever started it sees a worker die. Leaves
out: work in other threads, where Python allows no signal handler; there only the second barrier stands.
"""

import faulthandler
import signal
import threading
import time
from types import FrameType

GRACE = 60  # seconds between the exception and the end of the process
EVERY = 1.0  # seconds between two settings of the alarms, which cost more than a short step


class Watchdog:
    def __init__(self, limit: float, advice: str) -> None:
        self.limit, self.advice = limit, advice
        self.handles_signals = threading.current_thread() is threading.main_thread()

    def pat(self) -> None:
        """A step has ended: the limit counts from now."""
        if time.monotonic() - self.set_at >= EVERY:
            self._set()

    def _set(self) -> None:
        self.set_at = time.monotonic()
        if self.handles_signals:
            signal.setitimer(signal.ITIMER_REAL, self.limit)
        faulthandler.dump_traceback_later(self.limit + GRACE, exit=True, file=2)

    def _hangs(self, number: int, frame: FrameType | None) -> None:
        raise RuntimeError(f"no step ended within {self.limit:g} seconds: it hangs; {self.advice}")

    def __enter__(self) -> "Watchdog":
        if self.handles_signals:
            self.before = signal.signal(signal.SIGALRM, self._hangs)
        self._set()
        return self

    def __exit__(self, *_: object) -> None:
        faulthandler.cancel_dump_traceback_later()
        if self.handles_signals:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.before)
