"""What matters, and for whom: analysis of variance over the balanced full-factorial part of a sweep.

One arm axis, the other axes that are not arms (model, data, …) and the seeds; further arm axes stand at their baseline,
or in a fraction at both levels of each (`fractional.py`).
Runs of one stratum and seed share prompts, order and noise and are one block, as the plots of a field: arms, and
whether they depend on the stratum, are compared inside blocks, strata between them (a split plot):

    score ~ stratum factors × seed + arm × stratum factors,  sum contrasts, type II (balanced, so all types agree)
    arm, arm : factors        F against the residual, arm × seed within the strata
    factors alone             F against seed × factors
    partial ω² = df (F - 1) / (df (F - 1) + N),  0 where it would be negative

It answers what matters most; whether an arm is a trick somewhere is `verdict.py`'s to say, one contrast at a time. No
correction for the number of terms. Leaves out: drawing.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from analysis import fractional, scores, stats
from analysis.load import NOT_SET, Sweep

if TYPE_CHECKING:
    import pandas as pd

SEED = "seed"


@dataclass(frozen=True)
class Term:
    """One line of the table; NaN in f, p and omega where nothing varies that it could be held against."""

    factors: tuple[str, ...]  # one: a main effect; more: their interaction
    ss: float
    df: int
    error_ss: float
    error_df: int
    f: float
    p: float
    omega: float


@dataclass(frozen=True)
class Factorial:
    """`terms` is empty where the sweep has no factorial part; `says` tells what the part is, or why there is none."""

    axis: str
    metric: str
    read: str
    factors: tuple[str, ...]  # the arm axis, then those that the part crosses it with
    says: str
    terms: list[Term]
    means: "pd.DataFrame"  # factor, level, mean, low, high, n: each level averaged over all others
    for_whom: "pd.DataFrame"  # by, level, arm, difference, low, high, p, n: arm - baseline at each level of a factor


def analyse(sweep: Sweep, axis: str, metric: str | None = None, read: str = "last") -> Factorial:
    """Of one axis with a baseline; `metric` is the endpoint's unless named, `read` last or area."""
    metric = metric or sweep.manifest["endpoint"]["metric"]
    table = score_table(sweep, axis, scores.run_scores(sweep, metric, scores.reader(sweep, read)))
    levels = balanced(table, axis, sweep.baseline[axis])
    if not levels:
        says = f"No factorial part: no other level of {axis} has finished beside {sweep.baseline[axis]} on two seeds."
        return Factorial(axis, metric, read, (), says, [], _no_rows(), _no_rows())
    part = table
    for name, kept in levels.items():
        part = part[part[name].isin(kept)]
    factors = [axis, *(name for name in levels if name not in (axis, SEED) and len(levels[name]) > 1)]
    says = _says(table, levels, factors, _runs_each(sweep))
    whom = for_whom(part, factors, sweep.baseline[axis])
    return Factorial(axis, metric, read, tuple(factors), says, anova(part, factors), level_means(part, factors), whom)


def score_table(sweep: Sweep, axis: str, numbers: dict[str, float]) -> "pd.DataFrame":
    """A column for the arm axis, for each axis that holds no arms, the seed and the score; finished runs only.

    Of a fraction a score is the mean of a level's half of the runs, in the place of the one run.
    """
    import pandas as pd

    of = fractional.design(sweep)
    if of is not None and axis in of["factors"]:
        return fractional.level_scores(sweep, of, axis, numbers)
    others = [name for name in sweep.varying(without=axis) if name not in sweep.baseline]
    rows = [
        {axis: arm, **{name: stratum[name] for name in others}, SEED: entry.seed, "score": numbers[entry.run]}
        for stratum in sweep.plain(sweep.strata(axis))
        for arm in sweep.axes[axis]
        if arm != NOT_SET
        for entry in sweep.having(stratum | {axis: arm})
        if not math.isnan(numbers.get(entry.run, math.nan))
    ]
    return pd.DataFrame(rows, columns=[axis, *others, SEED, "score"])


def balanced(table: "pd.DataFrame", axis: str, baseline: str) -> dict[str, list[Any]]:
    """column -> levels of a part in which every combination has a score; empty where there is none.

    While a combination lacks its score, the level that lacks the largest share of its own is given up; of equal ones
    an arm before a stratum and a seed, and the later before the earlier. The baseline, a second arm and two seeds stay;
    a column left with one level is no factor.
    """
    names = [name for name in table.columns if name != "score"]
    levels: dict[str, list[Any]] = {name: list(dict.fromkeys(table[name])) for name in names}
    levels[SEED] = sorted(levels[SEED])
    there = set(table[names].itertuples(index=False, name=None))
    if baseline not in levels[axis]:
        return {}
    while min(len(levels[axis]), len(levels[SEED])) >= 2:
        lacking = [place for place in product(*levels.values()) if place not in there]
        if not lacking:
            return levels
        number = math.prod(map(len, levels.values()))
        worst, name, level = 0.0, "", None
        for column, key in enumerate(names):
            for candidate in reversed(levels[key]):
                share = sum(place[column] == candidate for place in lacking) * len(levels[key]) / number
                if share > worst and len(levels[key]) > 1 and (key, candidate) != (axis, baseline):
                    worst, name, level = share, key, candidate
        if not name:
            return {}
        levels[name].remove(level)
    return {}


def anova(table: "pd.DataFrame", factors: list[str]) -> list[Term]:
    """Main effects, then interactions, of a balanced table; factors[0] is the arm axis, the rest are strata's."""
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    short = {name: f"f{number}" for number, name in enumerate(factors)} | {SEED: "s"}  # names that a formula can hold
    named = {code: name for name, code in short.items()}
    coded = table.rename(columns=short)
    arm, *strata = (f"C({short[name]}, Sum)" for name in factors)
    model = ols(f"score ~ {' * '.join([*strata, 'C(s, Sum)'])} + {' * '.join([arm, *strata])}", data=coded).fit()
    lines = anova_lm(model, typ=2)
    found = {
        tuple(named[part[2 : part.index(",")]] for part in str(term).split(":")): (float(ss), round(float(df)))
        for term, ss, df in zip(lines.index, lines["sum_sq"], lines["df"], strict=True)
        if term != "Residual"
    }
    residual = float(lines["sum_sq"]["Residual"]), round(float(lines["df"]["Residual"]))
    blocks = [value for term, value in found.items() if SEED in term and len(term) > 1]
    between = sum(ss for ss, _ in blocks), sum(df for _, df in blocks)
    total = float(table["score"].var(ddof=0)) * len(table)
    wanted = sorted(
        (term for term in found if SEED not in term), key=lambda term: [len(term), *map(factors.index, term)]
    )
    return [
        _term(
            tuple(sorted(term, key=factors.index)),
            *found[term],
            *(residual if factors[0] in term else between),
            total,
            len(table),
        )
        for term in wanted
    ]


def _term(factors: tuple[str, ...], ss: float, df: int, error_ss: float, error_df: int, total: float, n: int) -> Term:
    from scipy import stats as scipy_stats

    if error_ss <= 1e-12 * total:  # seeds that are all alike leave the rounding of sums, and no error
        return Term(factors, ss, df, error_ss, error_df, math.nan, math.nan, math.nan)
    f = (ss / df) / (error_ss / error_df)
    omega = max(0.0, df * (f - 1) / (df * (f - 1) + n))
    return Term(factors, ss, df, error_ss, error_df, f, float(scipy_stats.f.sf(f, df, error_df)), omega)


def level_means(table: "pd.DataFrame", factors: list[str]) -> "pd.DataFrame":
    """Each level's mean over everything else, with a t interval over seeds of the seeds' own means.

    The interval holds what all levels share, such as an easy seed: differences of arms are in `for_whom`.
    """
    import pandas as pd

    rows = []
    for factor in factors:
        for level, part in table.groupby(factor, sort=False):
            found = stats.paired(part.groupby(SEED)["score"].mean().tolist())
            numbers = {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n}
            rows.append({"factor": factor, "level": level} | numbers)
    return pd.DataFrame(rows)


def for_whom(table: "pd.DataFrame", factors: list[str], baseline: str) -> "pd.DataFrame":
    """arm - baseline at each level of each other factor, averaged over the rest; first over everything (by "").

    Paired: a t interval over seeds of the mean difference within a seed.
    """
    import pandas as pd

    axis, *others = factors
    places = [("", "", table)]
    places += [(name, level, part) for name in others for level, part in table.groupby(name, sort=False)]
    rows = []
    for by, level, part in places:
        wide = part.pivot_table(index=SEED, columns=axis, values="score")
        for arm in (arm for arm in dict.fromkeys(table[axis]) if arm != baseline):
            found = stats.paired((wide[arm] - wide[baseline]).tolist())
            numbers = {"difference": found.mean, "low": found.low, "high": found.high, "p": found.p, "n": found.n}
            rows.append({"by": by, "level": level, "arm": arm} | numbers)
    return pd.DataFrame(rows)


def _runs_each(sweep: Sweep) -> int:
    """Runs behind one score: one, or half of a fraction."""
    of = fractional.design(sweep)
    return int(of["runs"]) // 2 if of else 1


def _says(table: "pd.DataFrame", levels: dict[str, list[Any]], factors: list[str], each: int) -> str:
    crossed = " × ".join(f"{name} ({', '.join(map(str, levels[name]))})" for name in factors)
    runs = math.prod(map(len, levels.values())) * each
    lone = [f"{name} {kept[0]}" for name, kept in levels.items() if name not in factors and len(kept) == 1]
    out = [
        f"{name} {', '.join(map(str, lost))}"
        for name, kept in levels.items()
        if (lost := [level for level in dict.fromkeys(table[name]) if level not in kept])
    ]
    said = f"Factorial part: {crossed}, {len(levels[SEED])} seeds, {runs} runs"
    said += f", all on {', '.join(lone)}" if lone else ""
    said += f"; not in it: {'; '.join(out)}." if out else "."
    return (
        said if len(factors) > 1 else f"{said} Nothing is crossed with {factors[0]}: for whom it works cannot be said."
    )


def _no_rows() -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame()
