"""The process that judges by algebra: one JSON line {"gold", "given"} in, one {"outcome", "why"} out.

    python -P harness/tasks/judge.py CPU_SECONDS

A script of its own that imports math-verify once and forks a child that judges. The kernel ends a child that uses more
than CPU_SECONDS for one answer, even inside a single multiplication of long numbers; another takes its place in
milliseconds. Processor time, so that a busy machine does not change an outcome. Ends when its owner closes the pipe.
Leaves out: what needs no algebra (`answers.py`), the owner's side (`verifier.py`).
"""

import functools
import json
import logging
import math
import os
import re
import resource
import signal
import sys
from typing import Any

# What math-verify's grammar stumbles over: E is 2.718… even with an index, the sun is no name, nor is numpy.
_RENAMED = (
    (re.compile(r"(?<![A-Za-z\\])E(?=_)"), r"\\mathcal{E}"),
    (re.compile(r"_\{?\\odot\}?"), "_{o}"),
    (re.compile(r"\bnp\.(?=[a-z])"), r"\\"),
)

MEMORY = 4 << 30  # bytes of address space: 10^10^10 written out has more


def main(seconds: float) -> None:
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(name, signal.SIG_IGN)  # meant for the owner, who may still have answers to grade
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)
    judge("\\frac{1}{2}x", "\\frac{x}{2}")  # loads the grammar before the first child is made
    _reply("ready", "")
    while True:
        child = os.fork()
        if not child:
            _serve(seconds)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            return
        overrun = os.WTERMSIG(status) == signal.SIGPROF
        _reply("error", "time" if overrun else f"signal {os.WTERMSIG(status)}")


def _serve(seconds: float) -> None:
    """Answers until the pipe is closed; one request is under way at a time, so that a line is never read ahead."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    while line := _line():
        asked = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            outcome, why = judge(asked["gold"], asked["given"])
        except Exception as error:
            outcome, why = "error", type(error).__name__
        signal.setitimer(signal.ITIMER_PROF, 0)
        _reply(outcome, why)


def judge(gold: str, given: str) -> tuple[str, str]:
    """(right, wrong or unparsable, ""), or ("error", why) where the verifier failed or cannot read `gold`.

    The reference is read first and compared as the reference: the comparison is not symmetric.
    """
    from math_verify import verify

    ours = _gold(gold)
    if not ours:
        return "error", "gold"
    theirs = _parsed(given)
    if not theirs:
        return "unparsable", ""
    failed = ""
    for target in theirs:
        for reference in ours:
            try:
                if _apart(reference, target):
                    continue
                if verify(reference, target, timeout_seconds=None, raise_on_error=True):
                    return "right", ""
            except Exception as error:
                failed = type(error).__name__
    return ("error", failed) if failed else ("wrong", "")


def _apart(a: Any, b: Any) -> bool:
    """Whether two plain expressions have clearly different values at one point, which no algebra can undo.

    Spares most wrong answers the simplification of a difference, which takes up to seconds. The margin is far above
    the sixth digit, to which the verifier rounds; positive values, since it takes variables for real.
    """
    from sympy import Symbol, preorder_traversal  # type: ignore[import-untyped]

    if isinstance(a, Symbol) or isinstance(b, Symbol):
        return False  # compared by name
    kinds = _plain_kinds()
    if not all(isinstance(node, kinds) for expression in (a, b) for node in preorder_traversal(expression)):
        return False
    names = sorted(map(str, a.free_symbols | b.free_symbols))
    place = {name: 0.37 + 0.61 * (i + 1) / (len(names) + 1) for i, name in enumerate(names)}
    try:
        x, y = (complex(e.evalf(15, subs={v: place[str(v)] for v in e.free_symbols})) for e in (a, b))
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        return False
    size = max(1.0, abs(x), abs(y))
    return math.isfinite(size) and abs(x - y) > 1e-3 * size


@functools.cache
def _plain_kinds() -> tuple[type, ...]:
    """Whose values follow from their variables' and are cheap."""
    import sympy

    functions = (sympy.exp, sympy.log, sympy.Abs, sympy.sin, sympy.cos, sympy.tan, sympy.cot, sympy.atan)
    numbers = (sympy.Rational, sympy.Float, sympy.NumberSymbol, type(sympy.I))
    return (sympy.Add, sympy.Mul, sympy.Pow, sympy.Symbol, *numbers, *functions)


@functools.lru_cache(maxsize=16384)
def _gold(answer: str) -> tuple[Any, ...]:
    """A reference answer comes back with every response to its question, whatever was read in between."""
    return _parsed(answer)


@functools.lru_cache(maxsize=1024)
def _parsed(answer: str) -> tuple[Any, ...]:
    """What math-verify reads as mathematics. Without delimiters around it, a fifth of the MATH answers is misread."""
    from math_verify import parse

    text = " ".join(answer.replace("\\$", "").replace("$", "").split())
    for pattern, name in _RENAMED:
        text = pattern.sub(name, text)
    return tuple(item for item in parse(f"${text}$", parsing_timeout=None) if not isinstance(item, str))


def _line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 65536)
        if not part:
            return b""
        line += part
    return line


def _reply(outcome: str, why: str) -> None:
    try:
        os.write(1, json.dumps({"outcome": outcome, "why": why}).encode() + b"\n")
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main(float(sys.argv[1]))
    os._exit(0)  # there is nothing to tidy up
