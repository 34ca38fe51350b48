"""A plan's cost on the terminal: hours in all, and of each kind of run its hours, disk and memory with their parts."""

from collections import Counter, defaultdict
from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.sweep import cost, cost_memory, estimate
from harness.sweep.cost_memory import GIB
from harness.sweep.estimate import Estimate
from harness.sweep.screen import count, line
from harness.sweep.work import Work

MAX_KINDS = 12  # shown; the rest counts in the total

_UNKNOWN = (
    "nothing tells the hours of {runs} yet: set runtime.minutes_per_run, or let them be computed: runs on GPUs "
    "(runtime.gpus) of a model folder, or of a name in experiments/shapes.yaml"
)


def show(guess: Estimate, console: Console) -> None:
    """Nothing but one line where no run uses a GPU."""
    if guess.cpu_hours:
        line(console, _total(guess))
    if unknown := guess.sources["unknown"]:
        line(console, _UNKNOWN.format(runs=count(unknown, "run")), "yellow")
    kinds = sorted(guess.kinds, key=lambda work: cost.seconds(work).total * work.gpus)
    if not kinds:
        return
    shown = {work: guess.kinds[work] for work in kinds[:MAX_KINDS]}
    console.print(_table(shown))
    if len(kinds) > MAX_KINDS:
        line(console, f"… and {len(kinds) - MAX_KINDS} more kinds of runs", "dim")
    for what, parts in (("hours", _hours_parts), ("memory", _memory_parts)):
        for text, names in _alike(shown, parts).items():
            console.print(Text(f"{what} of {names}: {text}", style="dim"))
    for work in kinds:
        if not cost_memory.memory(work).fits:
            line(console, estimate.misfit(work, guess.kinds[work]), "bold red")


def _total(guess: Estimate) -> str:
    spent = f"{guess.gpu_hours:,.0f} GPU-hours" if guess.gpu_hours else f"{_hours(guess.cpu_hours)} of CPU"
    if guess.measured:
        source = f"{guess.measured:.0%} of it measured"
    elif guess.sources["computed"]:
        source = f"computed for {', '.join(sorted({work.hardware.gpu for work in guess.kinds}))}, docs/cost.md"
    else:
        source = "from runtime.minutes_per_run"
    disk = f", {_bytes(guess.disk)} of disk" if guess.disk else ""
    return f"about {spent}, {_hours(guess.wall_hours)} with {count(guess.workers, 'worker')}{disk} ({source})"


def _table(kinds: dict[Work, Counter[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("computed for one of", overflow="fold")
    for name in ("runs", "GPUs", "hours", "disk", "GiB a GPU"):
        table.add_column(name, justify="right")
    table.add_column("")
    for work, models in kinds.items():
        memory = cost_memory.memory(work)
        table.add_row(
            _label(work, kinds),
            str(models.total()),
            str(work.gpus),
            f"{cost.seconds(work).total / 3600:.1f}",
            _bytes(cost.disk(work).total),
            f"{memory.peak / GIB:.1f}",
            Text("fits", style="green") if memory.fits else Text("too large", style="bold red"),
        )
    return table


def _label(work: Work, kinds: dict[Work, Counter[str]]) -> str:
    """The models, and what sets this kind apart from the others of them."""
    told = {
        "max_new_tokens": f"{work.max_new_tokens} tokens",
        "rows": f"{work.rows} rows",
        "steps": f"{work.steps} steps",
        "updates": f"{work.updates} updates",
        "engine": work.engine,
        "critic": "critic" * work.critic,
        "reference": "reference" * work.reference,
        "refilled": "refilled" * work.refilled,
        "lora_rank": f"LoRA {work.lora_rank}" if work.lora_rank else "",
        "hardware": work.hardware.gpu,
    }
    beside = [other for other in kinds if kinds[other].keys() & kinds[work].keys()]
    apart = [text for name, text in told.items() if text and len({getattr(other, name) for other in beside}) > 1]
    return ", ".join([*kinds[work], *apart])


def _alike(kinds: dict[Work, Counter[str]], parts: Callable[[Work], str]) -> dict[str, str]:
    """text -> the labels of the kinds that have it."""
    found: dict[str, list[str]] = defaultdict(list)
    for work in kinds:
        found[parts(work)].append(_label(work, kinds))
    return {text: "; ".join(labels[:3] + ["…"] * (len(labels) > 3)) for text, labels in found.items()}


def _hours_parts(work: Work) -> str:
    time = cost.seconds(work)
    parts = {name: getattr(time, name) / 3600 for name in ("generate", "update", "score", "evaluate", "other")}
    return ", ".join(f"{name} {hours:.1f}" for name, hours in parts.items())


def _memory_parts(work: Work) -> str:
    memory = cost_memory.memory(work)

    def sizes(parts: dict[str, float]) -> str:
        return ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items() if size)

    return (
        f"{sizes(memory.resident)}, reserved {memory.reserved / GIB:.1f}; updating {sizes(memory.update)}; "
        f"generating {sizes(memory.generate)} (room for {max(0.0, memory.responses):.0f} longest responses); "
        f"at most {memory.peak / GIB:.1f} of {memory.available / GIB:.1f} GiB"
    )


def _bytes(size: float) -> str:
    return (
        f"{size / 1e12:.1f} TB" if size >= 1e12 else f"{size / 1e9:.0f} GB" if size >= 1e10 else f"{size / 1e9:.1f} GB"
    )


def _hours(hours: float) -> str:
    if hours < 1 / 30:
        return f"{hours * 3600:.0f} s"
    if hours > 72:
        return f"{hours:.0f} h ({hours / 24:.1f} days)"
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.1f} h"
