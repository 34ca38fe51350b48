"""Work that stands still is ended, work that goes on is not."""

import signal
import subprocess
import sys
import time

import pytest

from harness.core.engines.watchdog import Watchdog


def test_a_step_that_does_not_end_raises_the_advice() -> None:
    before, begun = signal.getsignal(signal.SIGALRM), time.monotonic()
    with (
        pytest.raises(RuntimeError, match=r"no step ended within 0\.2 seconds: it hangs; set a=1"),
        Watchdog(0.2, "set a=1"),
    ):
        time.sleep(20)
    assert time.monotonic() - begun < 5
    assert signal.getsignal(signal.SIGALRM) is before


def test_steps_that_end_in_time_may_go_on_for_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.core.engines.watchdog.EVERY", 0.0)
    with Watchdog(0.5, "") as dog:
        for _ in range(8):
            time.sleep(0.1)
            dog.pat()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_process_that_no_exception_reaches_ends_and_says_where_it_was() -> None:
    code = """
import signal
from harness.core.engines import watchdog
watchdog.GRACE = 0.3
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # as stuck inside a library
def stuck_here():
    import time; time.sleep(30)
with watchdog.Watchdog(0.2, ""):
    stuck_here()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=25)
    assert ended.returncode == 1 and "stuck_here" in ended.stderr
