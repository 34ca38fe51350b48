"""Running moments of all rewards a run has trained on so far: count, mean, squared deviations, least, largest.

Leaves out: who keeps them (`harness.core.state`) and who reads them (`advantage.running`).
"""

import torch
from jaxtyping import Float
from torch import Tensor


def empty() -> Float[Tensor, "5"]:
    """No reward yet."""
    return torch.tensor([0.0, 0.0, 0.0, torch.inf, -torch.inf], dtype=torch.float64)


def merge(past: Float[Tensor, "5"], values: Float[Tensor, "n"]) -> Float[Tensor, "5"]:
    """The moments with `values` added, in float64.

    n = n₁ + n₂, mean = mean₁ + δ n₂/n, squares = squares₁ + squares₂ + δ² n₁ n₂/n with δ = mean₂ - mean₁
    (Chan, Golub and LeVeque 1979).
    """
    if not values.numel():
        return past.clone()
    values = values.double()
    count, added = past[0], values.numel()
    total, mean = count + added, values.mean()
    delta = mean - past[1]
    squares = past[2] + (values - mean).square().sum() + delta.square() * count * added / total
    low, high = torch.minimum(past[3], values.min()), torch.maximum(past[4], values.max())
    return torch.stack([total, past[1] + delta * added / total, squares, low, high])
