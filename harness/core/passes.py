"""The two blocks of a Qwen3 layer, attention and MLP, with hand-written backwards, for the CPU.

Tokens lie along the last axis (`[features, N]`): every element-wise pass is then one long contiguous loop per
feature, where `[N, heads, 32]` would be thousands of short ones. At miniature size these passes, not the products,
take the time, and composed of elementary differentiable operations they take over twice as long. The helpers
`unit`, `turn_heads` and `swiglu` also serve decoding. Leaves out: the embedding, the head, which tokens see which
(`qwen3.py`).
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Layer:
    """One layer's weights, concatenated where one product or pass serves several.

    A norm's weight w is folded into the product after it: (w x̂) Mᵀ = x̂ (M diag w)ᵀ, one pass over the tokens less.
    """

    qkv: Tensor  # [A·D, d], A = H + 2K heads: queries, keys, values
    qk_norm: Tensor  # [H + K, D], the two norms' weights by head
    out: Tensor  # [d, H·D]
    gate_up: Tensor  # [2I, d]
    down: Tensor  # [d, I]


@dataclass(frozen=True)
class Gather:
    """Which token's which head stands where in the padded attention, as rows of a `[N·A, D]` view.

    R attention rows with W query slots and S key slots. A slot that no token fills repeats token 0: the mask hides
    it, or nothing reads it.
    """

    queries: Tensor  # [R·K·(H/K)·W]: the query heads that share a key head stand in the place of query positions
    keys: Tensor  # [R·K·S]
    values: Tensor  # [R·K·S]
    mask: Tensor  # [R, 1, W, S] additive
    back: Tensor  # [n·H] the slot of each token's each query head
    kv_heads: int


def attention(
    x: Float[Tensor, "d N"], layer: Layer, cos: Tensor, sin: Tensor, eps: Tensor, gather: Gather
) -> Float[Tensor, "d N"]:
    """x + out · attend(qkv · x̂), with cos and sin [D/2, N]."""
    return _Attention.apply(x, layer.qkv, layer.qk_norm, layer.out, cos, sin, eps, gather)


def mlp(x: Float[Tensor, "d N"], layer: Layer, eps: Tensor) -> Float[Tensor, "d N"]:
    """x + down · swiglu(gate_up · x̂)."""
    return _MLP.apply(x, layer.gate_up, layer.down, eps)


def unit(x: Float[Tensor, "d N"], eps: Float[Tensor, "1"]) -> Float[Tensor, "d N"]:
    """x̂ = x / sqrt(mean(x²) + eps) over the features."""
    return _Unit.apply(x, eps) if torch.is_grad_enabled() else x * _scale(x, 0, eps)


def turn_heads(h: Float[Tensor, "AD N"], w: Float[Tensor, "QK D"], cos: Tensor, sin: Tensor, eps: Tensor) -> None:
    """In place and without gradient: normalises and rotates the first QK heads, queries and keys."""
    head = h[: w.numel()].view(*w.shape, -1)
    _rotate((head * _scale(head, 1, eps)).mul_(w[..., None]), cos, sin, out=head)


def swiglu(h: Float[Tensor, "II N"]) -> Float[Tensor, "I N"]:
    """silu(gate) · up of h = [gate, up], without gradient."""
    gate, up = h.chunk(2)
    return F.silu(gate).mul_(up)


def _scale(x: Tensor, dim: int, eps: Tensor) -> Tensor:
    """1 / sqrt(mean(x²) + eps) over `dim`, kept as an axis of one."""
    return torch.add(eps, x.square().sum(dim, keepdim=True), alpha=1 / x.shape[dim]).rsqrt_()


def _unit_backward(g: Tensor, normed: Tensor, scale: Tensor) -> Tensor:
    """∂x = (g - x̂ · mean(g x̂)) / rms."""
    mean = (g * normed).sum(0, keepdim=True)
    return torch.addcmul(g, normed, mean, value=-1 / len(normed)).mul_(scale)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, out: Tensor) -> None:
    """out = x cos + rotate_half(x) sin for heads x [A, D, N], with rotate_half([a, b]) = [-b, a].

    With -sin it rotates back, which is its transpose. `out` must not be `x`.
    """
    half = len(cos)
    torch.mul(x[:, :half], cos, out=out[:, :half]).addcmul_(x[:, half:], sin, value=-1)
    torch.mul(x[:, half:], cos, out=out[:, half:]).addcmul_(x[:, :half], sin)


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: Tensor) -> Tensor:
        scale = _scale(x, 0, eps)
        normed = x * scale
        ctx.save_for_backward(normed, scale)
        return normed

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _unit_backward(grads[0], *ctx.saved_tensors), None


class _MLP(torch.autograd.Function):
    """With σ = sigmoid(gate), a = gate σ: ∂up = g a, ∂gate = g up (a + σ (1 - a)), where g = downᵀ ∂y."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gate_up: Tensor, down: Tensor, eps: Tensor) -> Tensor:
        scale = _scale(x, 0, eps)
        normed = x * scale
        h = gate_up @ normed
        gate, up = h.chunk(2)
        sigma = torch.sigmoid(gate)
        gate.mul_(sigma)  # h = [a, up] from here
        product = gate * up
        ctx.save_for_backward(scale, normed, h, sigma, product, gate_up, down)
        return torch.addmm(x, down, product)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        scale, normed, h, sigma, product, gate_up, down = ctx.saved_tensors
        active, up = h.chunk(2)
        out = torch.empty_like(h)
        gate_out, up_out = out.chunk(2)
        g = down.T @ grads[0]
        torch.mul(g, active, out=up_out)
        torch.add(active, sigma, out=gate_out).addcmul_(active, sigma, value=-1)
        gate_out.mul_(g.mul_(up))
        x_out = _unit_backward(gate_up.T @ out, normed, scale).add_(grads[0])
        return x_out, out @ normed.T, grads[0] @ product.T, None


class _Attention(torch.autograd.Function):
    """With P = softmax(q kᵀ / √D + mask): ∂v = Pᵀ g, ∂S = P (g vᵀ - Σ P g vᵀ), ∂q = ∂S k / √D, ∂k = ∂Sᵀ q / √D."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        qkv: Tensor,
        qk_norm: Tensor,
        out: Tensor,
        cos: Tensor,
        sin: Tensor,
        eps: Tensor,
        at: Gather,
    ) -> Tensor:
        (num_rows, _, width, span), head_dim = at.mask.shape, qk_norm.shape[1]
        scale = _scale(x, 0, eps)
        normed = x * scale
        h = qkv @ normed
        turned = qk_norm.numel()
        head, y = h[:turned].view(*qk_norm.shape, -1), torch.empty_like(h)
        head_scale = _scale(head, 1, eps)
        head_normed = head * head_scale
        _rotate(head_normed * qk_norm[..., None], cos, sin, out=y[:turned].view(head.shape))
        y[turned:] = h[turned:]

        by_head = y.T.contiguous().view(-1, head_dim)  # [N·A, D]
        batch = num_rows * at.kv_heads
        q, k, v = (by_head.index_select(0, i).view(batch, -1, head_dim) for i in (at.queries, at.keys, at.values))
        scores = torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0, alpha=head_dim**-0.5)
        scores.view(num_rows, -1, width, span).add_(at.mask)
        share = scores.softmax(-1)
        seen = x.new_zeros(x.shape[1], out.shape[1])  # [N, H·D], zero beyond the last token
        torch.index_select(
            torch.bmm(share, v).view(-1, head_dim), 0, at.back, out=seen.view(-1, head_dim)[: len(at.back)]
        )
        ctx.save_for_backward(scale, normed, head_scale, head_normed, q, k, v, share, seen, qkv, qk_norm, out, cos, sin)
        ctx.at = at
        return torch.addmm(x, out, seen.T)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (scale, normed, head_scale, head_normed, q, k, v, share, seen, qkv, qk_norm, out, cos, sin) = ctx.saved_tensors
        at, (heads, head_dim), turned = ctx.at, qk_norm.shape, qk_norm.numel()
        query_heads, root = heads - at.kv_heads, head_dim**-0.5
        g = torch.zeros_like(q).view(-1, head_dim)
        g.index_copy_(0, at.back, (grads[0].T @ out).view(-1, head_dim)[: len(at.back)])
        g = g.view(q.shape)
        score = torch._softmax_backward_data(torch.bmm(g, v.transpose(1, 2)), share, -1, share.dtype)
        by_head = q.new_zeros(x_tokens := normed.shape[1], heads + at.kv_heads, head_dim)
        flat = by_head.view(-1, head_dim)
        for index, part in (
            (at.keys, torch.baddbmm(k, score.transpose(1, 2), q, beta=0, alpha=root)),
            (at.values, torch.bmm(share.transpose(1, 2), g)),
        ):
            flat.scatter_add_(0, index[:, None].expand(-1, head_dim), part.view(-1, head_dim))
        queries = torch.baddbmm(q, score, k, beta=0, alpha=root).view(-1, head_dim).index_select(0, at.back)
        by_head[: len(at.back) // query_heads, :query_heads] = queries.view(-1, query_heads, head_dim)

        y = by_head.view(x_tokens, -1).T.contiguous()  # [A·D, N]
        head, turned_back = y[:turned].view(heads, head_dim, -1), torch.empty_like(head_normed)
        _rotate(head, cos, -sin, out=turned_back)
        product = turned_back * head_normed
        mean = torch.bmm(qk_norm[:, None], product)  # [heads, 1, N]
        turned_back.mul_(qk_norm[..., None]).addcmul_(head_normed, mean, value=-1 / head_dim)
        torch.mul(turned_back, head_scale, out=head)
        x_out = _unit_backward(qkv.T @ y, normed, scale).add_(grads[0])
        return x_out, y @ normed.T, product.sum(-1), grads[0] @ seen, None, None, None, None
