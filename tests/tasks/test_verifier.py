"""Judging by algebra: right by mathematics, bounded for hostile answers, and gone with the process that asked."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.tasks import grading, verifier
from harness.tasks import judge as judging
from harness.tasks.verifier import Judge, Reply

HOSTILE = [
    "9^{9^{9^9}}",
    "10^{10^{10}}",
    "1000000!",
    "((10!)!)!",
    r"\sum_{k=1}^{1000000000} \frac{1}{k}",
    r"\binom{1000000000}{500000000}",
    "(x+y+z+w)^{40}",
    "2^{2^{2^{2^{2^{2}}}}}",
    r"\int_0^{1} x^{x^{x^{x}}} dx",
    r"\prod_{k=1}^{100000} k",
    r"\sqrt{" * 200 + "2" + "}" * 200,
    "(" * 300 + "x" + ")" * 300,
    "9" * 2000,
    r"\frac{" * 150 + "1",
    "x" + "^x" * 300,
    r"\begin{pmatrix}" + r"1 & 2 \\" * 100 + r"\end{pmatrix}",
]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    started = Judge()
    yield started
    started.close()


@pytest.mark.parametrize(
    ("gold", "given", "outcome"),
    [
        ("2(x+1)", "2x+2", "right"),
        ("x+1", "x", "wrong"),
        (r"2\sqrt{3}", r"\sqrt{12}", "right"),
        (r"\frac{1}{3}", "0.333333", "right"),
        (r"\frac{1}{3}", "0.333", "wrong"),
        (r"\pi", "3.14159", "wrong"),
        ("5", "x=5", "right"),
        ("5", "5 cm", "right"),
        ("12", "12 or 13", "wrong"),
        ("3,4", "34", "wrong"),
        ("7,5,3", "3,5,7", "right"),
        (r"\{1,2\}", r"\{2,1\}", "right"),
        ("(3,4)", "(4,3)", "wrong"),
        ("[1,2)", "[1,2]", "wrong"),
        (r"(-\infty,3)\cup(4,\infty)", r"(4,\infty)\cup(-\infty,3)", "right"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}", "right"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}", "wrong"),
        (r"\text{(A)}", "A", "right"),
        (r"\text{(A)}", "B", "wrong"),
        (r"1 \le x < 2", "[1,2)", "right"),  # only in this order: the reference is the first argument
        ("[1,2)", r"1 \le x < 2", "wrong"),
        ("5", "(((", "unparsable"),
        ("t(0,4]", "t(0,4]", "error"),  # a reference that is no mathematics
    ],
)
def test_algebra(judge: Judge, gold: str, given: str, outcome: str) -> None:
    reply = judge.ask(gold, given)
    assert reply.outcome == outcome


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        ("x+1", "x+2", True),
        (r"\frac{a}{b}", r"\frac{b}{a}", True),
        (r"e^{-2t}\cos(3t)", r"e^{-2t}\sin(3t)", True),
        (r"2\sqrt{3}", r"\sqrt{13}", True),
        ("(x+1)^2", "x^2+2x+1", False),  # equal, in another form
        (r"\sin(2x)", r"2\sin(x)\cos(x)", False),
        (r"\ln(ab)", r"\ln(a)+\ln(b)", False),
        (r"\frac{1}{3}", "0.333333", False),  # a rounding that counts as right
        ("x", "y", False),  # names are the verifier's to compare
        ("(1,2)", "(1,3)", False),  # and all that is no plain expression
        (r"\int_0^1 x dx", "7", False),
        (r"\frac{1}{0}", "3", False),  # no value
    ],
)
def test_values_far_apart_at_a_point_need_no_algebra(a: str, b: str, apart: bool) -> None:
    (x,), (y,) = judging._parsed(a), judging._parsed(b)
    assert judging._apart(x, y) == judging._apart(y, x) == apart


def test_no_answer_takes_longer_than_the_limit_and_the_next_is_judged(judge: Judge) -> None:
    """In processor time, which a crowded machine does not change: all of them together, less a start."""
    limit = 0.5
    before = _children()
    Judge(limit).close()
    start = _children() - before
    before = _children()
    hostile = Judge(limit)
    replies = [hostile.ask("x+1", given) for given in HOSTILE]
    after = hostile.ask("x+1", "1+x")
    hostile.close()
    assert (_children() - before - start) / len(HOSTILE) <= limit + 0.2
    assert after == Reply("right", "")
    assert {reply.outcome for reply in replies} <= {"wrong", "unparsable", "error"}
    assert replies[0] == Reply("error", "time")


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_an_answer_out_of_time_is_unparsable_and_counted_apart() -> None:
    before = grading.failures().get("time", 0)
    assert grading.grade(r"\boxed{9^{9^{9^9}}}", "x+1") == "unparsable"
    assert grading.failures()["time"] == before + 1
    assert grading.grade(r"\boxed{x}", "x+1") == "wrong"
    assert grading.failures()["time"] == before + 1


def test_a_judge_that_is_killed_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = verifier.Pool()
    monkeypatch.setattr(verifier, "_POOL", pool)
    assert grading.grade(r"\boxed{1+x}", "x+1") == "right"
    os.killpg(pool.idle[0].process.pid, signal.SIGKILL)
    before = grading.failures().get("ended", 0)
    assert grading.grade_all([r"\boxed{1+x}", r"\boxed{2+x-1}"], ["x+1", "x+1"]) == ["unparsable", "right"]
    assert grading.failures()["ended"] == before + 1
    pool.close()
    assert not pool.idle


def test_a_judge_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "judge.py"
    broken.write_text("import no_such_module\n")
    monkeypatch.setattr(verifier, "_SCRIPT", broken)
    with pytest.raises(RuntimeError, match=r"math-verify does not start: ModuleNotFoundError: .*no_such_module"):
        Judge()


def test_replies_keep_their_order_over_several_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(3)  # passed only by three at once

    class Echo(Judge):
        def __init__(self) -> None:
            pass

        def ask(self, gold: str, given: str) -> Reply:
            if given in ("0", "1", "2"):  # the first of each share
                together.wait(30)
            return Reply("wrong", given)

    monkeypatch.setattr(verifier, "Judge", Echo)
    monkeypatch.setattr(verifier, "_cores", lambda: 3)
    pool = verifier.Pool()
    pairs = [("x", str(i)) for i in range(3 * verifier.PER_PROCESS + 7)]
    assert [reply.why for reply in pool.ask_all(pairs)] == [given for _, given in pairs]
    pool.idle.clear()


FORKED = """
import os
from harness.tasks import grading, verifier
first = grading.grade(r"\\boxed{1+x}", "x+1")
child = os.fork()
if not child:
    ok = not verifier._POOL.idle and grading.grade(r"\\boxed{1+x}", "x+1") == "right"
    verifier._POOL.close()
    os._exit(0 if ok else 1)
_, status = os.waitpid(child, 0)
print(first, os.waitstatus_to_exitcode(status), grading.grade(r"\\boxed{x}", "x+1"), verifier._POOL.idle[0].process.pid)
import sys; sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


def test_a_forked_child_has_judges_of_its_own_and_all_end_with_their_process() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    first, child, second, pid = done.stdout.split()
    assert (first, child, second) == ("right", "0", "wrong")
    end = time.monotonic() + 60
    while _alive(int(pid)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not _alive(int(pid))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
