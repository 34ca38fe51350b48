"""The paper's smoothing and its neighbours, on a worked example of fourteen points."""

import numpy as np
import pandas as pd
import pytest

from analysis.smooth import READINGS, segments, smooth

Y = pd.Series([0.10, 0.20, 0.15, 0.30, 0.25, 0.40, 0.35, 0.50, 0.45, 0.60, 0.55, 0.70, 0.65, 0.62])
AT = [0, 1, 2, 5, 10, 13]


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        ("paper", [0.2333, 0.2367, 0.2456, 0.2869, 0.4235, 0.4996]),
        ("live", [0.1000, 0.1100, 0.1180, 0.1631, 0.2639, 0.3558]),
        ("tensorboard", [0.1000, 0.1556, 0.1533, 0.2666, 0.4463, 0.5507]),
        ("raw", [0.10, 0.20, 0.15, 0.40, 0.55, 0.62]),
        ("wandb", [0.1000, 0.1528, 0.1518, 0.2501, 0.4018, 0.4925]),
        ("windowed", [0.1000, 0.1556, 0.1533, 0.2666, 0.4463, 0.5689]),
        ("centred", [0.2333, 0.2500, 0.2812, 0.3500, 0.5356, 0.5950]),
        ("trailing", [0.1000, 0.1500, 0.1500, 0.2333, 0.3500, 0.4882]),
        ("paper_normalized", [0.2333, 0.2426, 0.2584, 0.3060, 0.4414, 0.5118]),
        ("live_normalized", [0.1000, 0.1278, 0.1369, 0.1855, 0.2793, 0.3676]),
    ],
)
def test_worked_example(reading: str, expected: list[float]) -> None:
    assert smooth(Y, reading).mean.loc[AT].tolist() == pytest.approx(expected, abs=6e-5)  # type: ignore[arg-type]


def test_the_factor_is_what_is_kept_not_what_is_new() -> None:
    mistaken = smooth(Y, "live", factor=0.2).mean.loc[AT].tolist()  # pandas' alpha = .8
    assert mistaken == pytest.approx([0.1000, 0.1400, 0.1480, 0.2259, 0.3446, 0.4775], abs=6e-5)


def test_the_band_is_the_raw_values_standard_deviation_in_the_window() -> None:
    centred = smooth(Y, "paper").std
    assert [centred[0], centred[1], centred[10]] == pytest.approx([0.1080, 0.1080, 0.1189], abs=6e-5)
    trailing = smooth(Y, "live").std
    assert [trailing[0], trailing[1], trailing[10]] == pytest.approx([0.0, 0.0707, 0.1658], abs=6e-5)


def test_values_that_are_not_finite_are_dropped_and_counted() -> None:
    dirty = Y.copy()
    dirty[[3, 7]] = [np.nan, np.inf]
    result = smooth(dirty)
    assert result.dropped == 2
    assert 3 not in result.mean.index and np.isfinite(result.mean).all()


def test_windows_count_steps_not_points() -> None:
    # three values 20 steps apart: each window of 11 steps holds one; the memory decays by .8^20 = .0115 between them
    sparse = pd.Series([0.1, 0.5, 0.9], index=[0, 20, 40])
    decay = 0.8**20
    second = decay * 0.1 + (1 - decay) * 0.5
    assert smooth(sparse).mean.tolist() == pytest.approx([0.1, second, decay * second + (1 - decay) * 0.9])


def test_a_dropped_value_leaves_its_time_in_the_memory() -> None:
    # two steps lie between the points: (.8² · .1 + .5) / (.8² + 1); counted by points it would be .58 / 1.8 = .3222
    holed = pd.Series([0.1, np.nan, 0.5])
    assert smooth(holed, "tensorboard").mean.tolist() == pytest.approx([0.1, 0.564 / 1.64])
    assert smooth(holed, "live").mean.tolist() == pytest.approx([0.1, 0.64 * 0.1 + 0.36 * 0.3])
    assert smooth(holed, "wandb").mean.tolist() == pytest.approx([0.1, 0.58 / 1.8])  # √.8 per step: .8 over two


def test_a_window_after_a_gap_holds_only_what_comes_after_it() -> None:
    gap = pd.Series([0.1, 0.2, 0.3, 0.9, 1.0], index=[0, 1, 2, 20, 21])
    assert smooth(gap, "trailing", window=3).mean.tolist() == pytest.approx([0.1, 0.15, 0.2, 0.9, 0.95])
    assert smooth(gap, "windowed", window=3).mean.tolist() == pytest.approx(
        [0.1, 0.28 / 1.8, 0.524 / 2.44, 0.9, 1.72 / 1.8]
    )
    assert smooth(gap, "centred", window=3).mean.tolist() == pytest.approx([0.15, 0.2, 0.25, 0.95, 0.95])


def test_points_out_of_order_are_sorted_and_a_constant_stays_constant() -> None:
    assert smooth(Y[::-1]).mean.tolist() == smooth(Y).mean.tolist()
    uneven = pd.Series(0.3, index=[0, 1, 7, 30, 31])
    for reading in READINGS:
        assert smooth(uneven, reading).mean.tolist() == pytest.approx([0.3] * 5)
        assert smooth(uneven, reading).std.tolist() == pytest.approx([0.0] * 5)


def test_only_values_that_are_not_finite_leave_nothing() -> None:
    nothing = smooth(pd.Series([np.nan, np.inf, -np.inf]))
    assert nothing.mean.empty and nothing.std.empty and nothing.dropped == 3


def test_a_run_shorter_than_the_window_takes_what_there_is() -> None:
    short = pd.Series([0.1, 0.2, 0.3])
    assert smooth(short).mean.tolist() == pytest.approx([0.2, 0.2, 0.2])
    assert smooth(pd.Series(dtype=float)).mean.empty


def test_a_repeated_step_and_an_unknown_reading_are_refused() -> None:
    with pytest.raises(ValueError, match="step 4 appears twice"):
        smooth(pd.Series([1.0, 2.0], index=[4, 4]))
    with pytest.raises(ValueError, match="there are: paper, live, tensorboard, raw"):
        smooth(Y, "papre")  # type: ignore[arg-type]


def test_a_line_breaks_over_a_gap_but_not_between_sparse_evaluations() -> None:
    assert segments(pd.Series([0, 1, 2, 30, 31])).tolist() == [0, 0, 0, 1, 1]
    assert segments(pd.Series([0, 20, 40, 60])).tolist() == [0, 0, 0, 0]
    assert segments(pd.Series([7])).tolist() == [0]
