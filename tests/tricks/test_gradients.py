"""Gradients of every surrogate and penalty found: by finite differences, or written out where a gradient is stopped."""

import inspect
from collections.abc import Callable

import pytest
import torch

from harness import tricks
from harness.tricks import penalty, surrogate
from tests.tricks.batches import names

# A finite difference sees through a stop-gradient, so these have their gradient written out below.
STOPPED = ["gspo", "cispo", "topr"]

# Both signs of the advantage, one sign per row; away from ratios .8, 1.2 and 3 and log-ratios ±.4, where clips bend.
POINTS = torch.tensor([[-1.5, -0.5, -0.1, 0.05], [0.3, 0.6, 1.5, -0.3], [-1.5, 0.05, 0.3, 1.5], [-0.6, -0.1, 0.6, 0.3]])
SIGNS = torch.tensor([[1.3], [0.7], [-1.1], [-0.4]], dtype=torch.float64).expand(4, 4)
MASK = torch.tensor([[True] * 4, [True] * 3 + [False], [True] * 2 + [False] * 2, [True] * 4])


def _points() -> torch.Tensor:
    return POINTS.double().requires_grad_()


@pytest.mark.parametrize("name", [name for name in names("surrogate") if name not in STOPPED])
def test_surrogates_gradient_is_that_of_its_value(name: str) -> None:
    function = getattr(surrogate, name)
    assert torch.autograd.gradcheck(lambda x: function(x, SIGNS, MASK), (_points(),))


def _slope(name: str, **knobs: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of the kept tokens' sum w.r.t. the log-ratios, and the ratios."""
    logratio = _points()
    value = getattr(surrogate, name)(logratio, SIGNS, MASK, **knobs)
    torch.where(MASK, value, 0.0).sum().backward()
    assert logratio.grad is not None
    return logratio.grad[MASK], logratio.detach().exp()


def test_cispos_gradient_is_the_capped_ratio_times_the_advantage() -> None:
    gradient, ratio = _slope("cispo", low=0.3, high=0.7)
    capped = torch.tensor([[min(max(x, 0.7), 1.7) for x in row] for row in ratio.tolist()], dtype=torch.float64)
    assert torch.allclose(gradient, (capped * SIGNS)[MASK], rtol=1e-12)


def test_toprs_gradient_is_the_advantage_and_fades_for_wrong_answers() -> None:
    gradient, ratio = _slope("topr", cap=1.2)
    faded = torch.tensor([[min(x, 1.2) for x in row] for row in ratio.tolist()], dtype=torch.float64)
    faded[:2] = 1.0  # the rows with a positive advantage
    assert torch.allclose(gradient, (faded * SIGNS)[MASK], rtol=1e-12)


def test_gspos_gradient_is_the_sequence_ratio_times_the_advantage_unless_clipped() -> None:
    # mean log-ratios over the mask are -2.05/4, 2.4/3, -1.45/2 and .2/4: ratios .599, 2.226, .484, 1.051. The bounds .7
    # and 1.5 clip the second (A > 0, above) and the third (A < 0, below), not the first (A > 0, below)
    gradient, _ = _slope("gspo", low=0.3, high=0.5)
    row = torch.tensor([-2.05 / 4, 2.4 / 3, -1.45 / 2, 0.2 / 4], dtype=torch.float64).exp()
    expected = torch.stack([row[0] * SIGNS[0], 0 * SIGNS[1], 0 * SIGNS[2], row[3] * SIGNS[3]])
    assert torch.allclose(gradient, expected[MASK], rtol=1e-6)


@pytest.mark.parametrize("name", STOPPED)
def test_only_what_is_stopped_escapes_the_finite_difference(name: str) -> None:
    function: Callable[..., torch.Tensor] = getattr(surrogate, name)
    assert not torch.autograd.gradcheck(lambda x: function(x, SIGNS, MASK), (_points(),), raise_exception=False)


@pytest.mark.parametrize("name", names("penalty"))
def test_penaltys_gradient_is_that_of_its_value(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    fixed = {"right": torch.tensor([True, False, True]), "entropies": torch.tensor([0.1, 0.1, 0.15]).double()}
    carried = {
        key: torch.rand(3, 5, generator=generator, dtype=torch.float64, requires_grad=True)
        for key in ("logp", "ref_logp", "entropy")
    }
    function, inputs = getattr(penalty, name), tricks.get("penalty", name).inputs
    assert list(inspect.signature(function).parameters)[: len(inputs)] == list(inputs)

    def value(*given: torch.Tensor) -> torch.Tensor:
        offered = fixed | dict(zip(carried, given, strict=True))
        return function(*(offered[key] for key in inputs))

    assert torch.autograd.gradcheck(value, tuple(carried.values()))
