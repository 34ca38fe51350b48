r"""A sweep's verdict and claims as LaTeX tables, for a paper: `\usepackage{booktabs}` and nothing else.

    sweeps/<name>/tables/verdict_<axis>.tex   every arm of an axis against its baseline, on the spec's endpoint
    sweeps/<name>/tables/claims.tex           every claim with its outcome

Numbers of one column have the same digits and stand to the right, so that their points align. Bold is what Holm's
correction leaves: a trick or a trap, a contradicted claim ("supported" takes all tests at 5 % each, uncorrected).
A table of more than `PAGE` rows is a longtable and needs that package. Leaves out: captions, labels, placement.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from analysis import claims, report, text
from analysis import verdict as judging
from harness.store import write_atomic

PAGE = 45  # rows that fit on a page
SPECIAL = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "…": r"\ldots{}"}
SPECIAL |= {mark: f"\\{mark}" for mark in "&%$#_"}
SPECIAL |= {"±": r"$\pm$", "→": r"$\to$", "·": r"$\cdot$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "−": "$-$"}
SPECIAL |= dict(zip("αβγδεκλμρσθ", (rf"${name}$" for name in (
    r"\alpha", r"\beta", r"\gamma", r"\delta", r"\varepsilon", r"\kappa", r"\lambda", r"\mu", r"\rho", r"\sigma",
    r"\theta",
)), strict=True))  # fmt: skip
HEAD = [
    "",
    r"\multicolumn{1}{c}{baseline}",
    r"\multicolumn{1}{c}{arm}",
    r"\multicolumn{1}{c}{difference}",
    r"\multicolumn{2}{c}{95\,\% interval}",
    "$n$",
    r"$p_\mathrm{Holm}$",
    "verdict",
]


def write(root: Path, name: str) -> list[Path]:
    """The tables of what has been recorded so far; returns their paths. Raises FileNotFoundError for no such sweep."""
    judged = report.judge(root, name)
    made = {f"verdict_{slug(axis)}": verdict_table(judged, axis) for axis in judged.sweep.baseline}
    if judged.claims:
        made["claims"] = claims_table(judged)
    folder = judged.sweep.folder / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}.tex" for stem in made]
    for path, table in zip(paths, made.values(), strict=True):
        write_atomic(path, table)
    return paths


def verdict_table(judged: report.Judged, axis: str) -> str:
    """A row per arm and stratum; a stratum is a heading across."""
    end = judged.sweep.manifest["endpoint"]
    rows: list[str] = []
    for place, group in groupby(judged.table(axis, "last", end["metric"]), report.heading):
        if place:
            rows += [r"\addlinespace"] if rows else []
            rows.append(rf"\multicolumn{{9}}{{@{{}}l}}{{\emph{{{escape(place)}}}}} \\")
        rows += [(r"\quad " if place else "") + _row(c) for c in group]
    how = f"mean of the last {end['last']} evaluations"
    said = [report.title_of(judged.sweep, end["metric"], axis, how), *report.method(judged.sweep)[:2]]
    return _table(judged, said, r"@{}lrrrr@{\ }rrrl@{}", HEAD, rows)


def claims_table(judged: report.Judged) -> str:
    head = ["claim", "statement", "outcome", "findings"]
    rows = [" & ".join(_claim(claim)) + r" \\" for claim in judged.claims]
    said = ["The source's claims. A claim is supported if all of its findings are, each tested at 5 %."]
    columns = r"@{}lp{0.42\linewidth}lp{0.28\linewidth}@{}"
    return _table(judged, said, columns, head, rows)


def escape(words: str) -> str:
    """Text as LaTeX shows it; what a font of ASCII lacks as mathematics."""
    return "".join(SPECIAL.get(letter, letter) for letter in words)


def slug(axis: str) -> str:
    """A file's name: tricks.surrogate.high -> tricks_surrogate_high."""
    return re.sub(r"[^A-Za-z0-9]+", "_", axis).strip("_")


def _row(c: judging.Contrast) -> str:
    factor, digits, _ = text.scale(c.metric)
    effect, bold = c.effect, c.p_holm < judging.ALPHA  # NaN is not
    bounds = [""] * 2
    if effect is not None and effect.n >= judging.MIN_PAIRS:
        low, high = (text.number(factor * bound, digits, sign=True).strip() for bound in (effect.low, effect.high))
        bounds = [f"[${low}$,", f"${high}$]"]
    difference = text.number(factor * effect.mean, digits, sign=True).strip() if effect else "-"
    cells = [escape(report.named(c)), _number(text.number(factor * c.baseline_mean, digits))]
    cells += [_number(text.number(factor * c.arm_mean, digits))]
    cells += [_number(difference, bold), *bounds, str(effect.n if effect else 0)]
    cells += [report.p_value(c.p_holm).replace("<", "$<$").replace("-", "--"), _bold(escape(c.word), bold)]
    return " & ".join(cells) + r" \\"


def _claim(claim: claims.Claim) -> list[str]:
    return [
        escape(claim.id),
        escape(claim.text),
        _bold(escape(claim.word), claim.word == "contradicted"),
        escape(claim.why),
    ]


def _number(shown: str, bold: bool = False) -> str:
    """In mathematics, where a minus is one."""
    if shown == "-":
        return "--"
    return f"$\\mathbf{{{shown}}}$" if bold else f"${shown}$"


def _bold(words: str, bold: bool) -> str:
    return f"\\textbf{{{words}}}" if bold else words


def _table(judged: report.Judged, said: Iterable[str], columns: str, head: Sequence[str], rows: list[str]) -> str:
    sweep, long = judged.sweep, len(rows) > PAGE
    comment = [f"Sweep {sweep.name}, scale {sweep.manifest['scale']}: {sweep.progress()}.", *said]
    comment.append(f"Needs \\usepackage{{booktabs{',longtable' if long else ''}}}.")
    environment = "longtable" if long else "tabular"
    top = [r"\toprule", " & ".join(head) + r" \\", r"\midrule", *([r"\endhead"] if long else [])]
    lines = [f"% {' '.join(sentence.split())}" for sentence in comment]
    lines += [f"\\begin{{{environment}}}{{{columns}}}", *top, *rows, r"\bottomrule", f"\\end{{{environment}}}"]
    return "\n".join(lines) + "\n"
