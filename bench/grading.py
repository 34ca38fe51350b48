"""What grading costs: milliseconds of processor time for a pair of response and reference answer, by benchmark.

    python -m bench.grading math500=math500_test.jsonl minerva_math=minerva_math_test.jsonl

Four kinds of response to every question: its reference answer as it stands, which text decides; the same by algebra
alone; times one, so in another form; and the reference answer of the next question, which is wrong. Names are those of
`experiments/data/source/`. Leaves out: the seconds that a process takes to load the verifier.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness.data import sources
from harness.tasks import grading, verifier


def main(words: list[str]) -> None:
    known = sources.load(sources.FOLDER)
    verifier.ask_all([("x", "y")])  # its process runs from here on
    print(f"{'ms of CPU a pair':<16} {'questions':>9} {'as it is':>9} {'algebra':>9} {'times one':>9} {'another':>9}")
    for word in words:
        name, _, file = word.partition("=")
        golds = [item.answer for item in sources.items(known[name], [Path(file)])]
        asked = [
            lambda golds=golds: grading.grade_all([_boxed(gold) for gold in golds], golds),
            lambda golds=golds: grading.readable(golds),
            lambda golds=golds: grading.grade_all([_boxed(f"1 \\cdot ({gold.strip('$')})") for gold in golds], golds),
            lambda golds=golds: grading.grade_all([_boxed(gold) for gold in golds[1:] + golds[:1]], golds),
        ]
        spent = [1000 * _seconds(one) / len(golds) for one in asked]
        print(f"{name:<16} {len(golds):>9} " + " ".join(f"{ms:>9.2f}" for ms in spent))
    print("failed:", grading.failures() or "none")


def _boxed(answer: str) -> str:
    return f"Therefore \\boxed{{{answer}}}."


def _seconds(work: Callable[[], object]) -> float:
    """Of processor time, here and in the verifier's process; a child of it that was ended for time is not in it."""
    before = time.process_time() + _verifiers()
    work()
    return time.process_time() + _verifiers() - before


def _verifiers() -> float:
    ticks = 0
    for judge in verifier._POOL.idle:
        pid = judge.process.pid
        for process in (str(pid), *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            after_name = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += sum(map(int, after_name[11:15]))  # user, system, and both of children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(sys.argv[1:])
