"""Intervals that are looked at after every seed: exact by other ways, and what they promise on made sweeps."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as reference

from analysis import claims, figures, html_verdict, load, report, sequential, stats, undecided, verdict
from bench import sequential as bench
from harness import store
from tests.analysis.conftest import change_manifest, clip_sweep

PAIRS = [0.031, 0.012, 0.044, 0.025, 0.038, 0.009]


def test_with_one_look_it_is_the_plain_t_test() -> None:
    assert sequential.crossing(0.05, 3) == pytest.approx(0.05, rel=1e-9)
    found, plain = sequential.paired(PAIRS[:3], 0.9, most=3), stats.paired(PAIRS[:3], 0.9)
    assert (found.mean, found.sd, found.n) == (plain.mean, plain.sd, plain.n)
    assert [found.low, found.high, found.p] == pytest.approx([plain.low, plain.high, plain.p], rel=1e-4)


def test_the_chance_of_two_looks_is_a_double_integral() -> None:
    # looks at 3 and 4 of 4: x · 9/16 at the first. d/|d| of four normal numbers is uniform on the sphere: with z for
    # (d1 + d2 + d3)/√3, r for the rest of the three (a χ of 2) and y for d4, t_3 = √2 z / r and so on.
    x = 0.06
    c3, c4 = reference.t.isf(x * 9 / 16, 2), reference.t.isf(x, 3)

    nodes, weights = np.polynomial.legendre.leggauss(80)
    r = 3.5 * (nodes + 1)[:, None]  # 0 … 7
    top = np.minimum(7.0, c3 * r / np.sqrt(2))  # t_3 < c3
    z, area = (top - 7) / 2 + (top + 7) / 2 * nodes, 3.5 * weights[:, None] * (top + 7) / 2 * weights
    k = c4**2 / (3 + c4**2)  # t_4 > c4 where (√3 z + y)² > 4 k (z² + r² + y²) and √3 z + y > 0: between two roots of y
    a, b, c = 1 - 4 * k, 2 * np.sqrt(3) * z, 3 * z**2 - 4 * k * (z**2 + r**2)
    root = np.sqrt(np.maximum(0.0, b**2 - 4 * a * c))
    low, high = np.maximum((-b + root) / (2 * a), -np.sqrt(3) * z), (-b - root) / (2 * a)
    found = np.where(high > low, reference.norm.cdf(high) - reference.norm.cdf(low), 0.0)
    missed = float((area * reference.norm.pdf(z) * r * np.exp(-(r**2) / 2) * (1 - found)).sum())
    assert sequential.crossing(x, 4) == pytest.approx(1 - missed, rel=0.005)


def test_the_chance_of_eight_looks_is_what_another_generator_draws() -> None:
    draw, crossed, number = random.Random(4), [0, 0], 5000
    bounds = [[reference.t.isf(x * (n / 10) ** 2, n - 1) for n in range(3, 11)] for x in (0.03, 0.3)]
    for _ in range(number):
        d = [draw.gauss(0, 3) for _ in range(10)]
        t = [np.mean(d[:n]) / np.std(d[:n], ddof=1) * n**0.5 for n in range(3, 11)]
        for place, bound in enumerate(bounds):
            crossed[place] += any(a > b for a, b in zip(t, bound, strict=True))
    for count, x in zip(crossed, (0.03, 0.3), strict=True):
        expected = sequential.crossing(x, 10)
        assert count / number == pytest.approx(expected, abs=3.5 * (expected * (1 - expected) / number) ** 0.5)
    finer = [sequential.crossing(x, 10, 2 * sequential.CELLS) for x in (1e-4, 0.03)]
    assert [sequential.crossing(x, 10) for x in (1e-4, 0.03)] == pytest.approx(finer, rel=4e-3)


def test_between_its_points_the_table_is_what_the_chain_gives() -> None:
    for x in (2e-6, 5e-4, 0.018, 0.55, 0.9):
        assert float(sequential.chance(x, 7)) == pytest.approx(sequential.crossing(x, 7), rel=0.01), x
    assert float(sequential.chance(1e-12, 7)) <= 1e-12 * sum((n / 7) ** 2 for n in range(3, 8)) * 1.001
    assert float(sequential.chance(3.0, 7)) == 1.0


def test_an_interval_leaves_out_0_exactly_where_p_is_below_its_level() -> None:
    generator = np.random.default_rng(0)
    seen = set()
    for _ in range(60):
        d = generator.normal(0.8, 1.0, generator.integers(3, 9)).tolist()
        for level in (0.05, 0.005):
            found = sequential.paired(d, 1 - level, most=8)
            assert (found.p < level) == (found.low > 0 or found.high < 0)
            seen.add(found.p < level)
        mirrored = sequential.paired([-10 * v for v in d], most=8)
        assert mirrored.p == pytest.approx(found.p)  # neither sign nor scale matters
    assert seen == {True, False}


def test_peeking_widens_and_more_looks_widen_more() -> None:
    plain = stats.paired(PAIRS)
    few, many = (sequential.paired(PAIRS, most=most) for most in (6, 10))
    assert plain.p < few.p < many.p
    assert plain.low > few.low > many.low
    assert [sequential.critical(n, 10, 0.025) > reference.t.isf(0.025, n - 1) for n in (3, 6, 10)] == [True] * 3


def test_what_is_decided_stays_decided_while_pairs_are_added() -> None:
    d = np.random.default_rng(1).normal(0.3, 1.0, (50, 10))
    p = sequential.p_by_look(d, 10)
    assert p.shape == (50, 8)
    assert (np.diff(p, axis=-1) <= 0).all()
    assert p[7, 4] == pytest.approx(float(sequential.p_by_look(d[7, :7], 10)[-1]))  # no look ahead


def test_intervals_cover_at_every_look_together() -> None:
    d = np.random.default_rng(2).normal(5.0, 2.0, (500, 6))
    misses = sum((f := sequential.paired(row.tolist(), 0.9, most=6)).low > 5.0 or f.high < 5.0 for row in d)
    assert 0.06 < misses / 500 < 0.14  # 10 % within three standard errors


def test_equivalence_is_the_narrower_interval_within_the_margin() -> None:
    d = np.random.default_rng(3).normal(0.0, 0.6, (80, 7))
    words = []
    for row in d.tolist():
        narrow = sequential.paired(row, 0.9, most=10)
        words.append(sequential.equivalent(row, 0.8, most=10))
        assert words[-1] == (narrow.low > -0.8 and narrow.high < 0.8)
    assert 5 < sum(words) < 75
    assert not sequential.equivalent([0.0, 0.0], 0.8, most=10)


def test_differences_without_spread_and_too_few_or_too_many() -> None:
    assert sequential.paired([0.25, 0.25, 0.25], most=10).p < 1e-200
    assert sequential.paired([0.0, 0.0, 0.0], most=10).p == 1.0
    assert sequential.paired([0.1, 0.2], most=10) == stats.paired([0.1, 0.2])
    with pytest.raises(ValueError, match=r"4 pairs, though stop\.max_seeds planned for 3"):
        sequential.paired([0.1, 0.2, 0.3, 0.4], most=3)


@pytest.fixture(scope="module")
def found() -> list[bench.Found]:
    plain = [way for way in bench.WAYS if way != "giving up"]
    return bench.run(300, plain) + bench.run(40, ["giving up"])  # which takes a twentieth of a second a sweep


def test_some_sweeps_hold_what_the_bench_holds_of_two_thousand(found: list[bench.Found]) -> None:
    assert list(bench.misses(found)) == []
    by = {(f.way, f.effect, round(f.spread)): f for f in found}
    assert len(by) == 5 * 4 * 2
    assert by["peeking", 0.0, 3].wrong > 0.08 > by["sequential", 0.0, 3].wrong
    strong = {way: by[way, 5.0, 3] for way in bench.WAYS}
    assert strong["anytime"].found < 0.6 < strong["sequential"].found < strong["fixed"].found
    assert (
        strong["giving up"].seeds + 0.4
        < strong["sequential"].seeds
        < strong["anytime"].seeds
        < strong["fixed"].seeds
        == 10
    )


def test_the_bench_notices_looks_that_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequential, "chance", lambda x, most: np.minimum(1.0, x * sequential.share(6, most)))
    differences = bench.draw(0.0, 3.0, 400, np.random.default_rng(0))
    assert len(list(bench.misses([bench.measure("sequential", 0.0, 3.0, differences)]))) == 1


def test_each_limit_of_the_bench_is_held_against_its_number(found: list[bench.Found]) -> None:
    # of 2,000 sweeps a true 5 % shows up to 5 + 2.326 · √(5 · 95 / 2000) = 6.13 % in 99 of 100 benches
    good = replace(next(f for f in found if f.way == "sequential" and f.effect == 3), sweeps=2000)
    assert list(bench.misses([replace(good, wrong=0.061, wrong_neutral=0.061)])) == []
    assert len(list(bench.misses([replace(good, wrong=0.062, wrong_neutral=0.062)]))) == 2
    assert "errs" in "".join(bench.misses([replace(good, way="peeking", effect=0.0, wrong=0.05)]))


def test_decided_arms_get_no_more_seeds_and_holm_opens_up_for_the_rest() -> None:
    # one sweep, two arms, looks at 3, 4, 5: the first decides at once; the second's .04 is enough for a family of one
    p = np.array([[[0.01, 0.9, 0.9], [0.2, 0.04, 0.9]]])
    sign, margin = np.ones_like(p), np.ones_like(p)
    words, used = bench.rounds((p, sign, margin))
    assert words.tolist() == [[1, 1]] and used.tolist() == [[3, 4]]
    margin[0, 1, 0] = 0.03  # within the margin at the first look: neutral, and no more looks
    words, used = bench.rounds((p, sign, margin))
    assert words.tolist() == [[1, 2]] and used.tolist() == [[3, 3]]


def test_two_pairs_decide_nothing_and_may_be_the_last() -> None:
    p = np.array([[[0.01, 0.9, 0.9], [0.2, 0.2, 0.9]]])
    sign, margin, asked = np.ones_like(p), np.ones_like(p), []

    def chance(pairs: np.ndarray, level: np.ndarray, open_: np.ndarray) -> np.ndarray:
        asked.append((pairs.tolist(), level.tolist(), open_.tolist()))
        return np.array([[1.0, 0.04]])

    words, used = bench.rounds((p, sign, margin), chance, least=0.05, first=2)
    assert words.tolist() == [[1, 0]] and used.tolist() == [[3, 2]]
    assert asked[:2] == [([[2, 2]], [0.025], [[True, True]]), ([[3, 2]], [0.05], [[False, True]])]


STOP = {"when": "decided", "max_seeds": 10, "step": 1, "first": 3, "round": 2, "wanted": {"a": 4, "b": 3}}


def test_a_sweep_that_stops_when_decided_is_judged_by_these_intervals(four_words: Path) -> None:
    plain = {c.arm: c for c in verdict.judge(load.load(four_words, "made")) if c.read == "last"}
    change_manifest(four_words, stop=STOP)
    sweep = load.load(four_words, "made")
    found = {c.arm: c for c in verdict.judge(sweep) if c.read == "last"}
    noisy = [0.1, -0.06, 0.08, -0.04]
    assert found["noisy"].effect is not None and plain["noisy"].effect is not None
    expected = sequential.paired(noisy, most=10)
    assert (found["noisy"].effect.low, found["noisy"].effect.p) == pytest.approx((expected.low, expected.p), rel=1e-6)
    assert expected.low < plain["noisy"].effect.low
    assert {arm: c.word for arm, c in found.items()} | {"same": ""} == {
        "good": "trick", "bad": "trap", "same": "", "noisy": "inconclusive",
    }  # fmt: skip
    assert all((c.p_holm < 0.05) == (c.low_holm > 0 or c.high_holm < 0) for c in found.values())
    assert "2 rounds so far, 3 … 4 seeds of at most 10" in report.method(sweep)[0]
    assert "95 % t over seeds" not in report.method(sweep)[0]


def test_captions_and_footnotes_say_what_their_intervals_are(four_words: Path) -> None:
    names = ("effects", "main_effects", "summary", "accuracy_by_arm")

    def said() -> tuple[list[str], str]:
        sweep = load.load(four_words, "made")
        drawn = [figures.of_sweep(sweep, name) for name in names]
        return [d.caption for d in drawn if d], html_verdict.body(report.judged(sweep), {})

    plain, note = said()
    assert len(plain) == 4 and all("95 % t interval" in text for text in (*plain, note))
    change_manifest(four_words, stop=STOP)
    (effects, *others), note = said()
    assert all("95 % interval over all looks together" in text and "t interval" not in text for text in (effects, note))
    assert "3 … 4 seeds" in effects
    assert all("not widened for" in text for text in others)


def test_findings_of_claims_are_judged_by_these_intervals_too(tmp_path: Path) -> None:
    root = clip_sweep(tmp_path, 0.02)
    plain, compared = claims.check(load.load(root, "made")), 0
    change_manifest(root, stop=STOP)
    for one, other in zip(plain, claims.check(load.load(root, "made")), strict=True):
        for before, after in zip(one.findings, other.findings, strict=True):
            if before.effect and after.effect:
                assert after.effect.mean == before.effect.mean and after.effect.p > before.effect.p
                compared += 1
    assert compared > 3


def test_undecided_arms_and_their_baseline_ask_for_seeds_and_no_others(four_words: Path) -> None:
    change_manifest(four_words, stop=STOP)
    manifest = load.read_manifest(four_words, "made")
    cell = {run["labels"]["arm"]: run["cell"] for run in manifest["runs"]}
    runs = {run["run"] for run in manifest["runs"]}
    found = undecided.judge(four_words, "made", manifest)(runs)
    assert found.contrasts == 4 and {cell["plain"], cell["noisy"]} <= set(found.cells)
    assert not {cell["good"], cell["bad"]} & set(found.cells) and set(found.cells.values()) == {4}
    early = undecided.judge(four_words, "made", manifest)({run for run in runs if run[-1] in "01"})
    assert early.undecided == 4 and early.cells == dict.fromkeys(cell.values(), 2)  # two pairs decide nothing
    none = undecided.Undecided(contrasts=0, undecided=0, given_up=0, claims=0, open_claims=0, cells={})
    assert undecided.judge(four_words, "made", manifest | {"control": True})(runs) == none


def test_an_arm_that_always_diverges_asks_for_nothing(four_words: Path) -> None:
    manifest = load.read_manifest(four_words, "made") | {"stop": STOP}
    noisy = [run for run in manifest["runs"] if run["labels"]["arm"] == "noisy"]
    for run in noisy:
        store.Run(four_words / "runs" / run["run"]).write_status("diverged")
    found = undecided.judge(four_words, "made", manifest)({run["run"] for run in manifest["runs"]})
    assert noisy[0]["cell"] not in found.cells
