"""Qwen3 in functional form, for the CPU: one packed scoring pass and one cached decoding step.

Reads the weights of a `Qwen3ForCausalLM` in place and computes what its forward computes (held by tests). Two
things make it fast at miniature size: scoring runs every linear map over valid tokens only, and each prompt once
for all of its samples; decoding writes into a preallocated cache. Leaves out: biases, sliding windows and scaled
rotary embeddings (`supports` says no, and `policy.py` takes transformers' own forward).
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from harness.core.shapes import Prompts, Rows


def supports(model: Any) -> bool:
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type == "qwen3"
        and not config.attention_bias
        and not getattr(config, "use_sliding_window", False)
        and config.hidden_act == "silu"
        and rope.get("rope_type", "default") == "default"
        and next(model.parameters()).device.type == "cpu"
    )


@dataclass(frozen=True)
class Layer:
    """One block's weights; `qkv` and `gate_up` are concatenated so that one product serves each."""

    input_norm: Tensor
    qkv: Tensor
    q_norm: Tensor
    k_norm: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True)
class Weights:
    layers: list[Layer]
    embed: Tensor
    norm: Tensor
    head: Tensor
    inverse_frequency: Tensor
    heads: int
    kv_heads: int
    head_dim: int
    eps: float

    @staticmethod
    def of(model: Any) -> "Weights":
        config, layers = model.config, []
        for block in model.model.layers:
            attention, mlp = block.self_attn, block.mlp
            layers.append(
                Layer(
                    input_norm=block.input_layernorm.weight,
                    qkv=torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]),
                    q_norm=attention.q_norm.weight,
                    k_norm=attention.k_norm.weight,
                    out=attention.o_proj.weight,
                    mlp_norm=block.post_attention_layernorm.weight,
                    gate_up=torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
                    down=mlp.down_proj.weight,
                )
            )
        return Weights(
            layers,
            model.model.embed_tokens.weight,
            model.model.norm.weight,
            model.lm_head.weight,
            model.model.rotary_emb.inv_freq,
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
            config.rms_norm_eps,
        )

    def rotary(self, positions: Int[Tensor, "N"]) -> tuple[Float[Tensor, "N 1 D"], Float[Tensor, "N 1 D"]]:
        angles = positions[:, None, None].float() * self.inverse_frequency
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()

    def project(self, layer: Layer, x: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [N,H,D], keys and values [N,K,D] of tokens x [N,d]; normalised and rotated."""
        h = _RMSNorm.apply(x, layer.input_norm, self.eps) @ layer.qkv.T
        h = h.view(len(x), -1, self.head_dim)
        q, k, v = h.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        q = _Rotate.apply(_RMSNorm.apply(q, layer.q_norm, self.eps), *rotary)
        k = _Rotate.apply(_RMSNorm.apply(k, layer.k_norm, self.eps), *rotary)
        return q, k, v

    def mlp(self, layer: Layer, x: Float[Tensor, "N d"]) -> Float[Tensor, "N d"]:
        gate, up = (_RMSNorm.apply(x, layer.mlp_norm, self.eps) @ layer.gate_up.T).chunk(2, dim=-1)
        return (F.silu(gate) * up) @ layer.down.T

    def logits(self, x: Float[Tensor, "N d"]) -> Float[Tensor, "N V"]:
        return _RMSNorm.apply(x, self.norm, self.eps) @ self.head.T


def packed_logits(model: Any, rows: Rows) -> Float[Tensor, "n V"]:
    """Logits that predict each response token, n = Σ lengths, in row order.

    Token t of a response is predicted at the hidden state of token t-1, and token 0 at the prompt's last token.
    Valid prompt tokens come first in the packed axis, then each response without its last token.
    """
    w, pack = Weights.of(model), _pack(rows)
    x, rotary = w.embed[pack.tokens], w.rotary(pack.positions)
    for layer in w.layers:
        q, k, v = w.project(layer, x, rotary)
        x = x + _attend(q, k, v, pack) @ layer.out.T
        x = x + w.mlp(layer, x)
    return w.logits(x[pack.predictor])


@dataclass(frozen=True)
class _Pack:
    """Where each token of the padded rows lies in the packed axis, and back."""

    tokens: Tensor  # [N]
    positions: Tensor  # [N]
    num_prompt_tokens: int
    prompt_slots: Tensor  # [Np] flat index into [P, L]
    row_slots: Tensor  # [Nr] flat index into [B, T]
    predictor: Tensor  # [n] packed index whose hidden state predicts each response token
    prompt_index: Tensor  # [B]
    prompt_shape: tuple[int, int]
    row_shape: tuple[int, int]
    row_mask: Tensor  # [B, 1, T, L + T] what a response query may see


def _pack(rows: Rows) -> _Pack:
    prompts, device = rows.prompts, rows.tokens.device
    (num_prompts, width), num_rows = prompts.ids.shape, len(rows.lengths)
    inputs = rows.lengths - 1  # response tokens that predict a later one
    span = max(1, int(inputs.max()))
    at_prompt = torch.arange(width, device=device) < prompts.lengths[:, None]
    at_row = torch.arange(span, device=device) < inputs[:, None]
    prompt_slots, row_slots = at_prompt.flatten().nonzero()[:, 0], at_row.flatten().nonzero()[:, 0]
    starts = prompts.lengths[rows.prompt_index]
    positions = [prompt_slots % width, (starts[:, None] + torch.arange(span, device=device))[at_row]]
    padded = rows.tokens[:, :span] if rows.tokens.shape[1] >= span else F.pad(rows.tokens, (0, 1))
    tokens = [prompts.ids[at_prompt], padded[at_row]]

    num_prompt_tokens = len(prompt_slots)
    last_of_prompt = prompts.lengths.cumsum(0) - 1
    before = torch.full((num_rows, span + 1), -1, dtype=torch.long, device=device)
    before[:, 0] = last_of_prompt[rows.prompt_index]
    before[:, 1:][at_row] = num_prompt_tokens + torch.arange(len(row_slots), device=device)
    predictor = before[torch.arange(span + 1, device=device) < rows.lengths[:, None]]

    see_prompt = at_prompt[rows.prompt_index][:, None, :].expand(num_rows, span, width)
    causal = torch.ones(span, span, dtype=torch.bool, device=device).tril().expand(num_rows, span, span)
    row_mask = torch.cat([see_prompt, causal], dim=-1)[:, None]
    row_mask = torch.zeros(row_mask.shape, device=device).masked_fill_(~row_mask, -torch.inf)
    return _Pack(
        torch.cat(tokens),
        torch.cat(positions),
        num_prompt_tokens,
        prompt_slots,
        row_slots,
        predictor,
        rows.prompt_index,
        (num_prompts, width),
        (num_rows, span),
        row_mask,
    )


def _attend(q: Tensor, k: Tensor, v: Tensor, pack: _Pack) -> Float[Tensor, "N HD"]:
    """Causal attention: prompts over themselves, responses over their prompt and themselves."""
    n = pack.num_prompt_tokens

    def prompts(x: Tensor) -> Tensor:  # [P, heads, L, D]
        return _unpack(x[:n], pack.prompt_slots, pack.prompt_shape)

    def rows(x: Tensor) -> Tensor:  # [B, heads, T, D]
        return _unpack(x[n:], pack.row_slots, pack.row_shape)

    kp, vp = prompts(k), prompts(v)
    own = F.scaled_dot_product_attention(prompts(q), kp, vp, is_causal=True, enable_gqa=True)
    k_all = torch.cat([kp[pack.prompt_index], rows(k)], dim=2)
    v_all = torch.cat([vp[pack.prompt_index], rows(v)], dim=2)
    theirs = F.scaled_dot_product_attention(rows(q), k_all, v_all, attn_mask=pack.row_mask, enable_gqa=True)
    return torch.cat([_repack(own, pack.prompt_slots), _repack(theirs, pack.row_slots)])


def _unpack(x: Float[Tensor, "n H D"], slots: Int[Tensor, "n"], shape: tuple[int, int]) -> Float[Tensor, "R H T D"]:
    flat = x.new_zeros(shape[0] * shape[1], *x.shape[1:]).index_copy(0, slots, x)
    return flat.view(*shape, *x.shape[1:]).transpose(1, 2)


def _repack(x: Float[Tensor, "R H T D"], slots: Int[Tensor, "n"]) -> Float[Tensor, "n HD"]:
    return x.transpose(1, 2).flatten(0, 1)[slots].flatten(1)


class Decoder:
    """Autoregressive decoding of `samples` rows per prompt with a preallocated key-value cache."""

    def __init__(self, model: Any, prompts: Prompts, samples: int, max_new_tokens: int) -> None:
        w = self.weights = Weights.of(model)
        num_prompts, self.width = prompts.ids.shape
        index = torch.arange(num_prompts).repeat_interleave(samples)
        self.lengths = prompts.lengths[index]
        self.filled = 0
        valid = torch.arange(self.width) < self.lengths[:, None]
        self.mask = torch.zeros(len(index), self.width + max_new_tokens).masked_fill_(
            F.pad(~valid, (0, max_new_tokens)), -torch.inf
        )
        shape = (len(index), w.kv_heads, self.width + max_new_tokens, w.head_dim)
        self.keys = [torch.empty(shape) for _ in w.layers]
        self.values = [torch.empty(shape) for _ in w.layers]

        x = w.embed[prompts.ids.flatten()]
        rotary = w.rotary(torch.arange(self.width).repeat(num_prompts))
        for number, layer in enumerate(w.layers):
            q, k, v = (
                part.view(num_prompts, self.width, -1, w.head_dim).transpose(1, 2)
                for part in w.project(layer, x, rotary)
            )
            self.keys[number][:, :, : self.width] = k[index]
            self.values[number][:, :, : self.width] = v[index]
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + a.transpose(1, 2).reshape(len(x), -1) @ layer.out.T
            x = x + w.mlp(layer, x)
        last = torch.arange(num_prompts) * self.width + prompts.lengths - 1
        self.first_logits = w.logits(x[last])[index]  # [rows, V]

    def step(self, tokens: Int[Tensor, "R"]) -> Float[Tensor, "R V"]:
        """Appends one token to every row and predicts the next."""
        w, column = self.weights, self.width + self.filled
        rotary = w.rotary(self.lengths + self.filled)
        x, mask = w.embed[tokens], self.mask[:, None, None, : column + 1]
        for number, layer in enumerate(w.layers):
            q, k, v = w.project(layer, x, rotary)
            keys, values = self.keys[number], self.values[number]
            keys[:, :, column], values[:, :, column] = k, v
            # The query heads that share a key head stand in the place of query positions.
            a = F.scaled_dot_product_attention(
                q.view(len(x), w.kv_heads, -1, w.head_dim),
                keys[:, :, : column + 1],
                values[:, :, : column + 1],
                mask,
            )
            x = x + a.reshape(len(x), -1) @ layer.out.T
            x = x + w.mlp(layer, x)
        self.filled += 1
        return w.logits(x)

    def keep(self, rows: Int[Tensor, "r"]) -> None:
        """Drops all rows but these."""
        self.lengths, self.mask = self.lengths[rows], self.mask[rows]
        self.keys = [cache[rows] for cache in self.keys]
        self.values = [cache[rows] for cache in self.values]


class _RMSNorm(torch.autograd.Function):
    """y = w · x / sqrt(mean(x²) + eps) over the last axis, with its backward in three fused passes.

    With x̂ = x / rms: ∂x = (g w - x̂ · mean(g w x̂)) / rms and ∂w = Σ g x̂. Half the time of the composed form on CPU.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, eps: float) -> Tensor:
        scale = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        unit = x * scale
        ctx.save_for_backward(unit, scale, w)
        return unit * w

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        unit, scale, w = ctx.saved_tensors
        product = g * unit
        mean = (product @ w).unsqueeze(-1) / unit.shape[-1]
        return (g * w).addcmul_(unit, mean, value=-1).mul_(scale), product.flatten(0, -2).sum(0), None


class _Rotate(torch.autograd.Function):
    """y = x cos + rotate_half(x) sin, where rotate_half([a, b]) = [-b, a]; its transpose rotates back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        cos, sin = ctx.saved_tensors
        return _rotated(grads[0], cos, -sin), None, None


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    y = x * cos
    y[..., :half].addcmul_(x[..., half:], sin[..., :half], value=-1)
    y[..., half:].addcmul_(x[..., :half], sin[..., half:])
    return y
