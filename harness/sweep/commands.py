"""What each command of the command line does, in a few lines; everything heavy is imported where it is used."""

import argparse
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from harness.sweep.plan import Plan


def plan(options: argparse.Namespace) -> int:
    from harness.sweep import plan as plans
    from harness.sweep import present

    made = plans.make(options.spec, tuple(options.overrides), options.root, options.name)
    present.show(made, Console(), plans.workers(made, options.workers))
    if made.launcher.kind == "slurm" and "dry_run" in options:
        from harness.sweep import slurm

        slurm.show(made, Console(), scripts=True)
    return 0


def sweep(options: argparse.Namespace) -> int:
    if options.dry_run:
        return plan(options)
    from harness.sweep import cancel, estimate, present, search
    from harness.sweep import plan as plans

    console = Console()
    made = plans.make(options.spec, tuple(options.overrides), options.root, options.name)
    present.show(made, console, plans.workers(made, options.workers))
    if not options.force:
        estimate.refuse_what_cannot_fit(made)
    left = cancel.left_the_spec(made) if options.prune else []
    made = search.commit(made)
    for line in cancel.runs(made.root, left):
        console.print(line, highlight=False)
    return _launch(made, console, options.workers, not options.no_mirror)


def _launch(made: "Plan", console: Console, workers: int | None, mirrored: bool) -> int:
    """Trains what a committed plan misses: here, watched to the end, or by tasks that Slurm is given."""
    if made.launcher.kind == "slurm" and made.todo():
        return _submit(made, console, mirrored)
    from harness.sweep import launch, mirroring, pool, present, rounds, status
    from harness.sweep import plan as plans

    gpus = max(cell.runtime.gpus for cell in made.expansion.cells) if made.todo() else 0
    size = (workers or made.launcher.workers) if gpus else plans.workers(made, workers)
    slots = pool.slots(size, gpus, made.launcher.workers_per_gpu, pool.visible_gpus() if gpus else [])
    beside = mirroring.beside(made.root, made.name, console, mirrored, bool(made.todo()))
    with beside, status.display(plans.manifest(made), console, bool(made.todo())) as display:
        outcome = launch.sweep(made, slots, display)
    if outcome.interrupted:
        console.print(f"stopped; to go on from the checkpoints: python -m harness sweep {made.name}", highlight=False)
        return outcome.exit_code
    if following := rounds.following(made):
        present.round(following, console)
        return _launch(following, console, workers, mirrored)
    if outcome.failed:
        console.print(
            f"{len(outcome.failed)} runs failed: `python -m harness status {made.name} --failed` says why, "
            f"`python -m harness retry {made.name} --failed` tries again",
            highlight=False,
        )
    if made.expansion.search or not outcome.failed:  # a search goes on without the trials that failed
        _analyse(made.root, made.name)
    return outcome.exit_code


def _submit(made: "Plan", console: Console, mirrored: bool) -> int:
    from harness.sweep import slurm, slurm_rounds

    with slurm.alone(made):
        arrays = slurm.submit(made, slurm.show(made, console), mirrored)
        following = slurm_rounds.follow(made, arrays, mirrored)
    if arrays:
        console.print(f"submitted {', '.join(arrays)}; nothing here needs to stay open", highlight=False)
    if following:
        console.print(following, highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"`python -m harness status {made.name} -f` follows it, `cancel {made.name}` stops it, "
        f"`verdict {made.name}` reads what there is",
        highlight=False,
    )
    return 0


def cancel(options: argparse.Namespace) -> int:
    from harness.sweep import cancel as cancelling
    from harness.sweep import look

    name = _sweep(options.root, options.sweep)
    chosen = [look.find(options.root, run) for run in options.runs]
    for line in cancelling.runs(options.root, chosen) if chosen else cancelling.sweep(options.root, name):
        print(line)
    return 0


def retry(options: argparse.Namespace) -> int:
    from harness.sweep import cancel as cancelling
    from harness.sweep import look, search
    from harness.sweep import plan as plans

    console = Console()
    overrides = tuple(word for word in options.overrides if "=" in word)
    made = plans.make(options.sweep, overrides, options.root, _sweep(options.root, options.sweep))
    wanted = {look.find(options.root, word).id for word in options.overrides if "=" not in word}
    if not wanted and not options.failed:
        raise ValueError("retry takes runs, or --failed for all that failed; `status SWEEP --failed` lists them")
    states = ("failed",) if options.failed else ("failed", "cancelled", "pruned")
    again = [id for id, state in made.states.items() if state in states and (options.failed or id in wanted)]
    console.print(f"{cancelling.forgive(options.root, again)} runs to train again", highlight=False)
    made = search.commit(plans.of(made.expansion.spec, made.root, made.name))
    return _launch(made, console, None, not options.no_mirror)


def _analyse(root: Path, name: str) -> None:
    """The verdict and the figures of a complete sweep; a sweep is complete without them."""
    try:
        from analysis import drawn, html, savings, terminal

        judged = html.judge(root, name)  # loaded once for the terminal and the page
        print(terminal.said(judged))
        print("".join(f"{line}\n" for line in savings.lines(root, judged.sweep)), end="")
        for path in drawn.current(root, name):
            print(path)
        print(html.write(root, name, judged))
    except (ImportError, ValueError) as error:
        print(f"no verdict: {error}")


def run(options: argparse.Namespace) -> int:
    from harness.sweep import worker

    folder = options.folder if options.folder.exists() else options.root / "runs" / options.folder
    if not folder.is_dir():
        raise FileNotFoundError(f"{options.folder}: no such run folder; `python -m harness status` lists sweeps")
    state, error = worker.run_one(folder)
    print(f"{folder.name}: {state}{f': {error}' if error else ''}")
    return {"done": 0, "diverged": 0, "failed": 1, "cancelled": 1, "pruned": 1}.get(state, 130)


def work(options: argparse.Namespace) -> int:
    from harness.sweep import worker

    return worker.serve(options.root, options.sweep, options.parent, options.group, options.limit)


def status(options: argparse.Namespace) -> int:
    from harness.sweep import plan as plans
    from harness.sweep import status as showing

    names = [_sweep(options.root, given) for given in options.sweep] or plans.sweep_names(options.root)
    if not names:
        raise FileNotFoundError(f"no sweep in {options.root / 'sweeps'}; start one with `python -m harness sweep SPEC`")
    if options.json:
        print(showing.as_json(options.root, names))
    elif options.follow:
        for name in names:
            showing.follow(options.root, name, Console())
    else:
        showing.show(options.root, names, Console(), options.failed)
    return 0


def logs(options: argparse.Namespace) -> int:
    from harness.sweep import look

    look.logs(look.find(options.root, options.run), Console(), options.follow)
    return 0


def why(options: argparse.Namespace) -> int:
    from harness.sweep import look

    first, second = (look.find(options.root, name) for name in (options.first, options.second))
    look.why(first, second, Console())
    return 0


def _sweep(root: Path, given: str) -> str:
    """The name of a sweep that exists, from its name or its spec's path. Raises ValueError with the nearest."""
    from harness.sweep.plan import sweep_names
    from harness.tricks import nearest

    names = sweep_names(root)
    name = given if given in names else Path(given).stem
    if name not in names:
        have = f"there are: {', '.join(names)}" if names else "there is none yet: python -m harness sweep SPEC"
        raise ValueError(f"no sweep '{given}' in {root / 'sweeps'}{nearest(name, names)} ({have})")
    return name


def tricks(options: argparse.Namespace) -> int:
    from harness.sweep import catalog, handbook

    if options.markdown:
        print(handbook.page(), end="")
    else:
        catalog.show(options.name, Console())
    return 0


def diff(options: argparse.Namespace) -> int:
    from harness.sweep import compare
    from harness.sweep.recipes import VANILLA

    first, second = (options.first, options.second) if options.second else (VANILLA, options.first)
    compare.show(first, second, Console())
    return 0


def verdict(options: argparse.Namespace) -> int:
    name = _sweep(options.root, options.sweep)
    from analysis import outcomes, terminal
    from analysis import report as reporting

    unwanted = _outcomes(options.fail_on, outcomes.WORDS)
    judged = reporting.judge(options.root, name)
    text = reporting.as_json(judged) if options.json else terminal.said(judged, options.all)
    print(text, end="" if options.json else "\n")
    if met := outcomes.matched(judged, unwanted):
        print(f"{name}: {met}", file=sys.stderr)
    return int(bool(met))


def _outcomes(given: list[str], known: Collection[str]) -> list[str]:
    """The words of --fail-on, each once. Raises ValueError for one that no claim and no arm can have."""
    from analysis.outcomes import spoken
    from harness.tricks import nearest

    words = [spoken(word) for part in given for word in part.split(",")]
    for word in words:
        if word not in known:
            raise ValueError(f"--fail-on: no outcome '{word}'{nearest(word, known)} (there are: {', '.join(known)})")
    return list(dict.fromkeys(words))


def figures(options: argparse.Namespace) -> int:
    name = _sweep(options.root, options.sweep)
    from analysis import drawn
    from analysis import figures as drawing

    chosen = drawing.draw(options.root, name, options.names) if options.names else drawn.draw(options.root, name)
    for path in chosen:
        print(path)
    return 0


def report(options: argparse.Namespace) -> int:
    name = _sweep(options.root, options.sweep)
    from analysis import drawn, html, latex, markdown

    if options.latex:
        print(*latex.write(options.root, name), sep="\n")
        return 0
    drawn.current(options.root, name)
    print((markdown if options.md else html).write(options.root, name))
    return 0


def mirror(options: argparse.Namespace) -> int:
    name = _sweep(options.root, options.sweep)
    from harness.sweep import mirror as copying

    return copying.main(options.root, name, options.follow, options.until_eof, options.rebuild)


def doctor(options: argparse.Namespace) -> int:
    from harness.sweep import doctor as doctors

    return doctors.show(options.root, Console())


def schema(options: argparse.Namespace) -> int:
    from harness.sweep import schema as schemas

    print(schemas.text(), end="")
    return 0


def lab(options: argparse.Namespace) -> int:
    from harness.lab import build as building

    target = options.target or Path(__file__).resolve().parents[1] / "lab" / "weights"
    building.build(target, options.only)
    return 0


def data(options: argparse.Namespace) -> int:
    from harness.sweep import data_commands

    return int(getattr(data_commands, options.action)(options))
