"""What arms tell of each other: worlds whose law is known, and chances by drawing from that law without any algebra."""

from pathlib import Path

import numpy as np
import pytest

from analysis import futility, learned, load, scores, sequential, undecided
from analysis import verdict as judging
from tests.analysis.conftest import change_manifest, write_sweep
from tests.analysis.test_futility import STOP, of

WORLD = learned.Law(6.0, 4.0, (0.0, 2.0), (0.7, 0.3))


def draw(law: learned.Law, arms: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of arms."""
    sigma = np.sqrt(law.df * law.square / generator.chisquare(law.df, arms))
    tau = generator.choice(law.taus, arms, p=law.weights)
    return tau * sigma * generator.normal(size=arms), sigma


def test_the_law_of_a_world_of_arms_comes_back() -> None:
    generator = np.random.default_rng(1)
    mu, sigma = draw(WORLD, 3000, generator)
    arms = [
        m + s * generator.normal(size=n) for m, s, n in zip(mu, sigma, generator.integers(2, 7, len(mu)), strict=True)
    ]
    found = learned.law([arm.tolist() for arm in arms])
    assert found.df in (5.0, 6.0, 7.0)
    assert found.square == pytest.approx(WORLD.square, rel=0.08)
    weights = dict(zip(found.taus, found.weights, strict=True))
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights[0.0] + weights[0.25] == pytest.approx(0.7, abs=0.12)
    assert weights[1.0] + weights[2.0] + weights[4.0] == pytest.approx(0.3, abs=0.1)


def test_scatter_that_differs_by_chance_only_is_one_number() -> None:
    generator = np.random.default_rng(2)
    found = learned.law((3.0 * generator.normal(size=(400, 4))).tolist())
    assert found.df >= 50 and found.square == pytest.approx(9.0, rel=0.1)
    assert found.weights[0] + found.weights[1] > 0.85  # nothing is there


@pytest.mark.parametrize(
    ("mean", "sd", "n", "margin"), [(1.0, 1.0, 2, 0.1), (3.0, 2.0, 3, 0.1), (4.0, 2.5, 4, 1.0), (0.3, 0.8, 5, 1.2)]
)
def test_a_chance_is_that_of_arms_of_the_law_with_such_pairs(mean: float, sd: float, n: int, margin: float) -> None:
    generator, number, most = np.random.default_rng(3), 200_000, 8
    known = np.array(of(mean, sd, n))
    mu, sigma = draw(WORLD, number, generator)
    log = -n * np.log(sigma) - ((known - mu[:, None]) ** 2).sum(axis=1) / (2 * sigma**2)
    weight = np.exp(log - log.max())
    kept = generator.choice(number, 6000, p=weight / weight.sum())
    more = mu[kept, None] + sigma[kept, None] * generator.normal(size=(6000, most - n))
    every = np.concatenate([np.broadcast_to(known, (6000, n)), more], axis=1)
    up, down = (sequential.p_by_look(side, most)[:, -1] for side in (every, -every))
    low, high = (sequential.p_by_look(side, most, -margin)[:, -1] for side in (every, -every))
    expected = ((2 * np.minimum(up, down) < 0.02) | (np.maximum(low, high) < 0.05)).mean()
    assert 0.04 < expected < 0.96
    found = futility.arm(known.tolist(), 0.02, margin, most, most - n, WORLD)
    assert found == pytest.approx(expected, abs=0.03)  # a few thousand of the 200,000 carry the weight


def test_few_arms_and_arms_without_scatter_tell_nothing_of_others() -> None:
    arms = np.random.default_rng(4).normal(size=(learned.ENOUGH, 3)).tolist()
    assert learned.law(arms) != learned.FLAT
    assert learned.law(arms[1:]) == learned.FLAT
    assert learned.law([*arms[1:], [2.0, 2.0, 2.0], [1.0], []]) == learned.FLAT
    assert futility.arm([1.0, -1.0], 0.05, 0.1, most=6, more=4) == 1.0  # one arm's two pairs do not tell its scatter
    assert 0.0 < futility.arm([0.2, -0.2], 0.05, 0.1, 6, 4, WORLD) < 0.1


# -- in a sweep ----------------------------------------------------------------------------------------------------


def world(root: Path, seeds: int) -> Path:
    """Two arms on twelve models that scatter by 2 points around nothing, one of them 20 points better; margin 1."""
    noise = 0.02 * np.random.default_rng(5).normal(size=(12, 3, seeds))
    models, tricks = [f"m{number}" for number in range(12)], ["plain", "one", "two"]

    def curve(labels: dict[str, str], seed: int, step: int) -> dict[str, float]:
        good = labels == {"model": "m0", "trick": "two"}
        return {
            "eval/accuracy": 0.4
            + 0.2 * good
            + noise[models.index(labels["model"]), tricks.index(labels["trick"]), seed]
        }

    axes = {"model": models, "trick": tricks}
    return write_sweep(root, axes, {"trick": "plain"}, curve, seeds, stop=STOP | {"first": 2})


def test_at_two_seeds_a_sweep_of_many_arms_gives_up_those_that_show_nothing(tmp_path: Path) -> None:
    sweep = load.load(world(tmp_path, 2), "made")
    numbers = scores.both(sweep, "eval/accuracy", "last")
    found = [c for c in judging.judge(sweep) if c.read == "last" and c.metric == "eval/accuracy"]
    assert {c.word for c in found} == {"description only"} and len(found) == 24
    good = next(c for c in found if (c.arm, c.stratum) == ("two", {"model": "m0"}))
    assert not good.given_up and good.chance > 0.8
    assert sum(c.given_up for c in found) >= 16
    law = futility.law(sweep, numbers)
    for side, c in zip(scores.sides(sweep, "trick"), found, strict=True):  # Holm's level where none is rejected
        pairs = scores.pair_by(numbers, side.ours, side.theirs).differences
        assert c.chance == futility.arm(pairs, 0.05 / 24, 0.01, 10, 8, law)
    manifest = load.read_manifest(tmp_path, "made")
    told = undecided.judge(tmp_path, "made", manifest)({run["run"] for run in manifest["runs"]})
    assert told.given_up == sum(c.given_up for c in found)
    assert set(told.cells.values()) == {2} and good.stratum == {"model": "m0"}


def test_nothing_is_learned_where_nothing_is_given_up(tmp_path: Path) -> None:
    root = change_manifest(world(tmp_path, 3), stop=STOP | {"futility": None})
    sweep = load.load(root, "made")
    assert futility.law(sweep, scores.both(sweep, "eval/accuracy", "last")) == learned.FLAT
    assert not any(c.given_up for c in judging.judge(sweep))
