"""AdamW over one flat vector: every parameter is a view of it, and every gradient a view of another.

A step then costs two passes over two vectors, where a small model would pay for a call per tensor. The gradient's
norm is clipped as a whole, which is what `torch.nn.utils.clip_grad_norm_` does over a list. Leaves out: parameters
of several dtypes or devices.
"""

import math

import torch
from torch import Tensor

from harness.config import Train
from harness.core import parallel


class Optimizer:
    def __init__(self, parameters: list[Tensor], settings: Train, lr: float) -> None:
        """`settings` gives everything but the learning rate, which policy and critic have each of their own."""
        self.settings, self.lr = settings, lr
        self.vector = torch.nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
        self.vector.grad = torch.zeros_like(self.vector)
        start = 0
        for p in parameters:
            part = slice(start, start + p.numel())
            p.data = self.vector.data[part].view(p.shape)
            p.grad = self.vector.grad[part].view(p.shape)
            start += p.numel()
        self.adam = torch.optim.AdamW(
            [self.vector],
            lr=lr,
            betas=(settings.beta1, settings.beta2),
            eps=settings.adam_eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    @property
    def gradient(self) -> Tensor:
        assert self.vector.grad is not None
        return self.vector.grad

    def step(self, rollout: int) -> float:
        """Sums the gradient over ranks, clips it, updates, and clears it; returns its norm before clipping.

        `rollout` counts from 0 and drives the linear warm-up. A norm that is not finite updates nothing.
        """
        parallel.sum_over_ranks(self.gradient)
        norm = float(self.gradient.norm())
        if math.isfinite(norm):
            limit = self.settings.max_grad_norm
            if limit is not None and norm > limit:
                self.gradient.mul_(limit / norm)
            warm = min(1.0, (rollout + 1) / max(1, self.settings.warmup_steps))
            self.adam.param_groups[0]["lr"] = self.lr * warm
            self.adam.step()
        self.gradient.zero_()
        return norm

    def state(self) -> dict[str, Tensor]:
        """Adam's moments and step count; empty before the first step."""
        return dict(self.adam.state_dict()["state"].get(0, {}))

    def load(self, state: dict[str, Tensor]) -> None:
        self.adam.load_state_dict(self.adam.state_dict() | {"state": {0: state} if state else {}})
