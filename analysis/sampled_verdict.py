"""The verdict of a sample: a word per arm by its least-squares effect, and what is said of it.

The words are those of `verdict.py`; one family is an axis's arms in all strata. Leaves out: estimation (`sampled.py`),
layout: the tables of a fraction (`fractional_text.py`).
"""

import math

from analysis import fractional, sampled, scores, verdict
from analysis.load import Sweep
from analysis.verdict import Contrast, Draft


def judge(sweep: Sweep) -> list[Contrast]:
    """Main effects on each measure but equal tokens, which belong to pairs. Empty for other designs."""
    of = sampled.design(sweep)
    if of is None:
        return []
    tokens = sampled.fits(sweep, of, scores.run_scores(sweep, verdict.TOKENS, lambda curve: float(curve.sum())))
    lengths = sampled.fits(sweep, of, scores.run_scores(sweep, verdict.LENGTH, scores.reader(sweep, "last")))
    known, found = sampled.levels(sweep, of), []
    fitted = {
        measure: sampled.fits(sweep, of, scores.run_scores(sweep, measure.metric, scores.reader(sweep, measure.read)))
        for measure in verdict.measures(sweep)
        if measure.read != "tokens"
    }
    for axis in [axis for axis in sweep.baseline if axis in known]:
        baseline, *arms = known[axis]
        for measure, strata in fitted.items():
            drafts = [
                Draft(
                    fit.stratum,
                    axis,
                    arm,
                    baseline,
                    sampled.pair(fit, (axis, arm)),
                    ours,
                    theirs,
                    _relative(sampled.pair(tokens[place], (axis, arm))),
                    _relative(sampled.pair(lengths[place], (axis, arm))),
                    measure.sign,
                )
                for place, fit in enumerate(strata)
                for arm in arms
                if (ours := sampled.runs_at(fit, axis, arm)) and (theirs := sampled.runs_at(fit, axis, baseline))
            ]
            found += verdict.family(sweep, measure, drafts)
    return found


def remarks(sweep: Sweep) -> list[str]:
    """What a reader has to know of a sample before its numbers; empty for other designs."""
    of = sampled.design(sweep)
    if of is None:
        return []
    said = [
        f"A sample: {of['size']} of all combinations. Each number is an arm's effect over whatever the other arms are, "
        "by least squares of all its runs, as if effects added up. Where tricks change each other's effect it is an "
        "average over the cells that were drawn: design: full has the runs to see that."
    ]
    return said + [f"Not estimable from these cells: {', '.join(open_)}." for open_ in [unknown(sweep)] if open_]


def unknown(sweep: Sweep) -> list[str]:
    """Arms that the planned cells do not tell from others, such as "eps_high 0.28 (small_base)"."""
    of, named = sampled.design(sweep), []
    for stratum in fractional.strata(sweep, of) if of else []:
        at = f" ({', '.join(stratum.values())})" if stratum else ""
        named += [f"{axis} {level}{at}" for axis, level in sampled.open_columns(sweep, of or {}, stratum)]
    return named


def method(sweep: Sweep) -> list[str]:
    """How a sample was judged, in place of the sentences on pairs."""
    end = sweep.manifest["endpoint"]
    return [
        f"Effects are fitted within a seed ({len(sweep.manifest['seeds'])} planned), whose runs share prompts and "
        "noise: an arm's is the least-squares coefficient of its runs among all of the seed's. Intervals: 95 % t over "
        "seeds.",
        "trick, trap: p < .05 after Holm's correction over all rows of an axis on one metric. neutral: 90 % interval "
        f"within ± {end['margin']:g} (entropy ± {verdict.ENTROPY_MARGIN:g} nats). Under three seeds: no verdict.",
        f"Endpoint: mean of the last {end['last']} evaluations, never the best; whole curve: its mean height.",
    ]


def _relative(pair: scores.Pair) -> float:
    return pair.arm_mean / pair.baseline_mean - 1 if pair.differences and pair.baseline_mean else math.nan
