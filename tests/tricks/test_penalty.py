"""Slot `penalty` in literal numbers: KL estimators, entropy terms, imitation; and what the KL's gradient should be."""

import math
from collections.abc import Callable

import pytest
import torch

from harness.tricks import penalty

D = [0.5, -0.5, 5.0, -5.0, 0.0]  # logp - ref_logp


def _tensor(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


def _value_and_slope(name: str, knobs: dict[str, float]) -> tuple[list[float], list[float]]:
    """At every d of D, and w.r.t. logp."""
    ref = _tensor(-1.0, -2.0, -3.0, -4.0, -5.0)
    logp = (ref + _tensor(*D)).requires_grad_()
    value = getattr(penalty, name)(logp, ref, **knobs)
    value.sum().backward()
    assert logp.grad is not None
    return value[0].tolist(), logp.grad[0].tolist()


@pytest.mark.parametrize(
    ("name", "default", "values", "slopes"),
    [
        ("k1", 0.01, D, [1.0] * 5),
        ("k2", 0.01, [0.125, 0.125, 12.5, 12.5, 0.0], D),
        # no clamp: other implementations answer 10 for the fourth. The slope is 1 - e^-d
        (
            "k3",
            0.04,
            [0.106531, 0.148721, 4.006738, 142.413159, 0.0],
            [0.393469, -0.648721, 0.993262, -147.413159, 0.0],
        ),
    ],
)
def test_kl_estimators(name: str, default: float, values: list[float], slopes: list[float]) -> None:
    for knobs, beta in (({"beta": 1.0}, 1.0), ({"beta": 0.5}, 0.5), ({}, default)):
        value, slope = _value_and_slope(name, knobs)
        assert value == pytest.approx([beta * x for x in values], abs=1e-6)
        assert slope == pytest.approx([beta * x for x in slopes], abs=1e-6)


def _expected_gradient(function: Callable[..., torch.Tensor]) -> list[float]:
    """E_{y ~ π}[∇ κ(log π(y), log ref(y))] w.r.t. the logits of a three-token policy, by enumeration."""
    logits = torch.tensor([0.7, -0.4, 0.1], dtype=torch.float64, requires_grad=True)
    logp = logits.log_softmax(0)[None]
    ref_logp = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64).log()
    (logp.exp().detach() * function(logp, ref_logp, beta=1.0)).sum().backward()
    assert logits.grad is not None
    return logits.grad.tolist()


def _policy_and_reference() -> tuple[list[float], list[float]]:
    unnormalised = [math.exp(0.7), math.exp(-0.4), math.exp(0.1)]
    return [x / sum(unnormalised) for x in unnormalised], [0.2, 0.5, 0.3]


def test_only_k2_has_the_gradient_of_the_reverse_kl() -> None:
    # KL(π‖ref) = Σ π log(π/ref); by the softmax's derivative its slope in logit j is π_j (log(π_j/ref_j) - KL)
    policy, reference = _policy_and_reference()
    logs = [math.log(p / r) for p, r in zip(policy, reference, strict=True)]
    kl = sum(p * log for p, log in zip(policy, logs, strict=True))
    assert _expected_gradient(penalty.k2) == pytest.approx(
        [p * (log - kl) for p, log in zip(policy, logs, strict=True)]
    )


def test_k1_as_a_loss_pulls_nowhere() -> None:
    # E[∇ log π] = 0
    assert _expected_gradient(penalty.k1) == pytest.approx([0.0] * 3, abs=1e-12)


def test_k3_has_the_gradient_of_the_other_kl() -> None:
    # ∇ k3 = (1 - ref/π) ∇ log π, whose mean is -Σ ref ∇ log π = π - ref: the slope of KL(ref‖π)
    policy, reference = _policy_and_reference()
    assert _expected_gradient(penalty.k3) == pytest.approx([p - r for p, r in zip(policy, reference, strict=True)])


def test_none_is_nothing_whatever_the_policy() -> None:
    assert penalty.none(_tensor(-1.0, -math.inf)).tolist() == [[0.0, 0.0]]


def test_entropy_bonus() -> None:
    assert penalty.entropy_bonus(_tensor(2.0, 0.5))[0].tolist() == pytest.approx([-0.002, -0.0005])
    assert penalty.entropy_bonus(_tensor(2.0, 0.5), coefficient=0.1)[0].tolist() == pytest.approx([-0.2, -0.05])


# entropies of the rollouts so far, knobs, the coefficient that the last one has
TARGET: list[tuple[list[float], dict[str, float], float]] = [
    ([], {}, 0.0),
    ([0.1], {}, 0.0),  # c starts at 0
    ([0.1, 0.1], {}, 0.005),
    ([0.1, 0.1, 0.3, 0.15], {}, 0.005),  # c = .005, .010, .005
    ([0.1, 0.1, 0.1, 0.15], {}, 0.015),
    ([0.1, 0.1, 0.3], {}, 0.0),  # c = .010, but the last is above the target
    ([0.1, 0.2], {}, 0.005),  # at the target it is on
    ([0.1, 0.1, 0.2, 0.1], {}, 0.005),  # and falls: c = .005, .010, .005
    ([0.9, 0.9, 0.1, 0.1], {}, 0.005),  # c is never below 0
    ([0.1] * 4, {"largest": 0.008}, 0.008),  # nor above the largest
    ([0.1, 0.1, 0.1, 0.3, 0.1], {"largest": 0.008}, 0.003),  # c = .005, .008, .008, .003
    ([0.1] * 4, {"change": 0.6}, 1.0),  # the largest is 1 by default
    ([0.1] * 2, {"change": 0.6}, 0.6),
    ([0.4, 0.4], {"target": 0.5}, 0.005),
    ([0.4, 0.4], {"target": 0.3}, 0.0),
    ([0.19, 0.19], {}, 0.005),  # the target is .2 by default
    ([0.21, 0.21], {}, 0.0),
]


@pytest.mark.parametrize(("entropies", "knobs", "expected"), TARGET)
def test_entropy_target_moves_its_coefficient(entropies: list[float], knobs: dict[str, float], expected: float) -> None:
    history = torch.tensor(entropies, dtype=torch.float64)
    value = penalty.entropy_target(_tensor(2.0, 0.5), history, **knobs)
    assert value[0].tolist() == pytest.approx([-2 * expected, -expected / 2], abs=1e-12)


def test_sft_imitates_right_answers_only() -> None:
    logp = torch.tensor([[-1.0, -3.0], [-2.0, -math.inf]], dtype=torch.float64, requires_grad=True)
    value = penalty.sft(logp, torch.tensor([True, False]))
    assert value.tolist() == [pytest.approx([0.1, 0.3]), [0.0, 0.0]]
    value.sum().backward()
    assert logp.grad is not None
    assert logp.grad.tolist() == [pytest.approx([-0.1, -0.1]), [0.0, 0.0]]
    doubled = penalty.sft(logp.detach(), torch.tensor([True, True]), coefficient=0.2)
    assert doubled[0].tolist() == pytest.approx([0.2, 0.6])
