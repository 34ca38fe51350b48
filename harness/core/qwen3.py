"""Qwen3 in functional form, for the CPU: one packed scoring pass and one cached decoding step.

Reads the weights of a `Qwen3ForCausalLM` in place and computes what its forward computes (held by tests). Two
things make it fast at miniature size: scoring runs every linear map over valid tokens only, and each prompt once
for all of its samples; decoding writes into a preallocated cache. Leaves out: biases, sliding windows and scaled
rotary embeddings (`supports` says no), and attention too large to hold at once (`fits`); `policy.py` then takes
transformers' own forward.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from harness.core import passes
from harness.core.passes import Gather, Layer
from harness.core.shapes import Prompts, Rows

LARGEST_ATTENTION = 1 << 28  # bytes per layer


def supports(model: Any) -> bool:
    config, first = model.config, next(model.parameters())
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type == "qwen3"
        and not config.attention_bias
        and not getattr(config, "use_sliding_window", False)
        and config.hidden_act == "silu"
        and rope.get("rope_type", "default") == "default"
        and (first.device.type, first.dtype) == ("cpu", torch.float32)
        and type(model.model.layers[0].self_attn.q_proj) is torch.nn.Linear  # not wrapped by an adapter
    )


def fits(model: Any, rows: Rows) -> bool:
    """Whether one layer's attention probabilities over these rows, which are kept for the backward, stay small."""
    prompts, response = rows.prompts.ids.shape, rows.tokens.shape[1]
    slots = (prompts[0] + len(rows.lengths)) * max(prompts[1], response) * (prompts[1] + response)
    return slots * model.config.num_attention_heads * 4 <= LARGEST_ATTENTION


@dataclass(frozen=True)
class Weights:
    layers: list[Layer]
    embed: Any  # the embedding module itself: it gives no gradient to a padding token's row
    norm: Tensor  # [d] the final norm's weight
    inverse_frequency: Tensor
    heads: int
    kv_heads: int
    head_dim: int
    eps: Tensor  # [1]

    @staticmethod
    def of(model: Any) -> "Weights":
        config, layers = model.config, []
        for block in model.model.layers:
            attention, mlp = block.self_attn, block.mlp
            layers.append(
                Layer(
                    qkv=torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
                    * block.input_layernorm.weight,
                    qk_norm=torch.cat(
                        [
                            attention.q_norm.weight.expand(config.num_attention_heads, -1),
                            attention.k_norm.weight.expand(config.num_key_value_heads, -1),
                        ]
                    ),
                    out=attention.o_proj.weight,
                    gate_up=torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
                    * block.post_attention_layernorm.weight,
                    down=mlp.down_proj.weight,
                )
            )
        return Weights(
            layers,
            model.model.embed_tokens,
            model.model.norm.weight,
            model.model.rotary_emb.inv_freq,
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
            torch.tensor([config.rms_norm_eps]),
        )

    def rotary(self, positions: Int[Tensor, "N"]) -> tuple[Float[Tensor, "half N"], Float[Tensor, "half N"]]:
        angles = self.inverse_frequency[:, None] * positions.float()
        return angles.cos(), angles.sin()

    def project(self, layer: Layer, x: Float[Tensor, "d N"], rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Queries [N,H,D], keys and values [N,2,K,D] of tokens x; queries and keys turned. No gradient."""
        y = layer.qkv @ passes.unit(x, self.eps)
        passes.turn_heads(y, layer.qk_norm, *rotary, self.eps)
        by_token = y.T.contiguous().view(x.shape[1], -1, self.head_dim)
        return by_token[:, : self.heads], by_token[:, self.heads :].unflatten(1, (2, self.kv_heads))

    def mlp(self, layer: Layer, x: Float[Tensor, "d N"]) -> None:
        """x += MLP(x), no gradient."""
        x.addmm_(layer.down, passes.swiglu(layer.gate_up @ passes.unit(x, self.eps)))


def packed_logits(model: Any, rows: Rows) -> Float[Tensor, "n V"]:
    """Logits that predict each response token, n = Σ lengths, in row order."""
    w = Weights.of(model)
    return _states(w, rows) @ (model.lm_head.weight * w.norm).T


def packed_states(model: Any, rows: Rows) -> Float[Tensor, "n d"]:
    """The last hidden states, after the final norm, from which those logits follow."""
    w = Weights.of(model)
    return _states(w, rows) * w.norm


def _states(w: Weights, rows: Rows) -> Float[Tensor, "n d"]:
    """Hidden states before the final norm's weight.

    Token t of a response is predicted at the hidden state of token t-1, and token 0 at the prompt's last token.
    Valid prompt tokens come first in the packed axis, then each response without its last token. Hidden states are
    [d, N], tokens last (`passes.py` says why).
    """
    pack = _pack(rows, w)
    x, rotary = w.embed(pack.tokens).T.contiguous(), w.rotary(pack.positions)
    for layer in w.layers:
        x = passes.mlp(passes.attention(x, layer, *rotary, w.eps, pack.gather), layer, w.eps)
    return passes.unit(x, w.eps).T.index_select(0, pack.predictor)


@dataclass(frozen=True)
class _Pack:
    """The valid tokens of padded rows along one axis, and where each lies in the attention.

    R = P + B attention rows: each prompt over itself, then each response over its prompt and itself, so W is the
    longer of prompt and response, S their sum. N is filled up with token 0 to a multiple of 16, the width at which
    products and passes over [features, N] are aligned.
    """

    tokens: Tensor  # [N]
    positions: Tensor  # [N]
    predictor: Tensor  # [n] packed index whose hidden state predicts each response token
    gather: Gather


def _pack(rows: Rows, w: Weights) -> _Pack:
    prompts = rows.prompts
    (num_prompts, width), num_rows = prompts.ids.shape, len(rows.lengths)
    inputs = rows.lengths - 1  # response tokens that predict a later one
    span = max(1, int(inputs.max()))
    at_prompt = torch.arange(width) < prompts.lengths[:, None]
    at_row = torch.arange(span) < inputs[:, None]
    num_prompt_tokens, num_tokens = int(at_prompt.sum()), int(at_prompt.sum() + at_row.sum())
    prompt_place = torch.zeros(num_prompts, width, dtype=torch.long)
    prompt_place[at_prompt] = torch.arange(num_prompt_tokens)
    row_place = torch.zeros(num_rows, span, dtype=torch.long)
    row_place[at_row] = torch.arange(num_prompt_tokens, num_tokens)

    steps, fill = torch.arange(max(width, span)), (0, -num_tokens % 16)
    starts = prompts.lengths[rows.prompt_index]
    positions = torch.cat([steps[:width].expand_as(at_prompt)[at_prompt], (starts[:, None] + steps[:span])[at_row]])
    padded = rows.tokens[:, :span] if rows.tokens.shape[1] >= span else F.pad(rows.tokens, (0, 1))
    tokens = torch.cat([prompts.ids[at_prompt], padded[at_row]])

    before = torch.cat([(prompts.lengths.cumsum(0) - 1)[rows.prompt_index][:, None], row_place], dim=1)
    predictor = before[torch.arange(span + 1) < rows.lengths[:, None]]

    longest, total = len(steps), num_prompts + num_rows
    query_place = torch.zeros(total, longest, dtype=torch.long)
    query_place[:num_prompts, :width], query_place[num_prompts:, :span] = prompt_place, row_place
    at_query = torch.zeros(total, longest, dtype=torch.bool)
    at_query[:num_prompts, :width], at_query[num_prompts:, :span] = at_prompt, at_row
    key_place = torch.zeros(total, width + span, dtype=torch.long)
    key_place[:num_prompts, :width] = prompt_place
    key_place[num_prompts:] = torch.cat([prompt_place[rows.prompt_index], row_place], dim=1)
    causal = steps[:, None] >= steps
    see = torch.zeros(total, 1, longest, width + span, dtype=torch.bool)
    see[:num_prompts, 0, :, :width] = causal[:, :width]
    see[num_prompts:, 0, :, :width] = at_prompt[rows.prompt_index][:, None, :]
    see[num_prompts:, 0, :, width:] = causal[:, :span]

    every, heads = w.heads + 2 * w.kv_heads, torch.arange(w.heads + 2 * w.kv_heads)[:, None]
    q, k, v = heads.split([w.heads, w.kv_heads, w.kv_heads])
    slot = torch.arange(total)[:, None, None] * w.heads + q  # [R, H, 1]
    gather = Gather(
        queries=(query_place[:, None] * every + q).flatten(),
        keys=(key_place[:, None] * every + k).flatten(),
        values=(key_place[:, None] * every + v).flatten(),
        mask=torch.zeros(see.shape).masked_fill_(~see, -torch.inf),
        back=(slot * longest + steps).transpose(1, 2)[at_query].flatten(),
        kv_heads=w.kv_heads,
    )
    return _Pack(F.pad(tokens, fill), F.pad(positions, fill), predictor, gather)


class Decoder:
    """Autoregressive decoding of `samples` rows per prompt with a preallocated key-value cache."""

    def __init__(self, model: Any, prompts: Prompts, samples: int, max_new_tokens: int) -> None:
        w = self.weights = Weights.of(model)
        self.head = model.lm_head.weight * w.norm
        num_prompts, self.width = prompts.ids.shape
        index = torch.arange(num_prompts).repeat_interleave(samples)
        self.lengths = prompts.lengths[index]
        self.filled = 0
        valid = torch.arange(self.width) < self.lengths[:, None]
        hidden = F.pad(~valid, (0, max_new_tokens)).repeat_interleave(w.kv_heads, dim=0)
        self.mask = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)  # [rows · K, columns]
        shape = (2, len(index), w.kv_heads, self.width + max_new_tokens, w.head_dim)
        self.cache = [torch.empty(shape) for _ in w.layers]  # keys, values

        x = w.embed(prompts.ids.flatten()).T.contiguous()
        rotary = w.rotary(torch.arange(self.width).repeat(num_prompts))
        for layer, cache in zip(w.layers, self.cache, strict=True):
            q, kv = w.project(layer, x, rotary)
            q = q.view(num_prompts, self.width, w.heads, -1).transpose(1, 2)
            kv = kv.view(num_prompts, self.width, 2, w.kv_heads, -1).permute(2, 0, 3, 1, 4)
            cache[:, :, :, : self.width] = kv[:, index]
            a = F.scaled_dot_product_attention(q, kv[0], kv[1], is_causal=True, enable_gqa=True)
            x.addmm_(layer.out, a.transpose(1, 2).reshape(num_prompts * self.width, -1).T)
            w.mlp(layer, x)
        last = torch.arange(num_prompts) * self.width + prompts.lengths - 1
        self.first_logits = self._logits(x[:, last])[index]  # [rows, V]

    def step(self, tokens: Int[Tensor, "R"]) -> Float[Tensor, "R V"]:
        """Appends one token to every row and predicts the next."""
        w, column, num_rows = self.weights, self.width + self.filled, len(tokens)
        rotary = w.rotary(self.lengths + self.filled)
        x, mask = w.embed(tokens).T.contiguous(), self.mask[:, None, : column + 1]
        for layer, cache in zip(w.layers, self.cache, strict=True):
            q, kv = w.project(layer, x, rotary)
            cache[:, :, :, column] = kv.transpose(0, 1)
            keys, values = cache[..., : column + 1, :].flatten(1, 2)
            # The query heads that share a key head stand in the place of query positions.
            q = q.reshape(num_rows * w.kv_heads, -1, w.head_dim)
            share = torch.baddbmm(mask, q, keys.transpose(1, 2), alpha=w.head_dim**-0.5).softmax(-1)
            x.addmm_(layer.out, torch.bmm(share, values).view(num_rows, -1).T)
            w.mlp(layer, x)
        self.filled += 1
        return self._logits(x)

    def _logits(self, x: Float[Tensor, "d R"]) -> Float[Tensor, "R V"]:
        return passes.unit(x, self.weights.eps).T @ self.head.T

    def keep(self, rows: Int[Tensor, "r"]) -> None:
        """Drops all rows but these."""
        self.lengths = self.lengths[rows]
        self.mask = self.mask.view(-1, self.weights.kv_heads, self.mask.shape[1])[rows].flatten(0, 1)
        self.cache = [cache[:, rows] for cache in self.cache]
