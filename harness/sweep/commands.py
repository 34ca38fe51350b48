"""What each command of the command line does, in a few lines; everything heavy is imported where it is used."""

import argparse
from pathlib import Path

from rich.console import Console


def plan(options: argparse.Namespace) -> int:
    from harness.sweep import plan as plans
    from harness.sweep import present

    made = plans.make(options.spec, tuple(options.overrides), options.root, options.name)
    present.show(made, Console(), plans.workers(made, options.workers), options.retry)
    return 0


def sweep(options: argparse.Namespace) -> int:
    if options.dry_run:
        return plan(options)
    from harness.sweep import launch, mirroring, present, status
    from harness.sweep import plan as plans

    console = Console()
    made = plans.make(options.spec, tuple(options.overrides), options.root, options.name)
    size = plans.workers(made, options.workers)
    present.show(made, console, size, options.retry)
    todo = plans.commit(made, options.retry)
    mirrored = mirroring.beside(options.root, made.name, console, not options.no_mirror, bool(todo))
    with mirrored, status.display(plans.manifest(made), console, bool(todo)) as display:
        outcome = launch.sweep(made, size, display)
    if outcome.interrupted:
        console.print(f"stopped; to go on from the checkpoints: python -m harness sweep {made.name}", highlight=False)
    elif outcome.failed:
        console.print(
            f"{len(outcome.failed)} runs failed: `python -m harness status {made.name} --failed` says why, "
            "`sweep --retry` tries again",
            highlight=False,
        )
    else:
        _analyse(options.root, made.name)
    return outcome.exit_code


def _analyse(root: Path, name: str) -> None:
    """The verdict and the figures of a complete sweep; a sweep is complete without them."""
    try:
        from analysis import figures as drawing
        from analysis import report as reporting

        print(reporting.verdict(root, name))
        for path in drawing.draw(root, name):
            print(path)
    except (ImportError, ValueError) as error:
        print(f"no verdict: {error}")


def run(options: argparse.Namespace) -> int:
    from harness.sweep import worker

    folder = options.folder if options.folder.exists() else options.root / "runs" / options.folder
    if not folder.is_dir():
        raise FileNotFoundError(f"{options.folder}: no such run folder; `python -m harness status` lists sweeps")
    state, error = worker.run_one(folder)
    print(f"{folder.name}: {state}{f': {error}' if error else ''}")
    return {"done": 0, "diverged": 0, "failed": 1}.get(state, 130)


def work(options: argparse.Namespace) -> int:
    from harness.sweep import worker

    return worker.serve(options.root, options.sweep, options.parent)


def status(options: argparse.Namespace) -> int:
    from harness.sweep import plan as plans
    from harness.sweep import status as showing

    names = [_sweep(options.root, given) for given in options.sweep] or plans.sweep_names(options.root)
    if not names:
        raise FileNotFoundError(f"no sweep in {options.root / 'sweeps'}; start one with `python -m harness sweep SPEC`")
    if options.json:
        print(showing.as_json(options.root, names))
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
    from analysis import report as reporting

    print(reporting.verdict(options.root, name))
    return 0


def figures(options: argparse.Namespace) -> int:
    name = _sweep(options.root, options.sweep)
    from analysis import figures as drawing

    for path in drawing.draw(options.root, name):
        print(path)
    return 0


def report(options: argparse.Namespace) -> int:
    name = _sweep(options.root, options.sweep)
    from analysis import report as reporting

    print(reporting.markdown(options.root, name))
    return 0


def mirror(options: argparse.Namespace) -> int:
    name = _sweep(options.root, options.sweep)
    from harness.sweep import mirror as copying

    return copying.main(options.root, name, options.follow, options.until_eof)


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
