"""The element-wise passes of a Qwen3 block with hand-written backwards, for the CPU.

Tokens lie along the last axis (`[features, N]`): every pass is then one long contiguous loop per feature, where
`[N, heads, 32]` would be thousands of short ones. Composed of elementary differentiable operations these passes
take over twice as long. Under `no_grad` plain branches serve decoding, where a call through autograd would cost
more than the work.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def unit(x: Float[Tensor, "d N"], eps: Float[Tensor, "1"]) -> Float[Tensor, "d N"]:
    """x̂ = x / sqrt(mean(x²) + eps) over the features."""
    if not torch.is_grad_enabled():
        return x * _scale(x, 0, eps)
    return _Unit.apply(x, eps)


def turn_heads(
    h: Float[Tensor, "AD N"],
    w: Float[Tensor, "QK D"],
    cos: Float[Tensor, "half N"],
    sin: Float[Tensor, "half N"],
    eps: Float[Tensor, "1"],
) -> Float[Tensor, "AD N"]:
    """Normalises and rotates the first QK heads (queries and keys); passes the others (values) on."""
    if not torch.is_grad_enabled():
        head = h[: w.numel()].view(*w.shape, -1)
        _rotate((head * _scale(head, 1, eps)).mul_(w[..., None]), cos, sin, out=head)
        return h
    return _TurnHeads.apply(h, w, cos, sin, eps)


def swiglu(h: Float[Tensor, "II N"]) -> Float[Tensor, "I N"]:
    """silu(gate) · up of h = [gate, up]."""
    if not torch.is_grad_enabled():
        gate, up = h.chunk(2)
        return F.silu(gate).mul_(up)
    return _SwiGLU.apply(h)


def _scale(x: Tensor, dim: int, eps: Tensor) -> Tensor:
    """1 / sqrt(mean(x²) + eps) over `dim`, kept as an axis of one."""
    return torch.add(eps, x.square().sum(dim, keepdim=True), alpha=1 / x.shape[dim]).rsqrt_()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, out: Tensor) -> None:
    """out = x cos + rotate_half(x) sin for heads x [A, D, N], with rotate_half([a, b]) = [-b, a].

    With -sin it rotates back, which is its transpose. `out` must not be `x`.
    """
    half = len(cos)
    torch.mul(x[:, :half], cos, out=out[:, :half]).addcmul_(x[:, half:], sin, value=-1)
    torch.mul(x[:, half:], cos, out=out[:, half:]).addcmul_(x[:, :half], sin)


class _Unit(torch.autograd.Function):
    """∂x = (g - x̂ · mean(g x̂)) / rms."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: Tensor) -> Tensor:
        scale = _scale(x, 0, eps)
        normed = x * scale
        ctx.save_for_backward(normed, scale)
        return normed

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        normed, scale = ctx.saved_tensors
        mean = (grads[0] * normed).sum(0, keepdim=True)
        return torch.addcmul(grads[0], normed, mean, value=-1 / len(normed)).mul_(scale), None


class _TurnHeads(torch.autograd.Function):
    """y = rotate(w x̂): the rotation's transpose first, then as `_Unit` with g w; ∂w = Σ g x̂."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, w: Tensor, cos: Tensor, sin: Tensor, eps: Tensor) -> Tensor:
        turned = w.numel()
        head, out = h[:turned].view(*w.shape, -1), torch.empty_like(h)
        scale = _scale(head, 1, eps)
        normed = head * scale
        ctx.save_for_backward(normed, scale, w, cos, sin)
        _rotate(normed * w[..., None], cos, sin, out=out[:turned].view(head.shape))
        out[turned:] = h[turned:]
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        normed, scale, w, cos, sin = ctx.saved_tensors
        turned, out = w.numel(), torch.empty_like(grads[0])
        g = torch.empty_like(normed)
        _rotate(grads[0][:turned].view(normed.shape), cos, -sin, out=g)
        product = g * normed
        mean = torch.bmm(w[:, None], product)  # [heads, 1, N]
        g.mul_(w[..., None]).addcmul_(normed, mean, value=-1 / normed.shape[1])
        torch.mul(g, scale, out=out[:turned].view(normed.shape))
        out[turned:] = grads[0][turned:]
        return out, product.sum(-1), None, None, None


class _SwiGLU(torch.autograd.Function):
    """∂up = g silu(gate), ∂gate = g up silu'(gate), written into one buffer."""

    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:
        gate, up = h.chunk(2)
        active = F.silu(gate)
        ctx.save_for_backward(h, active)
        return active * up

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        h, active = ctx.saved_tensors
        gate, up = h.chunk(2)
        out = torch.empty_like(h)
        gate_out, up_out = out.chunk(2)
        torch.mul(grads[0], active, out=up_out)
        torch.ops.aten.silu_backward.grad_input(grads[0] * up, gate, grad_input=gate_out)
        return out
