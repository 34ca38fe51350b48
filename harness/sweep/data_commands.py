"""The two actions of `python -m harness data`: make the paper's files, show how hard a data set is."""

import argparse
from pathlib import Path


def prepare(options: argparse.Namespace) -> int:
    from harness.data import prepare as preparing

    out = options.out or Path("data") / options.scale
    made = preparing.prepare(out, options.source, options.without, options.seed, only=options.only)
    print(*preparing.lines(made), f"wrote {out / 'manifest.json'}", sep="\n")
    return 0


def difficulty(options: argparse.Namespace) -> int:
    from analysis.load import read_manifest
    from harness.data import difficulty as difficulties
    from harness.sweep.plan import sweep_names

    names = sweep_names(options.root)
    for given in options.files:
        if Path(given).is_file():
            views = [difficulties.of_file(Path(given), options.field, options.samples)]
        elif given in names:
            views = difficulties.of_sweep(options.root, read_manifest(options.root, given), options.steps)
        else:
            raise difficulties.unknown(given, names)
        for view in views:
            print(*difficulties.lines(view), sep="\n")
    return 0
