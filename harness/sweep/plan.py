"""What is missing: the runs that a spec asks for, beside what the store holds. Plan first, then commit.

`commit` writes sweeps/<name>/manifest.json and the folders of the runs that are going to be trained; nothing
before it touches the disk. Leaves out: training (`launch.py`), the live table (`status.py`).
"""

import functools
import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import store
from harness.config import Launcher, Runtime
from harness.sweep import design, prune, rounds, search, stop, trials
from harness.sweep import spec as specs
from harness.sweep.expand import expand
from harness.sweep.grid import Expansion, Run
from harness.sweep.keys import CLAIMS, REPOSITORY
from harness.sweep.yaml12 import Problem, SpecError
from harness.tricks import nearest

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)  # one folder below sweeps/, on every file system
_BESIDE_RUNS = ("scale=", "runtime.", "launcher=", "launcher.", "hardware=", "hardware.")  # words that change no run


@dataclass(frozen=True)
class Needs:
    """What one run asks of a machine; runs with like needs share workers and tasks. `cpus` 0: a thread each."""

    gpus: int
    cpus: int
    mem_gb: float | None
    threads: int

    @staticmethod
    def of(runtime: Runtime) -> "Needs":
        return Needs(runtime.gpus, runtime.cpus, runtime.mem_gb, runtime.threads)

    @functools.cached_property
    def group(self) -> str:
        """A short name that stays the same however the sweep grows."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:6]


@dataclass(frozen=True)
class Plan:
    """A sweep as it is asked for, and the state of each of its runs. `root` holds runs/ and sweeps/."""

    name: str
    root: Path
    expansion: Expansion
    states: dict[str, store.State]

    @property
    def folder(self) -> Path:
        return self.root / "sweeps" / self.name

    @property
    def launcher(self) -> Launcher:
        return (self.expansion.cells or self.expansion.probes)[0].launcher

    def todo(self) -> list[Run]:
        """What a sweep would train: all runs without an end; failed, cancelled and pruned ones have one."""
        return self._todo

    @functools.cached_property
    def _todo(self) -> list[Run]:
        return [run for run in self.expansion.runs() if self.states[run.id] not in store.ENDED]


def make(argument: str, overrides: tuple[str, ...], root: Path, name: str = "") -> Plan:
    """The plan of a spec's path or a sweep's name. Raises SpecError with every fault."""
    path, stored = find_spec(argument, root)
    return of(specs.read(path, tuple(dict.fromkeys(stored + overrides))), root, name)


def of(spec: specs.Spec, root: Path, name: str = "") -> Plan:
    name = name or sweep_name(spec)
    if not _NAME.fullmatch(name):
        cure = (
            "a sweep is named by letters, digits, _ - and dots, a letter or digit first, at most 100; give --name NAME"
        )
        raise SpecError(None, [Problem(f"'{name}' cannot name a sweep: {cure}")])
    expansion = expand(spec)
    every = expansion.cells or expansion.probes
    if any(cell.launcher != every[0].launcher for cell in every):
        raise SpecError(
            spec.document, [Problem("launcher: one answer for the whole sweep; set it in no axis or `set`")]
        )
    expansion = search.settled(rounds.settled(expansion, root, name), root, name)
    return Plan(name, root, expansion, scan(root, (run.id for run in expansion.runs())))


def with_expansion(plan: Plan, expansion: Expansion) -> Plan:
    """The same sweep with other cells, in the states that their runs have."""
    return Plan(plan.name, plan.root, expansion, scan(plan.root, (run.id for run in expansion.runs())))


def find_spec(argument: str, root: Path) -> tuple[Path, tuple[str, ...]]:
    """(spec file, overrides) of a path, of a sweep's name, or of a name in grid_specs/."""
    if Path(argument).is_file():
        return Path(argument), ()
    if argument in sweep_names(root):
        manifest = store.read_json(root / "sweeps" / argument / "manifest.json")
        if not Path(manifest["spec"]).is_file():
            raise SpecError(None, [Problem(f"sweep '{argument}' was made from {manifest['spec']}, which is not here")])
        return Path(manifest["spec"]), tuple(manifest["overrides"])
    folders = [Path("grid_specs"), REPOSITORY / "grid_specs"]
    for folder in folders:
        if (file := folder / f"{argument}.yaml").is_file():
            return file, ()
    files = {file.stem for folder in folders for file in folder.glob("*.yaml") if file.name != CLAIMS.name}
    have = sorted(files | set(sweep_names(root)))
    close = nearest(Path(argument).stem, have)
    raise SpecError(None, [Problem(f"{argument}: no such spec file or sweep{close} (there are: {', '.join(have)})")])


def sweep_names(root: Path) -> list[str]:
    return sorted(path.parent.name for path in (root / "sweeps").glob("*/manifest.json"))


def sweep_name(spec: specs.Spec) -> str:
    """The spec file's stem, the scale unless it is mini, and six hex digits when overrides change the runs."""
    words = sorted(w for w in spec.overrides if not w.startswith(_BESIDE_RUNS))
    parts = [Path(spec.path).stem] + ([spec.scale] if spec.scale != "mini" else [])
    if words:
        parts.append(hashlib.sha256("\n".join(words).encode()).hexdigest()[:6])
    return "-".join(parts)


def scan(root: Path, ids: Iterable[str]) -> dict[str, store.State]:
    """run id -> state. Only folders that exist are opened."""
    try:
        present = set(os.listdir(root / "runs"))
    except OSError:
        present = set()
    return {id: store.Run(root / "runs" / id).state() if id in present else "new" for id in ids}


def commit(plan: Plan) -> list[Run]:
    """Writes the manifest and the folders of all runs to train, which it returns.

    Raises SpecError where data files are missing, the name belongs to another spec, or the folder cannot be written.
    """
    check(plan)
    todo, before = plan.todo(), store.read_json(plan.folder / "manifest.json")
    begun = before.get("begun", 0.0) if before else time.time()  # runs that ended before it were another sweep's
    try:
        told = manifest(plan) | {"begun": begun}
        text = json.dumps(told, ensure_ascii=False, allow_nan=False)  # keeps the axes in the spec's order
        store.write_atomic(plan.folder / "manifest.json", text)
        for run in sorted(todo, key=lambda run: run.cell.id):  # seeds of a cell together: they share a text
            store.create_run(plan.root, run.config)
    except OSError as error:
        raise _unwritable(plan, error) from None
    return todo


def check(plan: Plan) -> None:
    """Raises SpecError where a sweep cannot be committed, and makes its folder."""
    if plan.expansion.missing_data:
        raise SpecError(
            None,
            [
                Problem(f"data.path: no file '{path}'; give a JSON-lines file with data.path=FILE, or put it there")
                for path in plan.expansion.missing_data
            ],
        )
    _refuse_foreign_name(plan)
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(plan, error) from None


def _unwritable(plan: Plan, error: OSError) -> SpecError:
    where, reason = error.filename or plan.root, error.strerror or error
    return SpecError(None, [Problem(f"{where}: cannot be written ({reason}); give a folder with --root DIR")])


def _refuse_foreign_name(plan: Plan) -> None:
    owner = store.read_json(plan.folder / "manifest.json").get("spec", "")
    mine = plan.expansion.spec.path
    if owner and Path(owner).is_file() and Path(owner).resolve() != Path(mine).resolve():
        raise SpecError(
            None, [Problem(f"sweep '{plan.name}' belongs to {owner}; give this one a name with --name NAME")]
        )


def manifest(plan: Plan) -> dict[str, Any]:
    """What workers, analysis and the mirror need: the labels of every run, whatever their state."""
    spec, expansion = plan.expansion.spec, plan.expansion
    compared = spec.design.within if spec.design.search else expansion.axis_labels()
    needs = {cell.id: Needs.of(cell.runtime) for cell in expansion.cells}
    return {
        "name": plan.name,
        "question": spec.question,
        "source": spec.source,
        "spec": spec.path,
        "overrides": list(spec.overrides),
        "scale": spec.scale,
        "axes": {axis: labels for axis, labels in expansion.axis_labels().items() if axis in compared},
        "keys": {axis.name: axis.key for axis in spec.axes if axis.name in compared},
        "baseline": spec.baseline,
        "design": design.described(spec),
        "seeds": list(expansion.seeds),
        "claims": list(spec.claims),
        "figures": list(spec.figures),
        "endpoint": {
            "metric": spec.endpoint.metric,
            "last": spec.endpoint.last,
            "goal": spec.endpoint.goal,
            "margin": spec.endpoint.margin,
        },
        "control": list(spec.control),
        "launcher": plan.launcher.kind,
        "groups": {need.group: asdict(need) for need in set(needs.values())},
        "runs": [
            {
                "run": run.id,
                "cell": run.cell.id,
                "seed": run.seed,
                "labels": run.labels,
                "group": needs[run.cell.id].group,
            }
            | ({"trial": True} if run.cell.trial else {})
            for run in expansion.runs()
        ],
        "aliases": [{"cell": cell, "labels": labels} for cell, labels in expansion.aliases],
    } | (stop.described(spec, expansion.rounds) | prune.described(spec) | trials.described(spec, expansion.search))


def workers(plan: Plan, asked: int | None = None) -> int:
    """How many runs are trained at a time, never more than are left: as asked, else launcher.workers, else what there
    is room for: one per core, on GPUs as many as the visible ones hold, under Slurm the tasks of each group of runs.
    """
    launcher, search, most = plan.launcher, plan.expansion.spec.design.search, len(plan.todo())
    waiting = [run.cell for run in plan.todo()] or plan.expansion.probes
    if search and plan.expansion.search:  # whose next round has no cells yet
        most = most or len(plan.expansion.search.studies) * search.at_once * len(search.seeds)
    gpus = max((cell.runtime.gpus for cell in waiting), default=0)
    if launcher.kind == "slurm":
        number = sum(slurm_workers(launcher, needs) for needs in {Needs.of(cell.runtime) for cell in waiting})
    elif gpus:
        from harness.sweep import pool

        visible = pool.visible_gpus()
        number = asked or launcher.workers
        if len(visible) >= gpus:  # else nothing can be started here, and this is only to be looked at
            number = len(pool.slots(number, gpus, launcher.workers_per_gpu, visible))
    else:
        number = asked or launcher.workers or len(os.sched_getaffinity(0))
    return max(1, min(number, most))


def slurm_workers(launcher: Launcher, needs: Needs) -> int:
    """Runs of one group that all tasks at a time train together."""
    return launcher.max_concurrent * task_workers(launcher, needs)


def task_workers(launcher: Launcher, needs: Needs) -> int:
    """Worker processes of one Slurm task; a run on several GPUs has a task for itself."""
    if needs.gpus > 1:
        return 1
    return launcher.workers_per_gpu if needs.gpus else max(1, launcher.workers)


def counts(plan: Plan) -> Counter[str]:
    """Runs by state, `stale` and `stopped` as `interrupted`."""
    named = {"stale": "interrupted", "stopped": "interrupted"}
    return Counter(named.get(state, state) for state in plan.states.values())
