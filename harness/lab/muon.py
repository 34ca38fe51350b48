"""Muon for matrices in float32, batched over equal shapes: orthogonalised momentum.

torch.optim.Muon orthogonalises in bfloat16, one matrix at a time, which on a CPU without bfloat16 units takes longer
than the forward and backward pass together. Leaves out: anything but matrices (embeddings and norms go to AdamW).
Ref: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

_A, _B, _C = 3.4445, -4.7750, 2.0315  # the quintic of the reference: steep at 0, near 1 elsewhere


def orthogonalise(g: Float[Tensor, "n rows cols"], steps: int = 5) -> Float[Tensor, "n rows cols"]:
    """Each matrix with its singular values moved close to 1."""
    wide = g.shape[1] <= g.shape[2]
    x = g if wide else g.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = _A * x + (_B * square + _C * square @ square) @ x
    return x if wide else x.mT


class Muon:
    """Nesterov momentum, orthogonalised and scaled by sqrt(max(1, rows / cols))."""

    def __init__(self, matrices: Sequence[Tensor], momentum: float = 0.95) -> None:
        shapes = sorted({tuple(m.shape) for m in matrices})
        self._groups = [[m for m in matrices if tuple(m.shape) == shape] for shape in shapes]
        self._buffers = [torch.zeros(len(group), *group[0].shape) for group in self._groups]
        self._momentum = momentum

    @torch.no_grad()
    def step(self, lr: float) -> None:
        for group, buffer in zip(self._groups, self._buffers, strict=True):
            grad = torch.stack([m.grad for m in group if m.grad is not None])
            buffer.lerp_(grad, 1 - self._momentum)
            update = orthogonalise(grad.lerp(buffer, self._momentum))
            scale = max(1.0, grad.shape[1] / grad.shape[2]) ** 0.5
            for matrix, change in zip(group, update, strict=True):
                matrix.add_(change, alpha=-lr * scale)
