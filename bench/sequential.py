"""Does peeking after every seed cost the verdict its 5 %? 2,000 made sweeps a case, judged round by round.

A sweep is ten arms against one baseline, paired by seed: three have the effect, seven have none (all ten in the null
case). After each round from 3 to 10 seeds Holm's correction goes over the family; an arm that is decided (trick, trap
or neutral) gets no more seeds. Five ways to decide, on the same numbers:

    giving up    as the next, and arms with too small a chance are given up: what `stop: {when: decided}` does
    sequential   analysis.sequential, `stop: {when: decided, futility: null}`
    anytime      1 / the largest Bayes factor so far, of effect sizes N(0, g), Jeffreys' prior on the deviation: an
                 e-process (Gönen et al. 2005; Wang, Ramdas 2024), valid for any number of looks without a last one
    peeking      the plain paired t test after every round, as if there had been one look
    fixed        the plain paired t test once, at ten seeds

A seed's standard deviation is 5 points and paired arms correlate by .8 or .5, so that differences spread by 3.2 or 5
points. Prints a table; exits 1 where the sequential verdict errs more than it says, or peeking would not show.
Leaves out: training, how a number is read off a run (`bench/coverage.py` goes through all of the verdict), at which
chance to give up (`bench/futility.py`).

    python -m bench.sequential [--sweeps 2000]          about eight minutes of CPU
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import special

from analysis import futility, learned, sequential, stats
from harness.sweep.stop import FUTILITY

MOST, ARMS, GAINING = 10, 10, 3
MARGIN, SEED_SD = 3.0, 5.0  # points
SPREADS = {rho: SEED_SD * math.sqrt(2 * (1 - rho)) for rho in (0.8, 0.5)}  # of a paired difference
EFFECTS = (0.0, 1.0, 3.0, 5.0)
ALPHA, Z = 0.05, 2.326  # an honest share exceeds alpha by Z standard errors once in a hundred benches
PROMISED = ("giving up", "sequential")  # ways that err in 5 % of sweeps at most
DRAWS = 512  # futures of an arm
PRIOR = 4.0  # g of `anytime`: the best of 0.25, 1 and 4 at these effects

# differences [sweep, arm, seed] -> after each look: two-sided p, sign, p of an effect as large as the margin or larger
Tested = tuple[np.ndarray, np.ndarray, np.ndarray]
Test = Callable[[np.ndarray, float], Tested]  # of differences and a margin
# pairs at hand [sweep, arm], Holm's level [sweep], arms that are open [sweep, arm] -> their chance to be decided
Chance = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Found:
    """Shares and mean seeds of one way to decide, on sweeps of one effect and spread."""

    way: str
    effect: float
    spread: float
    sweeps: int
    wrong: float  # sweeps in which any arm without effect is called trick or trap, or one with an effect a trap
    found: float  # arms with the effect called trick; NaN where there is none
    neutral: float  # arms without effect called neutral
    wrong_neutral: float  # arms with an effect of the margin or more called neutral; NaN where there is none
    seeds: float  # pairs used, mean over arms
    runs: float  # share of the fixed design's runs, the baseline's included
    same: float  # arms with the word that the fixed design gives them
    exaggerated: float  # mean difference less the effect, of arms that are called trick; points


def draw(effect: float, spread: float, sweeps: int, generator: np.random.Generator) -> np.ndarray:
    """Paired differences [sweep, arm, seed] in points; arms share their baseline, and so correlate by one half."""
    noise = generator.normal(0.0, spread / math.sqrt(2), (sweeps, ARMS + 1, MOST))
    differences: np.ndarray = noise[:, 1:] - noise[:, :1]
    differences[:, :GAINING] += effect
    return differences


def sequentially(differences: np.ndarray, margin: float = MARGIN) -> Tested:
    up, down = (sequential.p_by_look(side, MOST) for side in (differences, -differences))
    least = [sequential.p_by_look(side, MOST, -margin) for side in (differences, -differences)]
    return np.minimum(1.0, 2 * np.minimum(up, down)), np.where(up < down, 1, -1), np.maximum(*least)


def plainly(differences: np.ndarray, margin: float = MARGIN) -> Tested:
    """The t test of each n by itself."""
    mean, error, numbers = moments(differences)
    low, high = (special.stdtr(numbers - 1, -(side + margin) / error) for side in (mean, -mean))
    return 2 * special.stdtr(numbers - 1, -abs(mean) / error), np.sign(mean), np.maximum(low, high)


def anytime(differences: np.ndarray, margin: float = MARGIN) -> Tested:
    """BF = (1 + n g)^-½ · ((1 + t²/ν) / (1 + t²/(ν (1 + n g))))^((ν + 1)/2), ν = n - 1; p = 1 / the largest so far."""
    mean, error, numbers = moments(differences)

    def p(null: float) -> np.ndarray:
        square, wide = ((mean - null) / error) ** 2 / (numbers - 1), 1 + numbers * PRIOR
        evidence = ((1 + square) / (1 + square / wide)) ** (numbers / 2) / np.sqrt(wide)
        return np.asarray(np.minimum(1.0, 1 / np.maximum.accumulate(evidence, axis=-1)))

    low, high = np.where(mean > -margin, p(-margin) / 2, 1.0), np.where(mean < margin, p(margin) / 2, 1.0)
    return p(0.0), np.sign(mean), np.maximum(low, high)


def once(differences: np.ndarray, margin: float = MARGIN) -> Tested:
    """The t test at the last n only: before it nothing is decided."""
    p, sign, small = plainly(differences, margin)
    early = np.arange(p.shape[-1]) < p.shape[-1] - 1
    return np.where(early, 1.0, p), sign, np.where(early, 1.0, small)


WAYS: dict[str, Test] = {
    "giving up": sequentially,
    "sequential": sequentially,
    "anytime": anytime,
    "peeking": plainly,
    "fixed": once,
}


def moments(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and their standard errors after each look, and the numbers of pairs."""
    numbers = np.arange(stats.MIN_PAIRS, differences.shape[-1] + 1)
    mean = np.stack([differences[..., :n].mean(axis=-1) for n in numbers], axis=-1)
    error = np.stack([differences[..., :n].std(axis=-1, ddof=1) / math.sqrt(n) for n in numbers], axis=-1)
    return mean, error, numbers


def predicted(differences: np.ndarray, margin: float) -> Chance:
    """By `futility.crossed`, with the law of each sweep's arms."""

    def chance(pairs: np.ndarray, level: np.ndarray, open_: np.ndarray) -> np.ndarray:
        chances = np.ones(differences.shape[:2])
        for sweep in np.flatnonzero(open_.any(axis=1)):
            law = learned.law([arm[:n] for arm, n in zip(differences[sweep], pairs[sweep], strict=True)])
            lines = futility.arm_lines(float(level[sweep]), margin)
            for n in np.unique(pairs[sweep][open_[sweep]]):
                if n < learned.fewest(law):
                    continue
                at = sweep, np.flatnonzero(open_[sweep] & (pairs[sweep] == n))
                up, down, least, most = futility.crossed(differences[at][:, :n], lines, MOST, MOST - n, law, DRAWS)
                chances[at] = (up | down | (least & most)).mean(axis=-1)
        return chances

    return chance


def rounds(
    tested: Tested, chance: Chance | None = None, least: float = 0.0, first: int = stats.MIN_PAIRS
) -> tuple[np.ndarray, np.ndarray]:
    """Words [sweep, arm] (1 trick, -1 trap, 2 neutral, 0 open) and pairs used, with a Holm correction every round.

    The numbers of an arm that is decided stay where they were: it gets no more seeds. Nor does one whose `chance` is
    under `least`, as long as it is. `first`: pairs at the first look; two of them decide nothing.
    """
    shut = np.ones((*tested[0].shape[:2], stats.MIN_PAIRS - first))
    p, sign, margin = (np.concatenate([shut, numbers], axis=-1) for numbers in tested)
    words, last, on = np.zeros(p.shape[:2], int), np.zeros(p.shape[:2], int), np.ones(p.shape[:2], bool)
    for look in range(p.shape[-1]):
        last = np.where(on, look, last)
        now, sure, small = (np.take_along_axis(a, last[..., None], -1)[..., 0] for a in (p, sign, margin))
        real = np.array([stats.holm(row) for row in now.tolist()]) < ALPHA
        words = np.where(real, sure, np.where((words == 0) & (small < ALPHA), 2, words)).astype(int)
        on = words == 0
        if chance and look < p.shape[-1] - 1:
            level = ALPHA / np.maximum(1, p.shape[1] - real.sum(axis=1))
            on &= chance(last + first, level, on) >= least
    return words, last + first


def measure(
    way: str,
    effect: float,
    spread: float,
    differences: np.ndarray,
    margin: float = MARGIN,
    least: float = FUTILITY,
    first: int = stats.MIN_PAIRS,
) -> Found:
    """`least` and `first`: of `giving up`."""
    chance = predicted(differences, margin) if way == "giving up" else None
    words, used = rounds(WAYS[way](differences, margin), chance, least, first)
    full, _ = rounds(once(differences, margin))
    gaining, rest = (words[:, :GAINING], words[:, GAINING:]) if effect else (words[:, :0], words)
    wrong = (abs(rest) == 1).any(axis=1) | (gaining == -1).any(axis=1)
    means = np.cumsum(differences, axis=-1) / np.arange(1, MOST + 1)
    ended = np.take_along_axis(means, used[..., None] - 1, -1)[..., 0]
    called = (words == 1)[:, : gaining.shape[1]]
    return Found(
        way=way,
        effect=effect,
        spread=spread,
        sweeps=len(words),
        wrong=float(wrong.mean()),
        found=float((gaining == 1).mean()) if effect else math.nan,
        neutral=float((rest == 2).mean()),
        wrong_neutral=float((gaining == 2).mean()) if effect >= margin else math.nan,
        seeds=float(used.mean()),
        runs=float((used.sum(axis=1) + used.max(axis=1)).mean()) / (ARMS + 1) / MOST,
        same=float((words == full).mean()),
        exaggerated=float(ended[:, :GAINING][called].mean() - effect) if called.any() else math.nan,
    )


def limit(sweeps: int) -> float:
    """The share of so many sweeps that an honest verdict decides wrongly at most, but for Z standard errors."""
    return ALPHA + Z * math.sqrt(ALPHA * (1 - ALPHA) / sweeps)


def misses(found: list[Found]) -> Iterator[str]:
    """What the sequential verdict promises and does not hold; and that the bench can see a verdict that peeks."""
    for row in found:
        most = limit(row.sweeps)
        case = f"{row.way}, effect {row.effect:g}, spread {row.spread:.1f}"
        if row.way in PROMISED and row.wrong > most:
            yield f"{case}: {row.wrong:.1%} of sweeps decided wrongly"
        if row.way in PROMISED and row.wrong_neutral > most:
            yield f"{case}: {row.wrong_neutral:.1%} of real effects neutral"
        if row.way == "peeking" and row.effect == 0 and row.wrong <= most:
            yield f"spread {row.spread:.1f}: peeking errs in {row.wrong:.1%} of sweeps only, as by chance"


def run(sweeps: int, ways: Iterable[str] = WAYS) -> list[Found]:
    found = []
    for number, (effect, spread) in enumerate((e, s) for s in SPREADS.values() for e in EFFECTS):
        differences = draw(effect, spread, sweeps, np.random.default_rng([number, 2025]))
        found += [measure(way, effect, spread, differences) for way in ways]
    return found


def table(found: list[Found]) -> Table:
    columns = (
        "spread",
        "effect",
        "way",
        "wrong sweeps",
        "effect found",
        "neutral",
        "wrong neutral",
        "seeds",
        "runs",
        "as fixed",
        "too large by",
    )
    shown = Table(*columns, title=f"{found[0].sweeps} sweeps a row, {ARMS} arms, 3 to {MOST} seeds, margin {MARGIN:g}")
    share = "{:.1%}".format
    for row in found:
        numbers = (row.wrong, row.found, row.neutral, row.wrong_neutral)
        cells = [*map(share, numbers), f"{row.seeds:.2f}", share(row.runs), share(row.same), f"{row.exaggerated:+.2f}"]
        cells = ["" if "nan" in cell else cell for cell in cells]
        shown.add_row(f"{row.spread:.1f}", f"{row.effect:g}", row.way, *cells, end_section=row.way == "fixed")
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description="Errors and seeds of the verdict that looks after every round.")
    parser.add_argument("--sweeps", type=int, default=2000)
    found = run(parser.parse_args().sweeps)
    Console(width=120).print(table(found))
    missed = list(misses(found))
    print(*(missed or ["all limits are met"]), sep="\n")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
