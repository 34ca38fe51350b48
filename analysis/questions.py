"""How sure a single checkpoint's accuracy is, and the difference of two checkpoints, from their graded answers.

The spread over questions of one evaluation, as arXiv:2411.00640 has it: s̄_i is the mean over the K samples of question
i, a benchmark's accuracy the mean of its n questions', and questions of one cluster (one template, one passage) are one
draw. Two checkpoints answer the same questions, so that their difference is taken question by question. These errors
say what other questions would change; what another training run would change is another and larger error, which only
seeds show (`stats.paired`). Leaves out: loading (`load.load_evals`), verdicts.
"""

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from analysis import scores
from analysis.load import Sweep

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

MACRO = "macro average"  # every benchmark counts the same
WEIGHTED = "all questions"  # every question counts the same
Groups = Mapping[tuple[str, int], Hashable]  # (benchmark, question) -> its cluster


def checkpoint(rows: "pd.DataFrame", run: str, step: int | None = None, mode: str = "sample") -> "pd.DataFrame":
    """The rows of `load.load_evals` of one evaluation: the run's last, or the one made on `step`.

    Raises ValueError naming what there is where there is no such evaluation.
    """
    ours = rows[(rows["run"] == run) & (rows["mode"] == mode)]
    if ours.empty:
        modes = ", ".join(sorted(map(str, rows.loc[rows["run"] == run, "mode"].unique()))) or "none"
        raise ValueError(f"run '{run}' has no evaluation of mode '{mode}' (it has: {modes})")
    at = int(ours["step"].max()) if step is None else step
    if at not in set(ours["step"]):
        raise ValueError(f"run '{run}' was not evaluated on step {step} (it was on: {_listed(ours['step'])})")
    return ours[ours["step"] == at]


def accuracy(rows: "pd.DataFrame", groups: Groups | None = None) -> "pd.DataFrame":
    """Of one checkpoint, a row per benchmark and the two averages: accuracy, se, se_sampling, questions, samples,
    clusters.

    se = √(Σ_c (Σ_{i in c} (s̄_i - s̄))² · C/(C - 1)) / n over C clusters; without `groups` each question is one, and
    this is std(s̄_i)/√n, samples of a question counting as one draw. se_sampling = √(Σ_i v_i/K) / n, v_i the variance
    of question i's samples: the part of it that more samples per question would remove; NaN at one sample. NaN where
    there is one cluster.
    """
    import pandas as pd

    table = []
    for benchmark, part in rows.groupby("benchmark", observed=True):
        by_question = part.groupby("question")["right"].agg(["mean", "var", "size"])
        scores, samples = by_question["mean"].to_numpy(dtype=float), by_question["size"].to_numpy()
        clusters = _clusters(str(benchmark), by_question.index, groups)
        sampling = math.sqrt(float((by_question["var"].to_numpy(dtype=float) / samples).sum())) / len(scores)
        table.append(
            {
                "benchmark": str(benchmark),
                "accuracy": float(scores.mean()),
                "se": standard_error(scores, clusters),
                "se_sampling": sampling,
                "questions": len(scores),
                "samples": float(samples.mean()),
                "clusters": len(set(clusters)),
            }
        )
    return _with_averages(pd.DataFrame(table), "accuracy", ["se", "se_sampling"])


def difference(arm: "pd.DataFrame", baseline: "pd.DataFrame", groups: Groups | None = None) -> "pd.DataFrame":
    """arm - baseline of two checkpoints, a row per benchmark and the two averages: difference, se, se_unpaired, ratio,
    correlation, questions, clusters.

    se is that of the differences question by question, se_unpaired = √(se_arm² + se_baseline²) what they would have on
    different questions, ratio = se_unpaired / se what pairing is worth, correlation that of the two s̄_i (NaN where
    one side's are all equal, and for the averages). Raises ValueError where they did not answer the same questions.
    """
    import numpy as np
    import pandas as pd

    ours, theirs = (side.groupby(["benchmark", "question"], observed=True)["right"].mean() for side in (arm, baseline))
    if not ours.index.equals(theirs.index):
        lone = ours.index.symmetric_difference(theirs.index)[0]
        raise ValueError(f"the two checkpoints answered different questions, such as {lone[0]} question {lone[1]}")
    table = []
    for benchmark in ours.index.unique("benchmark"):
        a, b = (side.xs(benchmark, level="benchmark") for side in (ours, theirs))
        x, y, clusters = a.to_numpy(dtype=float), b.to_numpy(dtype=float), _clusters(str(benchmark), a.index, groups)
        spread = bool(np.ptp(x) and np.ptp(y))
        table.append(
            {
                "benchmark": str(benchmark),
                "difference": float((x - y).mean()),
                "se": standard_error(x - y, clusters),
                "se_unpaired": math.hypot(standard_error(x, clusters), standard_error(y, clusters)),
                "correlation": float(np.corrcoef(x, y)[0, 1]) if spread else math.nan,
                "questions": len(x),
                "clusters": len(set(clusters)),
            }
        )
    found = _with_averages(pd.DataFrame(table), "difference", ["se", "se_unpaired"])
    found.insert(4, "ratio", found["se_unpaired"] / found["se"].where(found["se"] > 0))
    return found


def against_baseline(sweep: Sweep, rows: "pd.DataFrame", axis: str, groups: Groups | None = None) -> "pd.DataFrame":
    """The macro average of `difference` at the last evaluation, a row per stratum, arm and seed whose runs are done.

    The stratum's axes, arm, seed, difference, se, se_unpaired, ratio. `rows` is `load.load_evals` of the same sweep.
    """
    import pandas as pd

    sampled = rows[(rows["mode"] == "sample") & (rows["state"] == "done")]
    last = sampled[sampled["step"] == sampled.groupby("run", observed=True)["step"].transform("max")]
    by_run = {str(run): part for run, part in last.groupby("run", observed=True)}
    table = []
    for side in scores.sides(sweep, axis):
        theirs = {entry.seed: entry.run for entry in side.theirs}
        for entry in side.ours:
            other = theirs.get(entry.seed, "")
            if entry.run in by_run and other in by_run:
                macro = difference(by_run[entry.run], by_run[other], groups).set_index("benchmark").loc[MACRO]
                numbers = {name: float(macro[name]) for name in ("difference", "se", "se_unpaired", "ratio")}
                table.append(sweep.shown(side.stratum) | {"arm": side.arm, "seed": entry.seed} | numbers)
    return pd.DataFrame(table)


def standard_error(scores: "np.ndarray", clusters: list[Hashable]) -> float:
    """Of the mean of `scores` [n]: √(Σ_c (Σ_{i in c} (s_i - s̄))² · C/(C - 1)) / n; NaN for one cluster."""
    import numpy as np

    codes = {cluster: code for code, cluster in enumerate(dict.fromkeys(clusters))}
    if len(codes) < 2:
        return math.nan
    sums = np.bincount([codes[cluster] for cluster in clusters], weights=scores - scores.mean())
    return math.sqrt(float((sums**2).sum()) * len(codes) / (len(codes) - 1)) / len(scores)


def _clusters(benchmark: str, questions: "pd.Index", groups: Groups | None) -> list[Hashable]:
    """The cluster of each question. Raises ValueError for one that `groups` does not know."""
    if groups is None:
        return [int(question) for question in questions]
    lacking = [int(question) for question in questions if (benchmark, int(question)) not in groups]
    if lacking:
        raise ValueError(f"groups: no cluster for {benchmark} question {lacking[0]} ({len(lacking)} such questions)")
    return [groups[benchmark, int(question)] for question in questions]


def _with_averages(table: "pd.DataFrame", value: str, errors: list[str]) -> "pd.DataFrame":
    """Adds Σ w_b value_b with errors √Σ (w_b se_b)²: benchmarks are independent; w_b = 1/B, or its questions' share."""
    import pandas as pd

    weights = {MACRO: 1.0 / len(table), WEIGHTED: table["questions"] / table["questions"].sum()}
    averages = []
    for name, weight in weights.items():
        row = {"benchmark": name, value: float((weight * table[value]).sum())}
        row |= {error: math.sqrt(float(((weight * table[error]) ** 2).sum(skipna=False))) for error in errors}
        averages.append(row | {count: int(table[count].sum()) for count in ("questions", "clusters")})
    return pd.concat([table, pd.DataFrame(averages)], ignore_index=True)


def _listed(steps: "pd.Series") -> str:
    return ", ".join(str(step) for step in sorted(steps.unique()))
