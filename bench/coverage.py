"""Do the verdict's statistics hold what they promise? A thousand synthetic sweeps whose truth is known.

Every sweep is an `analysis.load.Sweep` made in memory (no run folders: loading has tests of its own) and goes through
the functions that judge real ones, `verdict.contrasts` on `scores.both`. 2 models × 4 arms × 3, 5 or 10 seeds; a run's
true accuracy is its model's + its arm's effect + what the arms of one seed share + its own, and 1,008 graded answers
are drawn from it. Half of the sweeps hold a gain, an effect of exactly the margin and an arm without effect; the other
half are A/A: four arms alike. Beside: the unpaired t interval, and the percentile bootstrap over seeds.

Prints a table; exits 1 where a limit is missed. Leaves out: training; errors over questions (tests hold those).

    python -m bench.coverage [--sweeps 1000]            about two minutes of CPU
"""

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats as reference

from analysis import load, scores, verdict

SEEDS = (3, 5, 10)
MODELS, ANSWERS = ("small", "large"), 1008
START = np.array([0.45, 0.55])  # by model
SHARED, OWN = 0.05, 0.015  # standard deviations of a seed's effect on all arms of a model, and on one run
MARGIN, GAIN = 0.03, 0.05
KNOWN = {"plain": 0.0, "gain": GAIN, "edge": MARGIN, "same": 0.0}
ALIKE = {"plain": 0.0, "a": 0.0, "b": 0.0, "c": 0.0}
MEASURE = verdict.Measure("eval/accuracy", "last", MARGIN)
DRAWS = 1000
COVERAGE_LIMITS = (0.93, 0.97)
ERROR_LIMIT = 0.05
Z = 2.326  # a true share of the limit exceeds it by that many standard errors once in a hundred benches


@dataclass(frozen=True)
class Found:
    """Shares over the contrasts at one number of seeds, but `called_any` over sweeps; `ratio` of interval widths."""

    seeds: int
    sweeps: int  # of each kind
    coverage: float
    bootstrap: float  # coverage of the percentile bootstrap
    called: float  # A/A contrasts called trick or trap
    called_any: float  # A/A sweeps with one such contrast or more
    neutral_at_margin: float  # called neutral though the effect is the margin
    neutral_at_zero: float
    power: float  # the gain called trick
    ratio: float  # mean width, unpaired over paired


def draw(effects: dict[str, float], seeds: int, generator: np.random.Generator) -> np.ndarray:
    """Accuracies [model, arm, seed] of one sweep."""
    shared = generator.normal(0.0, SHARED, (len(MODELS), 1, seeds))
    own = generator.normal(0.0, OWN, (len(MODELS), len(effects), seeds))
    truth = START[:, None, None] + np.array(list(effects.values()))[None, :, None] + shared + own
    return generator.binomial(ANSWERS, truth) / ANSWERS


def sweep_of(arms: list[str], values: np.ndarray) -> load.Sweep:
    """One finished run per value, with a single evaluation; the first arm is the baseline."""
    entries = [
        load.Entry(f"{model}-{arm}-{seed}", seed, "done", {"model": model, "arm": arm})
        for model in MODELS
        for arm in arms
        for seed in range(values.shape[2])
    ]
    alike = {
        name: pd.Categorical([text] * len(entries)) for name, text in (("state", "done"), ("metric", MEASURE.metric))
    }
    runs = [entry.run for entry in entries]
    columns = {"run": pd.Categorical(runs, categories=runs), "step": 0, "value": values.ravel()}
    frame = pd.DataFrame(columns | alike)
    end = {"metric": MEASURE.metric, "last": 1, "goal": "max", "margin": MARGIN}
    manifest = {"baseline": {"arm": arms[0]}, "endpoint": end}
    return load.Sweep("made", Path("made"), manifest, {"model": list(MODELS), "arm": arms}, entries, frame)


def judged(effects: dict[str, float], values: np.ndarray) -> list[verdict.Contrast]:
    sweep = sweep_of(list(effects), values)
    return verdict.contrasts(sweep, "arm", MEASURE, scores.both(sweep, MEASURE.metric, MEASURE.read))


def measure(seeds: int, sweeps: int, generator: np.random.Generator) -> Found:
    """Judges `sweeps` sweeps of each kind."""
    known = [draw(KNOWN, seeds, generator) for _ in range(sweeps)]
    alike = [draw(ALIKE, seeds, generator) for _ in range(sweeps)]
    contrasts = [contrast for values in known for contrast in judged(KNOWN, values)]
    by_arm = {arm: [c.word for c in contrasts if c.arm == arm] for arm in KNOWN if arm != "plain"}
    called = np.array([[c.word in ("trick", "trap") for c in judged(ALIKE, values)] for values in alike])
    truth = np.array([KNOWN[c.arm] for c in contrasts])
    low, high = np.array([(c.effect.low, c.effect.high) for c in contrasts if c.effect]).T
    differences, unpaired = beside(np.array(known))
    bounds = np.quantile(differences @ _weights(seeds, generator), [0.025, 0.975], axis=1)
    return Found(
        seeds=seeds,
        sweeps=sweeps,
        coverage=_share((low <= truth) & (truth <= high)),
        bootstrap=_share((bounds[0] <= truth) & (truth <= bounds[1])),
        called=_share(called),
        called_any=_share(called.any(axis=1)),
        neutral_at_margin=_share(np.array(by_arm["edge"]) == "neutral"),
        neutral_at_zero=_share(np.array(by_arm["same"]) == "neutral"),
        power=_share(np.array(by_arm["gain"]) == "trick"),
        ratio=float(unpaired.mean() / (high - low).mean()),
    )


def beside(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Paired differences [contrast, seed] in the order of the contrasts, and the widths of unpaired t intervals."""
    arm, baseline = values[:, :, 1:], values[:, :, :1]
    seeds = values.shape[-1]
    error = np.sqrt((arm.var(axis=-1, ddof=1) + baseline.var(axis=-1, ddof=1)) / seeds)
    return (arm - baseline).reshape(-1, seeds), 2 * reference.t.ppf(0.975, 2 * seeds - 2) * error.ravel()


def misses(found: Found) -> Iterator[str]:
    """The limits that are missed, in words; a share of errors only by more than chance would do at exactly the limit.

    Holm's procedure uses up nearly all of its 5 % (4.6 to 4.8 % here, by 60,000 draws of the same law): a thousand
    honest sweeps show a little more of it in one case of three.
    """
    low, high = COVERAGE_LIMITS
    most = ERROR_LIMIT + Z * math.sqrt(ERROR_LIMIT * (1 - ERROR_LIMIT) / found.sweeps)
    if not low <= found.coverage <= high:
        yield f"{found.seeds} seeds: intervals cover {found.coverage:.1%}, not {low:.0%} to {high:.0%}"
    errors = {
        "A/A contrasts are called trick or trap": found.called,
        "A/A sweeps hold an arm that is called trick or trap": found.called_any,
        "effects of the margin's size are called neutral": found.neutral_at_margin,
    }
    for what, share in errors.items():
        if share > most:
            yield f"{found.seeds} seeds: {share:.1%} of {what}, more than {ERROR_LIMIT:.0%} and chance"


def _weights(runs: int, generator: np.random.Generator) -> np.ndarray:
    """[runs, DRAWS]: how often each run is drawn, as a share; a product with it is a bootstrap mean."""
    return generator.multinomial(runs, np.full(runs, 1.0 / runs), DRAWS).T / runs


def _share(yes: Any) -> float:
    return float(np.mean(yes))


def expected_ratio(seeds: int) -> float:
    """Of the mean widths, unpaired over paired, by the standard deviations put in: t(df) c(df) √(variance) of each.

    c(df) = √(2/df) Γ((df + 1)/2) / Γ(df/2) is the mean of a standard deviation over its true value.
    """
    own = OWN**2 + float((START * (1.0 - START)).mean()) / ANSWERS
    unpaired, paired = (
        reference.t.ppf(0.975, df) * math.sqrt(2 / df) * math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2))
        for df in (2 * seeds - 2, seeds - 1)
    )
    return float(unpaired / paired * math.sqrt((SHARED**2 + own) / own))


def main() -> int:
    parser = argparse.ArgumentParser(description="Coverage and errors of the verdict's statistics.")
    parser.add_argument("--sweeps", type=int, default=1000)
    sweeps = parser.parse_args().sweeps
    rows = [measure(seeds, sweeps, np.random.default_rng([seeds, 2025])) for seeds in SEEDS]
    print(f"{sweeps} sweeps with effects and as many A/A ones at each number of seeds; 6 contrasts each\n")
    share, plain = "{:.1%}".format, "{:.2f}".format
    lines = [
        ("95 % interval covers", "93-97 %", share, [r.coverage for r in rows], True),
        ("  percentile bootstrap", "", share, [r.bootstrap for r in rows], True),
        ("A/A contrast called trick or trap", "<= 5 %", share, [r.called for r in rows], True),
        ("A/A sweep with any such arm", "<= 5 %", share, [r.called_any for r in rows], True),
        (f"effect = margin ({MARGIN:g}) called neutral", "<= 5 %", share, [r.neutral_at_margin for r in rows], True),
        ("no effect called neutral", "", share, [r.neutral_at_zero for r in rows], False),
        (f"effect {GAIN:g} called trick", "", share, [r.power for r in rows], False),
        ("width, unpaired / paired", "", plain, [r.ratio for r in rows], False),
        ("  of the deviations put in", "", plain, [expected_ratio(r.seeds) for r in rows], False),
    ]
    print(f"{'seeds':38}{'limit':>9}" + "".join(f"{seeds:>9}" for seeds in SEEDS) + f"{'all':>9}")
    for name, limit, shown, numbers, pooled in lines:
        cells = [*map(shown, numbers), shown(sum(numbers) / len(numbers)) if pooled else ""]
        print(f"{name:38}{limit:>9}" + "".join(f"{cell:>9}" for cell in cells).rstrip())
    error = math.sqrt(ERROR_LIMIT * (1 - ERROR_LIMIT) / sweeps)
    print(f"\nstandard error of a share of {ERROR_LIMIT:.0%} of sweeps: {error:.1%}")
    missed = [line for row in rows for line in misses(row)]
    print(*(missed or ["all limits are met"]), sep="\n")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
