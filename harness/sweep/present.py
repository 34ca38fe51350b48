"""A plan on the terminal: counts, the cells with what is done, the estimate, the answers. Leaves out: any change."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness import store
from harness.sweep import answers, columns, design, estimate, present_answers, present_cost, prune
from harness.sweep import plan as plans
from harness.sweep.plan import Plan
from harness.sweep.screen import count, line

MAX_CELLS = 30


def show(plan: Plan, console: Console, num_workers: int) -> None:
    """Prints the plan, cell by cell as `columns` has them."""
    spec, expansion = plan.expansion.spec, plan.expansion
    console.print(Text(spec.question, style="bold"), soft_wrap=True)
    if spec.source:
        console.print(Text(spec.source, style="dim"), soft_wrap=True)
    if expansion.cells:
        console.print(_cells(plan))
    if len(expansion.cells) > MAX_CELLS:
        console.print(Text(f"… and {len(expansion.cells) - MAX_CELLS} more cells", style="dim"))
    for name, labels in expansion.axis_labels().items():
        if len(expansion.cells) > MAX_CELLS:
            console.print(Text(f"  {name}: {_abbreviated(labels)}", style="dim"))
    beside = [f"{expansion.excluded} excluded"] * bool(expansion.excluded)
    beside += [f"{expansion.merged} merged as identical"] * bool(expansion.merged)
    note = f" ({', '.join(beside)})" if beside else ""
    cells, seeds = count(len(expansion.cells), "cell"), count(len(expansion.seeds), "seed")
    most = "at most " if expansion.rounds else ""
    if not expansion.search:
        line(console, f"{cells}{note} x {most}{seeds} = {count(expansion.num_runs, 'run')}")
    if spec.stop and expansion.rounds:
        line(console, expansion.rounds.said(spec.stop))
    if spec.design.search and expansion.search:
        for sentence in expansion.search.said(spec.design.search, expansion.seeds):
            line(console, sentence)
    for sentence in [*design.said(spec, expansion.num_runs), *prune.said(expansion)]:
        line(console, sentence)
    counts = plans.counts(plan)
    todo = plan.todo()
    states = [
        f"{counts[s]} {s}"
        for s in ("done", "diverged", "running", "interrupted", "failed", "cancelled", "pruned")
        if counts[s]
    ]
    coming = len(estimate.to_come(expansion))
    line(console, ", ".join([*states, f"{len(todo)} to do", *([f"{coming} to come"] if coming else [])]))
    if counts["failed"] + counts["cancelled"] + counts["pruned"]:
        line(console, f"failed, cancelled and pruned runs stay as they are; `retry {plan.name}` trains them on")
    rate = estimate.rates(plan)
    present_cost.show(estimate.of(plan, num_workers, rate), console)
    if found := answers.of(plan, rate):
        present_answers.show(found, spec, console)
    cells_of = expansion.cells or expansion.probes
    named = {cell.identity.model.path for cell in cells_of if cell.identity.model.content.startswith("hub:")}
    if named:
        names = ", ".join(f"'{name}'" for name in sorted(named))
        line(console, f"model.path: {names} is no folder here and taken as a name on the model hub")
    if expansion.missing_data:
        text = f"warning: these data files are not there, so `sweep` is refused: {', '.join(expansion.missing_data)}"
        console.print(text, style="yellow", highlight=False, markup=False, soft_wrap=True)
    line(console, f"sweep '{plan.name}' in {plan.folder}")


def round(plan: Plan, console: Console) -> None:
    """The line with which a further round begins, of a sweep that stops when decided or of a search."""
    spec, rounds, search = plan.expansion.spec, plan.expansion.rounds, plan.expansion.search
    if spec.stop and rounds:
        line(console, f"{rounds.said(spec.stop)}; {count(len(plan.todo()), 'run')} to do")
    if spec.design.search and search:
        line(console, f"{search.progress(spec.design.search)}; {count(len(plan.todo()), 'run')} to do")


def _cells(plan: Plan) -> Table:
    axes, baseline = list(plan.expansion.axis_labels()), plan.expansion.spec.baseline
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns.names(axes, baseline):
        table.add_column(name)
    table.add_column("cell", style="dim")
    table.add_column("done", justify="right")
    table.add_column("")
    for cell in plan.expansion.cells[:MAX_CELLS]:
        states = [plan.states[f"{cell.id}-s{seed}"] for seed in plan.expansion.seeds_of(cell)]
        done = sum(state in store.FINISHED for state in states)
        other = sorted({state for state in states if state not in (*store.FINISHED, "new")})
        table.add_row(*columns.cells(cell.labels, axes, baseline), cell.id, f"{done}/{len(states)}", ", ".join(other))
    return table


def _abbreviated(labels: list[str]) -> str:
    return ", ".join(labels) if len(labels) <= 8 else f"{', '.join(labels[:4])}, … {labels[-1]} ({len(labels)})"
