"""The paper's smoothing and its neighbours, on a worked example of fourteen points."""

import numpy as np
import pandas as pd
import pytest

from analysis.smooth import segments, smooth

Y = pd.Series([0.10, 0.20, 0.15, 0.30, 0.25, 0.40, 0.35, 0.50, 0.45, 0.60, 0.55, 0.70, 0.65, 0.62])
AT = [0, 1, 2, 5, 10, 13]


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        ("paper", [0.2333, 0.2367, 0.2456, 0.2869, 0.4235, 0.4996]),
        ("live", [0.1000, 0.1100, 0.1180, 0.1631, 0.2639, 0.3558]),
        ("tensorboard", [0.1000, 0.1556, 0.1533, 0.2666, 0.4463, 0.5507]),
        ("raw", [0.10, 0.20, 0.15, 0.40, 0.55, 0.62]),
    ],
)
def test_worked_example(reading: str, expected: list[float]) -> None:
    assert smooth(Y, reading).mean.loc[AT].tolist() == pytest.approx(expected, abs=6e-5)  # type: ignore[arg-type]


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
