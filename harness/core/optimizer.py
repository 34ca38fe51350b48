"""AdamW over float32 vectors, one interface for whole and for sharded parameters.

In one process all parameters lie in one flat vector, each a view of it, and their gradients in another: a step then
costs two passes over two vectors, where a small model would pay for a call per tensor. Of sharded parameters each one's
rows on this rank are a vector. The gradient's norm is clipped as a whole, over all shards. A parameter of less than
float32 is a copy of its part of the vector, so that small updates add up, and its gradient is summed in float32 too.
Leaves out: parameters on several devices.
"""

import math

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from harness.config import Train
from harness.core import parallel
from harness.core.pieces import Piece, whole
from harness.core.sharded import local_rows

MOMENTS = ("exp_avg", "exp_avg_sq")  # torch's names of Adam's two


class Optimizer:
    def __init__(self, parameters: dict[str, Tensor], settings: Train, lr: float) -> None:
        """`settings` gives everything but the learning rate, which policy and critic have each of their own."""
        self.parameters, self.settings, self.lr = parameters, settings, lr
        self.sharded = any(isinstance(p, DTensor) for p in parameters.values())
        if self.sharded:
            self.vectors = [torch.nn.Parameter(local_rows(p)[0]) for p in parameters.values()]
        else:
            flat = torch.cat([p.detach().flatten().float() for p in parameters.values()])
            self.vectors = [torch.nn.Parameter(flat)]
            self.vectors[0].grad = torch.zeros_like(flat)
            self._make_views()
        self.updates = torch.zeros((), dtype=torch.int64)
        self.adam = torch.optim.AdamW(
            self.vectors,
            lr=lr,
            betas=(settings.beta1, settings.beta2),
            eps=settings.adam_eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        for vector in self.vectors:
            moments = {name: torch.zeros_like(vector.detach()) for name in MOMENTS}
            self.adam.state[vector] = moments | {"step": torch.zeros((), device=vector.device)}

    def step(self, rollout: int) -> float:
        """Clips the gradient, updates, and clears it; returns its norm before clipping, the same on all ranks.

        `rollout` counts from 0 and drives the linear warm-up. A norm that is not finite updates nothing.
        """
        gradients = self.gradients()
        norm = self._norm(gradients)
        if math.isfinite(norm):
            limit = self.settings.max_grad_norm
            if limit is not None and norm > limit:
                for gradient in gradients:
                    gradient.mul_(limit / norm)
            warm = min(1.0, (rollout + 1) / max(1, self.settings.warmup_steps))
            self.adam.param_groups[0]["lr"] = self.lr * warm
            self.adam.step()
            self.updates += 1
            self._publish()
        self.clear()
        return norm

    def gradients(self) -> list[Tensor]:
        """A vector's each; zeros for a sharded parameter that no loss has reached."""
        if self.sharded:
            for vector, parameter in zip(self.vectors, self.parameters.values(), strict=True):
                given = parameter.grad
                vector.grad = torch.zeros_like(vector) if given is None else local_rows(given)[0]
        return [vector.grad for vector in self.vectors if vector.grad is not None]

    def clear(self) -> None:
        if not self.sharded:
            self.gradients()[0].zero_()
            return
        for parameter in self.parameters.values():
            parameter.grad = None

    def pieces(self) -> dict[str, Piece]:
        """Weights, Adam's moments and the number of updates, by name. Their memory is the optimizer's own."""
        found = {"updates": whole(self.updates)}
        kinds = {"weight": [vector.detach() for vector in self.vectors]}
        kinds |= {moment: [self.adam.state[vector][moment] for vector in self.vectors] for moment in MOMENTS}
        for kind, tensors in kinds.items():
            for (name, parameter), data in zip(self.parameters.items(), self._cut(tensors), strict=True):
                found[f"{kind}/{name}"] = Piece(data, tuple(parameter.shape), local_rows(parameter)[1])
        return found

    def refresh(self) -> None:
        """Takes over what was written into the pieces."""
        for vector in self.vectors:
            self.adam.state[vector]["step"].fill_(int(self.updates))
        self._publish()

    def _cut(self, tensors: list[Tensor]) -> list[Tensor]:
        """Of one tensor per vector, what belongs to each parameter."""
        if self.sharded:
            return tensors
        parameters = self.parameters.values()
        parts = tensors[0].split([p.numel() for p in parameters])
        return [part.view(p.shape) for part, p in zip(parts, parameters, strict=True)]

    def _make_views(self) -> None:
        values, gradients = self._cut([self.vectors[0].detach()]), self._cut(self.gradients())
        for parameter, value, gradient in zip(self.parameters.values(), values, gradients, strict=True):
            if parameter.dtype == torch.float32:
                parameter.data = value
            else:
                parameter.grad_dtype = torch.float32
            parameter.grad = gradient

    @torch.no_grad()
    def _publish(self) -> None:
        """The vector's numbers into parameters that are no views of it."""
        if not self.sharded:
            values = self._cut([self.vectors[0].detach()])
            for parameter, value in zip(self.parameters.values(), values, strict=True):
                if parameter.dtype != torch.float32:
                    parameter.copy_(value)

    def _norm(self, gradients: list[Tensor]) -> float:
        if not self.sharded:
            return float(gradients[0].norm())
        squares = torch.nn.utils.get_total_norm(gradients).double().square().cpu()
        return math.sqrt(float(parallel.sum_over_ranks(squares)))
