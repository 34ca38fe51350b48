"""Arguments and dispatch of `python -m harness`. Errors for people go to stderr without a traceback, exit status 2.

Exit status: 0 all done, 1 some runs failed or an outcome of --fail-on was met, 2 bad input, 130 interrupted. Leaves
out: the work (`commands.py`).
"""

import argparse
import os
import sys
from pathlib import Path

_EPILOG = """\
values: YAML 1.2, several as [a,b]. A sweep's name may stand for its spec.
  python -m harness plan  grid_specs/clip_higher.yaml
  python -m harness sweep grid_specs/clip_higher.yaml seeds=5 model=[small_base,small_aligned] train.steps=20
exit status: 0 all done, 1 some runs failed or --fail-on met, 2 bad input, 130 interrupted"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m harness",
        description="Tells which reinforcement-learning trick is a trick and which is a trap.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root = os.environ.get("HARNESS_ROOT", ".")
    top.add_argument("--root", type=Path, default=Path(root), metavar="DIR", help="where runs/ and sweeps/ live (.)")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, help: str | None) -> argparse.ArgumentParser:
        given = {"help": help} if help else {}
        sub = commands.add_parser(name, description=help, **given)  # type: ignore[arg-type]
        sub.add_argument("--root", type=Path, default=argparse.SUPPRESS, metavar="DIR", help=argparse.SUPPRESS)
        return sub

    for name, text in (
        ("plan", "show what a spec asks for, what is done and what is missing; changes nothing"),
        ("sweep", "train all that is missing, then print the verdict and draw the figures"),
    ):
        sub = command(name, text)
        sub.add_argument("spec", help="a grid spec, or the name of a sweep")
        sub.add_argument(
            "overrides", nargs="*", metavar="key=value", help="seeds=5, scale=paper, an axis, a config key"
        )
        sub.add_argument("--name", default="", help="the sweep's name (the spec file's stem)")
        sub.add_argument("--workers", type=int, metavar="N", help="worker processes on this machine (one per core)")
        if name == "sweep":
            sub.add_argument("--dry-run", action="store_true", help="the same as plan, and what Slurm would be given")
            sub.add_argument("--prune", action="store_true", help="cancel unfinished runs that have left the spec")
            sub.add_argument(
                "--force", action="store_true", help="also what does not fit into a GPU's memory by the plan"
            )
            sub.add_argument("--no-mirror", action="store_true", help="do not copy to MLflow")
    sub = command("run", "train one run from its folder, resuming where it stopped")
    sub.add_argument("folder", type=Path, help="runs/<id>")
    sub = command("status", "where sweeps stand")
    sub.add_argument("sweep", nargs="*", help="specs or sweep names (all sweeps)")
    sub.add_argument("--failed", action="store_true", help="only failed runs, with their last error line")
    sub.add_argument("-f", "--follow", action="store_true", help="go on until every run has ended")
    sub.add_argument("--json", action="store_true", help="every run's labels and status as JSON")
    sub = command("cancel", "stop a sweep, or single runs of it for good; each saves a checkpoint first")
    sub.add_argument("sweep", help="a spec or a sweep's name")
    sub.add_argument("runs", nargs="*", help="runs/<id>, or the beginnings of ids")
    sub = command("retry", "train failed, cancelled or pruned runs again, where the sweep ran before")
    sub.add_argument("sweep", help="a spec or a sweep's name")
    sub.add_argument("overrides", nargs="*", metavar="run | key=value", help="runs/<id>, beginnings of ids, settings")
    sub.add_argument("--failed", action="store_true", help="all failed runs")
    sub.add_argument("--no-mirror", action="store_true", help="do not copy to MLflow")
    sub = command("logs", "one run, step by step, and how it stands")
    sub.add_argument("run", help="runs/<id>, or the beginning of an id")
    sub.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")
    sub = command("why", "in which keys two runs differ")
    sub.add_argument("first", help="runs/<id>, or the beginning of an id")
    sub.add_argument("second")
    sub = command("tricks", "every trick: slot, formula, knobs, source, recipes that use it")
    which = sub.add_mutually_exclusive_group()
    which.add_argument("name", nargs="?", help="one trick or slot, in full")
    which.add_argument("--markdown", action="store_true", help="tricks and recipes as the page docs/tricks.md")
    sub = command("diff", "what differs between two recipes")
    sub.add_argument("first", metavar="A", help="a recipe; alone it is compared with vanilla")
    sub.add_argument("second", metavar="B", nargs="?", help="another recipe")
    sub = command("verdict", "what the evidence says of a sweep's arms and of the source's claims")
    sub.add_argument("sweep", help="a spec, or a sweep's name")
    shape = sub.add_mutually_exclusive_group()
    shape.add_argument("--all", action="store_true", help="whole curves and entropy of every arm axis as well")
    shape.add_argument("--json", action="store_true", help="all contrasts and claims as JSON, and nothing else")
    sub.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="OUTCOME",
        help="exit 1 if a claim (contradicted, undecided, ...) or an arm (trap, inconclusive, ...) has this outcome; "
        "several with commas, or again",
    )
    sub = command("figures", "draw a sweep's figures and the tables behind them")
    sub.add_argument("sweep", help="a spec, or a sweep's name")
    sub.add_argument("names", nargs="*", metavar="FIGURE", help="only these, such as accuracy_by_model or effects")
    sub = command("report", "write a sweep's report: one HTML file that opens offline")
    sub.add_argument("sweep", help="a spec, or a sweep's name")
    shape = sub.add_mutually_exclusive_group()
    shape.add_argument("--md", action="store_true", help="Markdown with figures instead")
    shape.add_argument("--latex", action="store_true", help="tables for a paper instead, one file each")
    sub = command("mirror", "copy a sweep's records to MLflow")
    sub.add_argument("sweep")
    sub.add_argument("--follow", action="store_true", help="go on until stopped")
    sub.add_argument("--rebuild", action="store_true", help="forget how far it got and send all; doubles nothing")
    sub.add_argument("--until-eof", action="store_true", help=argparse.SUPPRESS)
    command("doctor", "is everything here that a sweep needs?")
    command("schema", "print the JSON Schema of grid specs, for editors")
    sub = command("lab", "the miniature laboratory")
    actions = sub.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="make the miniature models from scratch")
    build.add_argument("--only", nargs="*", metavar="ROLE", help="only these models")
    build.add_argument("--target", type=Path, metavar="DIR", help="where to (harness/lab/weights)")
    sub = command("data", "make the paper's data files; show how hard a data set is")
    actions = sub.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare = actions.add_parser("prepare", help="training and evaluation sets as the paper has them, with a manifest")
    prepare.add_argument("--scale", choices=["paper"], default="paper", help="whose data (paper)")
    prepare.add_argument("--source", action="append", default=[], metavar="ROLE=FILE", help="a file or a hub id")
    prepare.add_argument("--without", action="append", default=[], metavar="ROLE", help="leave a set out")
    prepare.add_argument("--only", action="append", default=[], metavar="ROLE", help="make this set and no other")
    prepare.add_argument("--out", type=Path, metavar="DIR", help="where to (data/paper)")
    prepare.add_argument("--seed", type=int, default=0, help="of the draws (0)")
    difficulty = actions.add_parser("difficulty", help="prompts by how many of their responses were right")
    difficulty.add_argument("files", nargs="+", metavar="FILE | SWEEP", help="rows with a count, or a sweep's name")
    difficulty.add_argument("--field", default="right", help="the field with the number of right responses (right)")
    difficulty.add_argument("--samples", type=int, default=0, help="responses of each prompt (the largest count)")
    difficulty.add_argument("--steps", type=int, default=10, help="first steps of a sweep's runs that count (10)")
    sub = command("work", None)  # what the pool starts; not for people
    sub.add_argument("sweep")
    sub.add_argument("--parent", type=int)
    sub.add_argument("--group", default="")
    sub.add_argument("--limit", type=int, default=0)
    return top


def main(arguments: list[str]) -> int:
    """Runs one command; its exit status."""
    top = parser()
    options, rest = top.parse_known_args(arguments)
    words = getattr(options, "overrides", None)
    if words is not None and not any(word.startswith("-") for word in rest):
        words += rest  # argparse takes no second group of words after an option
    elif rest:
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    from harness.sweep import commands
    from harness.sweep.yaml12 import SpecError

    try:
        return int(getattr(commands, options.command)(options))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # `| head` has seen enough
        return 0
    except SpecError as error:
        print(error, file=sys.stderr)
        return 2
    except (ValueError, RuntimeError, OSError) as error:
        if os.environ.get("HARNESS_TRACEBACK"):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2
