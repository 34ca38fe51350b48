"""Single tokens: how sure they were, which were clipped, how many responses were right, and a few responses whole.

Read from the runs' `counts` (a line per training step) and `samples` (a line per evaluation step); sums over steps are
exact. A run without such records is left out of what is returned, never counted as zero. Leaves out: drawing
(`plot_tokens.py`, `plot_text.py`).
"""

import functools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from analysis import records
from analysis.load import Sweep
from harness.store import Run

if TYPE_CHECKING:
    import pandas as pd

# The intervals of predicted probability of the source paper's figures 9 and 20.
INTERVALS = ("0–.3", ".3–.6", ".6–.85", ".85–.95", ".95–.99", ".99–1")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that join or turn steps of reasoning, after the paper's examples ("therefore", "if", "but"; figure 10), and the
# discourse markers of the miniature models (harness/lab/vocabulary.py).
CONNECTIVES = _words(
    """therefore thus so hence if then but since because although though unless while when whereas wait however now next
    first second third finally also alternatively instead otherwise moreover furthermore consequently similarly again
    let suppose assume given actually hmm check done"""
)
# Articles, copulas, prepositions and punctuation, after the paper's examples ("is", "the", ","). In arithmetic prose,
# and in that of the miniature models, "gives", "makes" and "equals" do the work of "is". "a" is left out, for it is as
# often a variable (in the miniature models the first operation).
FUNCTION_WORDS = _words(
    """is are was were be been the an of in to and or for with on at by from as that this these those it its we which
    has have can will gives makes equals , . : ; ( )"""
)
MARKS = "Ġ▁ \t"  # what tokenizers put for the space before a word

Side = Literal["high", "low"]


@dataclass(frozen=True)
class Totals:
    """One run's counts, summed over its recorded steps."""

    probability: list[int]  # sampled tokens by interval
    high: Counter[str]  # clipped above: the 50 most frequent tokens of each step
    high_total: int  # all tokens clipped above
    low: Counter[str]
    low_total: int


@dataclass(frozen=True)
class Response:
    """One recorded response. `clipped` is 1 above, -1 below, 0 not, in any update; empty where it is not recorded."""

    step: int
    prompt: str
    text: str
    reward: float
    tokens: list[str]
    clipped: list[int]


def totals(run: Path) -> Totals | None:
    """None where the run has no counts. Read once as long as its files stay as they are."""
    there = [(entry.name, entry.stat()) for entry in records.files(run, "counts")]
    return _totals(run, tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in there))


@functools.lru_cache(maxsize=4096)
def _totals(run: Path, files: tuple[tuple[str, int, int], ...]) -> Totals | None:
    lines = Run(run).read("counts")
    if not lines:
        return None
    sides: dict[str, Counter[str]] = {"high": Counter(), "low": Counter()}
    for side, counted in sides.items():
        for line in lines:
            counted.update(line[side])
    return Totals(
        probability=[sum(line["probability"][i] for line in lines) for i in range(len(INTERVALS))],
        high=sides["high"],
        high_total=sum(line["high_total"] for line in lines),
        low=sides["low"],
        low_total=sum(line["low_total"] for line in lines),
    )


def all_totals(sweep: Sweep, runs: Iterable[str]) -> dict[str, Totals]:
    """run id -> totals, of the runs that have counts and were not pruned."""
    pruned = {entry.run for entry in sweep.pruned}
    found = {run: totals(folder(sweep) / run) for run in dict.fromkeys(runs) if run not in pruned}
    return {run: total for run, total in found.items() if total}


def groups(sweep: Sweep, runs: Iterable[str], first: int) -> dict[str, list[int]]:
    """run id -> prompts of the steps before `first`, by number of right responses 0 … G."""
    found = {}
    for run in dict.fromkeys(runs):
        lines = [line["groups"] for line in Run(folder(sweep) / run).read("counts") if line["step"] < first]
        if lines:
            found[run] = [sum(column) for column in zip(*lines, strict=True)]
    return found


def responses(run: Path) -> list[Response]:
    """Every recorded response of a run, in the order of the steps."""
    return [_response(line, sample) for line in Run(run).read("samples") for sample in line["samples"]]


def _response(line: dict[str, Any], sample: dict[str, Any]) -> Response:
    tokens = sample.get("tokens") or []
    clipped = sample.get("clipped") or []
    marked = clipped if len(clipped) == len(tokens) else []
    return Response(line["step"], line["prompt"], sample["text"], sample["reward"], tokens, marked)


def folder(sweep: Sweep) -> Path:
    return sweep.folder.parents[1] / "runs"


# -- tidy ----------------------------------------------------------------------------------------------------------


def probability_table(totals_by_run: dict[str, Totals], seeds: dict[str, int]) -> "pd.DataFrame":
    """seed ("all" for the pooled row), interval, tokens, share (%), of one arm in one stratum.

    Pooled: Σ tokens of the interval / Σ tokens, over all runs and steps; a longer run weighs more.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    pooled = [sum(t.probability[i] for t in totals_by_run.values()) for i in range(len(INTERVALS))]
    every = [("all", pooled), *((str(seeds[run]), t.probability) for run, t in totals_by_run.items())]
    for seed, counted in every if totals_by_run else ():
        sampled = sum(counted)
        for interval, number in zip(INTERVALS, counted, strict=True):
            share = 100 * number / sampled if sampled else math.nan
            rows.append({"seed": seed, "interval": interval, "tokens": number, "share": share})
    return pd.DataFrame(rows)


def clipped_table(totals_by_run: Iterable[Totals], most: int, side: Side = "high") -> "pd.DataFrame":
    """rank, token, kind, count, share (% of all clipped on that side), per_10k (of sampled tokens); the `most` first.

    Runs are summed. A token that is not among a step's 50 most clipped is not counted in that step.
    """
    import pandas as pd

    every = list(totals_by_run)
    counted: Counter[str] = sum((getattr(t, side) for t in every), Counter())
    clipped, sampled = sum(getattr(t, f"{side}_total") for t in every), sum(sum(t.probability) for t in every)
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:most]
    return pd.DataFrame(
        [
            {
                "rank": rank,
                "token": token,
                "kind": kind(token),
                "count": count,
                "share": 100 * count / clipped,
                "per_10k": 1e4 * count / sampled if sampled else math.nan,
            }
            for rank, (token, count) in enumerate(ordered, 1)
        ]
    )


def kind(token: str) -> str:
    """connective | function word | other, whatever the case and the tokenizer's mark for a space."""
    word = plain(token)
    return "connective" if word in CONNECTIVES else "function word" if word in FUNCTION_WORDS else "other"


def plain(token: str) -> str:
    return token.strip(MARKS).lower()


# -- one number a run ----------------------------------------------------------------------------------------------


def per_run(sweep: Sweep, root: Path) -> dict[str, dict[str, float]]:
    """run id -> "clipped/connective_share" and "clipped/function_share", of the runs that have counts.

    Σ over steps of the connectives (function words) clipped above / Σ of all tokens clipped above; NaN where none was.
    A lower bound where a step clips more than 50 different tokens, since the rest has no names.
    """
    found = {}
    for entry in sweep.runs:
        total = totals(root / "runs" / entry.run)
        if total:
            found[entry.run] = {
                "clipped/connective_share": share_of(total, "connective"),
                "clipped/function_share": share_of(total, "function word"),
            }
    return found


def share_of(total: Totals, what: str) -> float:
    named = sum(count for token, count in total.high.items() if kind(token) == what)
    return named / total.high_total if total.high_total else math.nan
