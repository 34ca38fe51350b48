"""How hard a data set is for a policy: how many of its prompts were answered right 0, 1, ... G times out of G.

Figure 2 of arXiv:2508.08221 for any data: from a file whose rows hold the number of right responses, or from the
`counts` records of runs. Leaves out: sampling.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import store
from harness.tasks import rows
from harness.tricks import nearest

BLOCKS = " ▏▎▍▌▋▊▉█"
WIDTH = 40  # characters of a full bar


@dataclass(frozen=True)
class View:
    """`prompts[c]` prompts have c right responses of `len(prompts) - 1`."""

    name: str
    prompts: tuple[int, ...]

    @property
    def samples(self) -> int:
        return len(self.prompts) - 1

    @property
    def total(self) -> int:
        return sum(self.prompts)

    def share(self, right: int) -> float:
        return self.prompts[right] / self.total

    @property
    def pass_rate(self) -> float:
        """Mean over prompts of the share of right responses."""
        return sum(right * count for right, count in enumerate(self.prompts)) / (self.total * self.samples)

    @property
    def learnable(self) -> float:
        """Share of prompts with both right and wrong responses: the others' group advantages are 0."""
        return sum(self.prompts[1:-1]) / self.total


def of_file(path: Path, field: str = "right", samples: int = 0) -> View:
    """The pass counts in the field of a JSON-lines or Parquet file; samples 0 = the largest count there.

    Raises ValueError naming the place for a row without a count, or with more than `samples`.
    """
    counts: dict[int, int] = {}
    for place, row in rows.read(path):
        value = rows.field(place, row, field)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 0:
            raise ValueError(f"{place}: field '{field}' takes the number of right responses, not {value!r}")
        if samples and value > samples:
            raise ValueError(f"{place}: {value} right of {samples} responses")
        counts[int(value)] = counts.get(int(value), 0) + 1
    if not counts:
        raise ValueError(f"{path}: no rows")
    top = samples or max(counts)
    if not top:
        raise ValueError(f"{path}: every count is 0; say of how many with --samples")
    return View(path.name, tuple(counts.get(right, 0) for right in range(top + 1)))


def of_records(name: str, records: Iterable[dict[str, Any]], steps: int) -> View | None:
    """The sum of `groups` over the records of the first `steps` steps, which count from 0; None without any.

    A training policy changes, so early steps say most of the data and late ones of the policy.
    """
    kept = [record["groups"] for record in records if record["step"] < steps]
    if not kept:
        return None
    longest = max(map(len, kept))
    return View(name, tuple(sum(groups[i] for groups in kept if i < len(groups)) for i in range(longest)))


def of_sweep(root: Path, manifest: dict[str, Any], steps: int) -> list[View]:
    """A view per model and data set of a sweep, over the first `steps` steps of its runs.

    Raises ValueError when no run has recorded counts: it has not trained, or was trained before they were recorded.
    """
    views = []
    for run in manifest["runs"]:
        name = ", ".join(str(run["labels"][axis]) for axis in ("model", "data") if axis in run["labels"])
        records = store.Run(root / "runs" / run["run"]).read("counts")
        views.append(of_records(name or manifest["name"], records, steps))
    found = merged([view for view in views if view])
    if not found:
        raise ValueError(f"{manifest['name']}: no run has recorded pass counts")
    return found


def merged(views: Sequence[View]) -> list[View]:
    """Views of one name added up, in the order of their names' first appearance. Group sizes have to agree."""
    found: dict[tuple[str, int], tuple[int, ...]] = {}
    for view in views:
        key = view.name, view.samples
        before = found.get(key, (0,) * len(view.prompts))
        found[key] = tuple(a + b for a, b in zip(before, view.prompts, strict=True))
    return [View(name, prompts) for (name, _), prompts in found.items()]


def lines(view: View) -> list[str]:
    """A heading and one line per count: right/samples, a bar, the share, the number of prompts."""
    head = (
        f"{view.name}: {view.total} prompts, pass rate {100 * view.pass_rate:.1f} %, "
        f"both right and wrong {100 * view.learnable:.1f} %"
    )
    return [head] + [
        f"  {right:>3}/{view.samples} {bar(view.share(right)):<{WIDTH}} {100 * view.share(right):5.1f} %  {count}"
        for right, count in enumerate(view.prompts)
    ]


def bar(share: float) -> str:
    """A bar of `WIDTH` characters for 1, in eighths of a character."""
    eighths = round(8 * WIDTH * share)
    return BLOCKS[-1] * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")


def unknown(name: str, sweeps: Sequence[str]) -> FileNotFoundError:
    have = f"there are: {', '.join(sweeps)}" if sweeps else "no sweep has run here"
    return FileNotFoundError(f"'{name}' is neither a file nor a sweep{nearest(name, sweeps)} ({have})")
