"""Slot `surrogate` in literal numbers: value and gradient of one token, of one row, and of two published rows."""

import math

import pytest
import torch

from harness.tricks import surrogate, weight


def _row(
    function: str, ratios: list[float], sign: float, tokens: int | None = None, **knobs: float
) -> tuple[list[float], list[float]]:
    """Values and gradients w.r.t. log π of one row with these ratios, of which the first `tokens` are not masked."""
    logratio = torch.tensor([ratios], dtype=torch.float64).log().requires_grad_()
    mask = torch.arange(len(ratios))[None] < (len(ratios) if tokens is None else tokens)
    value = getattr(surrogate, function)(logratio, torch.full_like(logratio, sign).detach(), mask, **knobs)
    torch.where(mask, value, 0.0).sum().backward()
    assert logratio.grad is not None
    return value[0].tolist(), logratio.grad[0].tolist()


def _token(function: str, ratio: float, sign: float, **knobs: float) -> list[float]:
    """Value and gradient of a row of one token."""
    value, gradient = _row(function, [ratio], sign, **knobs)
    return value + gradient


# ratio, advantage, knobs, value, gradient: ρA or none
CLIP: list[tuple[float, float, dict[str, float], float, float]] = [
    (1.25, 1, {"high": 0.20}, 1.20, 0.0),
    (1.25, 1, {"high": 0.28}, 1.25, 1.25),
    (1.25, 1, {"high": 0.32}, 1.25, 1.25),
    (1.30, 1, {"high": 0.20}, 1.20, 0.0),
    (1.30, 1, {"high": 0.28}, 1.28, 0.0),
    (1.30, 1, {"high": 0.32}, 1.30, 1.30),
    (1.19, 1, {}, 1.19, 1.19),
    (1.21, 1, {}, 1.20, 0.0),
    (0.81, -1, {}, -0.81, -0.81),
    (0.79, -1, {}, -0.80, 0.0),
    (0.50, 1, {}, 0.50, 0.50),  # an unlikely right answer is pulled up at any ratio
    (3.50, -1, {}, -3.50, -3.50),  # no dual clip: the ratio is not bounded for a negative advantage
    (0.85, -2, {"low": 0.1, "high": 0.4}, -1.80, 0.0),
    (1.35, 2, {"low": 0.1, "high": 0.4}, 2.70, 2.70),
    (0.65, -1, {"low": 0.4, "high": 0.1}, -0.65, -0.65),
    (2.00, 1, {"high": 1.0}, 2.00, 2.00),  # at the bound the gradient is still there
    (0.50, -1, {"low": 0.5}, -0.50, -0.50),
]


@pytest.mark.parametrize(("ratio", "sign", "knobs", "value", "gradient"), CLIP)
def test_clip_of_one_token(ratio: float, sign: float, knobs: dict[str, float], value: float, gradient: float) -> None:
    assert _token("clip", ratio, sign, **knobs) == pytest.approx([value, gradient])


@pytest.mark.parametrize(("ratio", "sign", "knobs", "value", "gradient"), [case for case in CLIP if case[0] != 3.5])
def test_dual_clip_is_clip_while_no_ratio_passes_c(
    ratio: float, sign: float, knobs: dict[str, float], value: float, gradient: float
) -> None:
    assert _token("dual_clip", ratio, sign, **knobs) == pytest.approx([value, gradient])


@pytest.mark.parametrize(
    ("ratio", "sign", "knobs", "value", "gradient"),
    [
        (3.5, -1, {}, -3.0, 0.0),  # c = 3 by default
        (2.9, -1, {}, -2.9, -2.9),
        (3.5, -1, {"c": 1.4}, -1.4, 0.0),
        (10.0, -1, {"c": 3.0}, -3.0, 0.0),
        (3.5, -2, {"c": 3.0}, -6.0, 0.0),
        (1.15, 0.5, {}, 0.575, 0.575),  # c has no part where A > 0
        (1.15, 1, {"c": 1.1}, 1.15, 1.15),
        (10.0, -0.5, {}, -1.5, 0.0),
    ],
)
def test_dual_clip_of_one_token(
    ratio: float, sign: float, knobs: dict[str, float], value: float, gradient: float
) -> None:
    assert _token("dual_clip", ratio, sign, **knobs) == pytest.approx([value, gradient])


def test_reinforce_of_one_token() -> None:
    assert _token("reinforce", 1.5, -2.0) == pytest.approx([-2 * math.log(1.5), -2.0])


def test_gspo_has_the_geometric_mean_of_a_rows_ratios() -> None:
    # ratios 2 and .5 have the mean 1; 2 and .605 have √1.21 = 1.1; behind the end there is anything
    assert _row("gspo", [2.0, 0.5], 3.0, low=0.2, high=0.2) == ([pytest.approx(3.0)] * 2, [pytest.approx(3.0)] * 2)
    value, gradient = _row("gspo", [2.0, 0.605, 50.0], 3.0, tokens=2, low=0.2, high=0.2)
    assert value[:2] == pytest.approx([3.3, 3.3])
    assert gradient == pytest.approx([3.3, 3.3, 0.0])


@pytest.mark.parametrize(
    ("ratio", "sign", "value", "gradient"),
    [
        (1.00039, 1, 1.00039, 1.00039),
        (1.00041, 1, 1.0004, 0.0),
        (0.99971, -1, -0.99971, -0.99971),
        (0.99969, -1, -0.9997, 0.0),
        (1.00041, -1, -1.00041, -1.00041),
    ],
)
def test_gspos_clips_are_small_by_default(ratio: float, sign: float, value: float, gradient: float) -> None:
    assert _token("gspo", ratio, sign) == pytest.approx([value, gradient], abs=1e-9)
    # a sequence is clipped as one: two tokens of that ratio
    assert _row("gspo", [ratio, ratio], sign)[1] == pytest.approx([gradient, gradient], abs=1e-9)


def test_gspo_of_a_row_without_tokens_has_ratio_one() -> None:
    assert _row("gspo", [1.0, 1.0], 2.0, tokens=0) == ([2.0, 2.0], [0.0, 0.0])
    assert _row("gmpo", [1.0, 1.0], 2.0, tokens=0) == ([2.0, 2.0], [0.0, 0.0])


@pytest.mark.parametrize("sign", [1.0, -2.0])
@pytest.mark.parametrize(
    ("ratio", "knobs", "capped"),
    [(6.0, {}, 5.0), (4.9, {}, 4.9), (0.01, {}, 0.01), (0.5, {"low": 0.2}, 0.8), (1.5, {"high": 0.2}, 1.2)],
)
def test_cispo_caps_the_weight_and_keeps_the_gradient(
    ratio: float, knobs: dict[str, float], capped: float, sign: float
) -> None:
    assert _token("cispo", ratio, sign, **knobs) == pytest.approx([capped * sign * math.log(ratio), capped * sign])


@pytest.mark.parametrize(
    ("ratio", "sign", "knobs", "tau"),
    [
        (1.0, 1, {}, 1.0),
        (2.0, 1, {}, 1.0),
        (2.0, -1, {}, 1.05),
        (0.5, -2, {}, 1.05),
        (2.0, 0.5, {"tau_positive": 3.0}, 3.0),
        (2.0, -0.5, {"tau_negative": 3.0}, 3.0),
    ],
)
def test_sapo_of_one_token(ratio: float, sign: float, knobs: dict[str, float], tau: float) -> None:
    # with x = τ (ρ - 1): 4/τ · 1/(1 + e^-x), whose slope in log ρ is ρ / cosh²(x/2)
    x = tau * (ratio - 1)
    expected = [4 / tau / (1 + math.exp(-x)) * sign, ratio / math.cosh(x / 2) ** 2 * sign]
    assert _token("sapo", ratio, sign, **knobs) == pytest.approx(expected, rel=1e-6)


def test_sapo_at_ratio_one_is_two_over_tau() -> None:
    assert _token("sapo", 1.0, 1.0) == pytest.approx([2.0, 1.0])
    assert _token("sapo", 1.0, -1.0) == pytest.approx([-1.904762, -1.0])


@pytest.mark.parametrize(
    ("sign", "knobs", "mean", "gradient"),
    [
        # log-ratios .9 and -1.0 are .4 and -1.0 for A > 0: mean -.3; .9 and -.4 for A < 0: mean .25
        (2.0, {}, -0.3, [0.0, 1.0]),
        (-2.0, {}, 0.25, [1.0, 0.0]),
        (0.5, {"high": 0.6, "low": 9.0}, -0.2, [0.0, 1.0]),
        (-0.5, {"low": 0.1, "high": 9.0}, 0.4, [1.0, 0.0]),
    ],
)
def test_gmpo_has_one_geometric_mean_per_row(
    sign: float, knobs: dict[str, float], mean: float, gradient: list[float]
) -> None:
    # S is on both tokens and a token has half of the mean, so that its gradient is S or, where clipped, 0
    value, slope = _row("gmpo", [math.exp(0.9), math.exp(-1.0), 77.0], sign, tokens=2, **knobs)
    expected = sign * math.exp(mean)
    assert value[:2] == pytest.approx([expected, expected])
    assert slope == pytest.approx([expected * gradient[0], expected * gradient[1], 0.0])


@pytest.mark.parametrize(
    ("ratio", "sign", "knobs", "kept"),
    [
        (0.5, -2, {}, 0.5),
        (0.5, -0.5, {}, 0.5),
        (2.0, -2, {}, 1.0),  # cap 1 by default
        (2.0, -2, {"cap": 1.5}, 1.5),
        (0.5, -2, {"cap": 0.25}, 0.25),
        (0.5, 2, {}, 1.0),  # right answers keep their weight
        (0.5, 0.5, {}, 1.0),
        (2.0, 2, {"cap": 0.25}, 1.0),
    ],
)
def test_topr_of_one_token(ratio: float, sign: float, knobs: dict[str, float], kept: float) -> None:
    assert _token("topr", ratio, sign, **knobs) == pytest.approx([kept * sign * math.log(ratio), kept * sign])


# Two rows, log-ratios and mask below, A = +1 and -1: losses and gradients w.r.t. log π as verl 0.9.1 computes them
LOGRATIO = [[0.3, -0.3, 0.0], [0.2, 0.1, -0.5]]
MASK = torch.tensor([[True, True, False], [True, True, True]])
SECOND = [0.24428, 0.22103, 0.0]
BOTH_02 = {"low": 0.2, "high": 0.2}
PUBLISHED: list[tuple[str, dict[str, float], str, float, list[float], list[float]]] = [
    ("clip", {"low": 0.2, "high": 0.20}, "token_mean", 0.237151, [0.0, -0.14816, 0.0], SECOND),
    ("clip", {"low": 0.2, "high": 0.28}, "token_mean", 0.221151, [0.0, -0.14816, 0.0], SECOND),
    ("clip", {"low": 0.2, "high": 0.32}, "token_mean", 0.213151, [0.0, -0.14816, 0.0], SECOND),
    ("clip", {"low": 0.2, "high": 0.36}, "token_mean", 0.207179, [-0.26997, -0.14816, 0.0], SECOND),
    ("dual_clip", {**BOTH_02, "c": 3.0}, "token_mean", 0.237151, [0.0, -0.14816, 0.0], SECOND),
    ("clip", BOTH_02, "sequence_mean", 0.035891, [0.0, -0.1852, 0.0], [0.20357, 0.1842, 0.0]),
    ("clip", BOTH_02, "sequence_sum", 0.592878, [0.0, -0.37041, 0.0], [0.6107, 0.55259, 0.0]),
    ("gspo", BOTH_02, "sequence_mean", -0.032247, [-0.25, -0.25, 0.0], [0.15592] * 3),
    ("cispo", BOTH_02, "sequence_mean", -0.038247, [-0.3, -0.2, 0.0], [0.2, 0.1842, 0.13333]),
    ("gmpo", BOTH_02, "sequence_mean", 0.041333, [0.0, -0.23781, 0.0], [0.17232, 0.17232, 0.0]),
    ("sapo", {}, "sequence_mean", -0.080182, [-0.32735, -0.18213, 0.0], [0.20084, 0.18363, 0.09689]),
    ("reinforce", {}, "sequence_mean", -0.033333, [-0.25, -0.25, 0.0], [0.16667] * 3),
]


@pytest.mark.parametrize(("name", "knobs", "aggregation", "loss", "first", "second"), PUBLISHED)
def test_agrees_with_another_implementation(
    name: str, knobs: dict[str, float], aggregation: str, loss: float, first: list[float], second: list[float]
) -> None:
    logratio = torch.tensor(LOGRATIO, dtype=torch.float64, requires_grad=True)
    sign = torch.tensor([[1.0], [-1.0]], dtype=torch.float64).expand(2, 3)
    weights = getattr(weight, aggregation)(MASK[None])[0]
    total = -(weights * getattr(surrogate, name)(logratio, sign, MASK, **knobs)).sum()
    total.backward()
    assert float(total.detach()) == pytest.approx(loss, abs=1e-6)
    assert logratio.grad is not None
    assert logratio.grad[0].tolist() == pytest.approx(first, abs=1e-5)
    assert logratio.grad[1].tolist() == pytest.approx(second, abs=1e-5)
