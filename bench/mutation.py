"""The mutation check: does a test notice every single-point change of the tricks and of the step?

Every mutant of harness/tricks/*.py and harness/core/step.py is one edit of the source text, found by AST. This process
imports what the tests import and forks once per mutant; the child runs that file's tests in its own copy of the
repository, and a failure, or no end in time, kills the mutant. A tool's own trampolines (mutmut) would break the
registry of tricks, which reads signatures from the file, and a fresh Python per mutant (cosmic-ray) costs 2 to 4 s.

Leaves out: which edits there are (`bench.mutants`), and tests beyond those in TESTS: a mutant that only another test
would notice counts as a survivor.

    python -m bench.mutation [--only advantage,weight] [--jobs 2]
"""

import os

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}

import argparse
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench.mutants import Mutant, mutants
from bench.mutation_run import Trial, try_all

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("harness", "analysis", "tests", "experiments", "grid_specs", "pyproject.toml")
TESTS = {
    "harness/core/step.py": ("tests/core/test_step.py", "tests/core/test_prepare.py"),
}
TARGET = 0.95  # share killed

# (file, part of its line, what the mutant has in its place) -> why the two cannot differ in behaviour. They are run
# all the same: one that a test kills, and an entry that fits no mutant, are errors.
_AT_ZERO = "where A = 0 the objective and its gradient are 0 on either side"
_S, _A, _STEP = "harness/tricks/surrogate.py", "harness/tricks/advantage.py", "harness/core/step.py"
EQUIVALENT: dict[tuple[str, str, str], str] = {
    (_S, "advantage < 0, torch.maximum", "advantage <= 0, torch.maximum"): _AT_ZERO,
    (_S, "advantage > 0, tau_positive", "advantage >= 0, tau_positive"): _AT_ZERO,
    (_S, "advantage >= 0, logratio.clamp", "advantage > 0, logratio.clamp"): _AT_ZERO,
    (_S, "advantage < 0, logratio.detach", "advantage <= 0, logratio.detach"): _AT_ZERO,
    (_A, "variance.sqrt(), 1.0)", "variance.sqrt(), 2.0)"): "without spread the numerator is exactly 0",
    (_A, "counted.any(-1", "counted.all(-1"): "there is no sample whose spread could be judged",
    ("harness/tricks/__init__.py", "n=1", "n=2"): "only the closest match is read",
    (_STEP, "max(1, len(order))", "max(2, len(order))"): "one row in parts of at most two is one part",
    (_STEP, "max(1, len(order))", "max(0, len(order))"): "no row at all gives no part, or an empty one that is dropped",
}


def excuse(mutant: Mutant) -> tuple[str, str, str] | None:
    """The entry of EQUIVALENT that makes this mutant's line of its original."""
    for path, before, after in EQUIVALENT:
        places = [m.start() for m in re.finditer(re.escape(before), mutant.original)] if path == mutant.path else []
        lines = (mutant.original[:i] + after + mutant.original[i + len(before) :] for i in places)
        if mutant.mutated in lines:
            return path, before, after
    return None


def _report(trials: list[Trial], started: float) -> int:
    """Prints the score, the survivors and the equivalents; the exit code."""
    excused = [(trial, key) for trial in trials if (key := excuse(trial.mutant))]
    counted = [trial for trial in trials if not excuse(trial.mutant)]
    for path in dict.fromkeys(trial.mutant.path for trial in trials):
        here = [trial for trial in counted if trial.mutant.path == path]
        killed = sum(trial.killed for trial in here)
        mean = sum(trial.seconds for trial in here) / max(1, len(here))
        print(f"  {path:32} {killed:4} / {len(here):4} killed, {mean:5.2f} s each")
    survivors = [trial.mutant for trial in counted if not trial.killed]
    _list("survived", [(mutant, "") for mutant in survivors])
    _list("equivalent", [(trial.mutant, f"because {EQUIVALENT[key]}") for trial, key in excused if not trial.killed])
    wrong = [(trial.mutant, f"yet excused: {EQUIVALENT[key]}") for trial, key in excused if trial.killed]
    _list("killed though called equivalent", wrong)
    paths, used = {trial.mutant.path for trial in trials}, {key for _, key in excused}
    unused = [key for key in EQUIVALENT if key[0] in paths and key not in used]
    for key in unused:
        print(f"an entry of EQUIVALENT fits no mutant: {key}")
    late, total = sum(trial.late for trial in counted), len(counted)
    score = (total - len(survivors)) / max(1, total)
    print(
        f"killed {total - len(survivors)} / {total} = {100 * score:.1f} % (target {100 * TARGET:.0f} %), "
        f"{late} of them by time; {len(excused)} equivalent; {time.monotonic() - started:.0f} s"
    )
    return int(score < TARGET or bool(wrong) or bool(unused))


def _list(title: str, found: list[tuple[Mutant, str]]) -> None:
    if found:
        print(f"\n{title}:")
    for mutant, note in found:
        print(f"  {mutant.path}:{mutant.line}\n    - {mutant.original}\n    + {mutant.mutated}")
        if note:
            print(f"    {note}")
    if found:
        print()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="names of files without .py, by commas: advantage,weight,__init__,step")
    parser.add_argument("--jobs", type=int, default=2, help="mutants tried at a time")
    parser.add_argument("--list", action="store_true", help="count the mutants of each file and try none")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        work = Path(name).resolve()
        trials = [
            Trial(mutant, TESTS.get(mutant.path, ("tests/tricks",)))
            for mutant in _find(_copy(work / "0"), options.only)
        ]
        if options.list:
            return 0
        try_all(trials, options.jobs, work)
    return _report(trials, started)


def _copy(target: Path) -> Path:
    """The repository as it is now: what others write while mutants are tried is not seen."""
    target.mkdir()
    for source in (ROOT / name for name in COPIED):
        if source.is_dir():
            shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    return target


def _find(root: Path, only: str | None) -> list[Mutant]:
    files = [*sorted((root / "harness/tricks").glob("*.py")), root / "harness/core/step.py"]
    wanted = set(only.split(",")) if only else {file.stem for file in files}
    if unknown := wanted - {file.stem for file in files}:
        raise SystemExit(f"no such file: {', '.join(sorted(unknown))} (there are: {', '.join(f.stem for f in files)})")
    found = []
    for file in (file for file in files if file.stem in wanted):
        path = file.relative_to(root).as_posix()
        found += (here := mutants(path, file.read_text(encoding="utf-8")))
        print(f"{path}: {len(here)} mutants", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
