"""The chance that more seeds decide something: by integrals, by another generator, and what is given up by it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as reference

from analysis import claims, claims_futility, expectations, futility, load, report, sequential, terminal, undecided
from analysis import verdict as judging
from tests.analysis.conftest import change_manifest, write_sweep

STOP = {"when": "decided", "max_seeds": 10, "step": 1, "futility": 0.1, "first": 3, "round": 2, "wanted": {"a": 4}}


def of(mean: float, sd: float, n: int) -> list[float]:
    """n numbers of this mean and standard deviation."""
    raw = np.random.default_rng(n).normal(size=n)
    return list(mean + sd * (raw - raw.mean()) / raw.std(ddof=1))


def test_with_one_pair_to_come_it_is_an_integral_over_it() -> None:
    known = of(2.0, 1.3, 3)
    places = (np.arange(100_000) + 0.5) / 100_000
    following = 2.0 + 1.3 * np.sqrt(4 / 3) * reference.t.ppf(places, 2)
    every = np.concatenate([np.broadcast_to(known, (len(places), 3)), following[:, None]], axis=1)
    t = every.mean(axis=1) / (every.std(axis=1, ddof=1) / 2)
    expected = (abs(t) > sequential.critical(4, 4, 0.05)).mean()  # 10 % on two sides, and a margin that is never met
    assert 0.2 < expected < 0.8
    assert futility.arm(known, 0.1, 0.001, most=4, more=1) == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize(("mean", "sd", "n", "margin"), [(3.0, 3.0, 3, 3.0), (0.5, 1.5, 4, 2.0), (3.5, 2.5, 5, 1.0)])
def test_futures_are_those_of_a_normal_law_that_is_known_as_well_as_the_pairs_tell(
    mean: float, sd: float, n: int, margin: float
) -> None:
    generator, number = np.random.default_rng(5), 6000
    sigma = sd * np.sqrt((n - 1) / generator.chisquare(n - 1, number))
    mu = mean + sigma / np.sqrt(n) * generator.normal(size=number)
    more = mu[:, None] + sigma[:, None] * generator.normal(size=(number, 8 - n))
    every = np.concatenate([np.broadcast_to(of(mean, sd, n), (number, n)), more], axis=1)
    up, down = (sequential.p_by_look(side, 8)[:, -1] for side in (every, -every))
    least, most = (sequential.p_by_look(side, 8, -margin)[:, -1] for side in (every, -every))
    expected = ((2 * np.minimum(up, down) < 0.02) | (np.maximum(least, most) < 0.05)).mean()
    assert 0.05 < expected < 0.9
    found = futility.arm(of(mean, sd, n), 0.02, margin, most=8, more=8 - n)
    assert found == pytest.approx(expected, abs=0.01 + 3 * (expected * (1 - expected) / number) ** 0.5)


def test_it_grows_with_the_effect_the_seeds_to_come_and_the_level() -> None:
    def chance(mean: float = 2.0, more: int = 5, level: float = 0.02) -> float:
        return futility.arm(of(mean, 2.0, 4), level, 0.1, most=9, more=more)

    assert chance(mean=0.5) < chance(mean=1.0) < chance() < chance(mean=4.0)
    assert chance(mean=-2.0) == pytest.approx(chance(), abs=0.01)
    assert 0 == chance(3.0, more=0) < chance(3.0, more=3) < chance(3.0)
    assert chance(level=0.002) < chance() < chance(level=0.2)


def test_what_is_shown_stays_shown_and_too_few_pairs_tell_nothing() -> None:
    assert futility.arm([*of(5.0, 0.5, 4), -40.0, 40.0], 0.05, 0.1, most=6, more=0) == 1.0
    assert futility.arm([0.0, 0.0, 0.0], 0.05, 0.1, most=6, more=0) == 1.0  # no spread: within any margin
    assert futility.arm([1.0, -1.0], 0.05, 0.1, most=6, more=4) == 1.0
    assert futility.arm(of(0.0, 5.0, 5), 0.05, 0.1, most=6, more=1) == 0.0


def test_it_is_the_same_every_time() -> None:
    first = futility.arm(of(2.0, 2.0, 3), 0.01, 1.0, most=10, more=7)
    futility._points.cache_clear()
    futility._quantiles.cache_clear()
    assert futility.arm(of(2.0, 2.0, 3), 0.01, 1.0, most=10, more=7) == first


# -- claims --------------------------------------------------------------------------------------------------------


def finding(values: Sequence[float], expect: str, margin: float) -> claims.Draft:
    effect = sequential.paired(values, most=8)
    made = claims.Finding(0, {}, "", expect, "eval/accuracy", "last", margin, effect, False, "undecided", None, False)
    sides = [[load.Entry(f"{side}-{seed}", seed, "done", {}) for seed in range(len(values))] for side in "ab"]
    return claims.Draft(made, list(values), sides)


def test_what_futures_say_of_an_expectation_is_what_their_intervals_would() -> None:
    seen, generator = set(), np.random.default_rng(2)
    for expect, _ in product(expectations.EXPECTATIONS, range(30)):
        values = generator.normal(generator.normal(0, 1.2), 0.5, 6).tolist()
        wide, narrow = (sequential.paired(values, level, most=8) for level in (0.95, 0.9))
        said = expectations.outcome_of(expect, wide, narrow, wide.p, margin=1.0)
        q, c = claims_futility.chances(finding(values, expect, 1.0), 0.05, most=8, more=0)
        assert (q, c) == (float(said != "undecided"), float(said == "contradicted")), (expect, values)
        seen.add((expect.removesuffix("_higher"), said))
    assert len(seen) >= 15


def test_a_claim_is_decided_by_one_contradiction_or_by_all_its_findings() -> None:
    each = [(0.5, 0.1), (0.4, 0.0), (0.9, 0.3)]
    kinds = [{"for": q - c, "against": c, "open": 1 - q} for q, c in each]
    expected = sum(
        np.prod([kind[word] for kind, word in zip(kinds, words, strict=True)])
        for words in product(("for", "against", "open"), repeat=3)
        if "against" in words or "open" not in words
    )
    assert claims_futility.together(each) == pytest.approx(expected)


def asked(*each: tuple[float, float], least: float = 0.1) -> list[int]:
    """The places that a claim asks for whose open findings have these (q, c)."""
    plain = finding([0.0, 0.1, 0.2], "higher", 1.0).finding
    return claims_futility.asking([replace(plain, chance=q, against=c) for q, c in each], least)


def test_a_claim_asks_for_what_decides_it_and_not_for_more() -> None:
    # one finding without hope, so that only a contradiction decides: the likeliest one asks
    assert asked((0.9, 0.0), (0.01, 0.01), (0.5, 0.4), (0.3, 0.2)) == [2]
    assert asked((0.9, 0.0), (0.01, 0.01), (0.5, 0.4), (0.3, 0.2), least=0.0) == [0, 1, 2, 3]  # nothing is given up
    assert asked((0.5, 0.4), (0.5, 0.4), (0.02, 0.0)) == [0, 1]
    # an outcome of all of them (0.9 · 0.8) is likelier than a contradiction
    assert asked((0.9, 0.0), (0.9, 0.1)) == [0, 1]
    assert asked((0.9, 0.4), (0.9, 0.6)) == [1]  # 1 - 0.6 · 0.4 against 0.5 · 0.3
    assert asked((1.0, 0.0), (1.0, 0.0)) == [0, 1]  # too few pairs to tell
    # what is decided, a control, or has no pair asks for nothing
    plain = finding([0.0, 0.1, 0.2], "higher", 1.0).finding
    rest = [replace(plain, outcome="supported"), replace(plain, control=True), replace(plain, effect=None)]
    opened = replace(plain, chance=0.5, against=0.2)
    assert claims_futility.asking([*rest, opened], 0.1) == [3]
    assert claims_futility.asking([*rest, replace(opened, chance=math.nan)], 0.1) == [3]  # runs have not ended


def world(root: Path, entropy: Sequence[float]) -> Path:
    """T4 in one place: accuracy that plainly grows with the clip, entropy with these differences by seed."""

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        high = labels["eps_high"] == "0.28"
        jitter = 0.001 * (seed % 2)
        return {"eval/accuracy": 0.4 + high * (0.05 + jitter), "policy/entropy": 0.3 + high * entropy[seed]}

    axes = {"model": ["small_aligned"], "eps_high": ["0.20", "0.28"]}
    keys = {"model": "model", "eps_high": "tricks.surrogate.high"}
    return write_sweep(root, axes, {"eps_high": "0.20"}, curve, 4, keys=keys, claims=["T4", "T7"], stop=STOP)


def judged(root: Path) -> undecided.Undecided:
    manifest = load.read_manifest(root, "made")
    return undecided.judge(root, "made", manifest)({run["run"] for run in manifest["runs"]})


def test_an_undecided_claim_asks_for_seeds_though_no_arm_does(tmp_path: Path) -> None:
    found = judged(world(tmp_path, [0.04, 0.01, 0.03, 0.01]))
    assert (found.contrasts, found.undecided, found.given_up) == (1, 0, 0)
    assert (found.claims, found.open_claims) == (1, 1)  # T7 is not testable here
    assert len(found.cells) == 2


def test_a_claim_with_too_small_a_chance_is_given_up_and_says_so(tmp_path: Path) -> None:
    root = world(tmp_path, [0.4, -0.3, 0.35, -0.41])
    found = judged(root)
    assert (found.open_claims, found.cells) == (1, {})
    claim = claims.check(load.load(root, "made"))[0]
    assert claim.given_up and claim.chance < 0.1 and claim.findings[1].chance == pytest.approx(claim.chance)
    assert claim.why == (
        "2 findings, 1 supported, 1 undecided; given up: a decision by 10 seeds had a chance of "
        f"{futility.percent(claim.chance)}"
    )
    change_manifest(root, stop=STOP | {"futility": None})
    assert len(judged(root).cells) == 2
    assert "given up" not in claims.check(load.load(root, "made"))[0].why


def test_a_claim_that_has_had_all_its_seeds_is_not_given_up(tmp_path: Path) -> None:
    root = change_manifest(world(tmp_path, [0.4, -0.3, 0.35, -0.41]), stop=STOP | {"max_seeds": 4})
    claim = claims.check(load.load(root, "made"))[0]
    assert not claim.given_up and "needs" in claim.why


# -- arms ----------------------------------------------------------------------------------------------------------


def test_an_arm_with_too_small_a_chance_asks_for_nothing_and_every_report_says_so(four_words: Path) -> None:
    root = change_manifest(four_words, stop=STOP)
    c = next(c for c in judging.judge(load.load(root, "made")) if c.arm == "noisy" and c.read == "last")
    # two of four hypotheses are rejected, so that Holm leaves each of the others a level of .05 / 2
    assert c.chance == futility.arm([0.1, -0.06, 0.08, -0.04], 0.025, 0.01, most=10, more=6)
    assert (c.word, c.given_up, c.chance < 0.1) == ("inconclusive", True, True)
    found = judged(root)
    assert (found.contrasts, found.given_up) == (4, found.undecided) and found.cells == {}
    said = f"inconclusive, given up ({futility.percent(c.chance)})"
    assert said in terminal.verdict(root, "made") and said in report.cells(c)[-1]
    assert "Given up (p): undecided, and the chance p that seeds up to 10 decide it is under 10 %, by" in " ".join(
        report.method(load.load(root, "made"))
    )


def test_only_the_headline_is_given_up(four_words: Path) -> None:
    root = change_manifest(four_words, stop=STOP)
    beside = [c for c in judging.judge(load.load(root, "made")) if c.read != "last"]
    assert beside and not any(c.given_up for c in beside) and all(np.isnan(c.chance) for c in beside)


def test_nothing_is_given_up_while_a_run_is_to_come(four_words: Path) -> None:
    from harness import store

    root = change_manifest(four_words, stop=STOP)
    noisy = next(run for run in load.read_manifest(root, "made")["runs"] if run["labels"]["arm"] == "noisy")
    store.Run(root / "runs" / noisy["run"]).write_status("running", step=1, steps=2, attempt=0)
    c = next(c for c in judging.judge(load.load(root, "made")) if c.arm == "noisy" and c.read == "last")
    assert c.word == "inconclusive" and not c.given_up and np.isnan(c.chance)
