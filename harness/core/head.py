"""A model's head: from its last hidden states to log-probabilities of given tokens and to the entropy.

    z = cap(scale · (h Wᵀ + b)) / temperature,  cap(x) = c · tanh(x / c) where a model caps its logits
    log π(token) = z[token] - logsumexp(z[support]),  H = - Σ_v p_v log p_v,  p = softmax(z)

With 150,000 tokens in a vocabulary the logits are what fills a GPU. So they are made `chunk` tokens at a time, reduced
to two numbers a token, and made again in the backward: no [n, V] tensor ever exists, for one more matrix product.
Where all logits are small they are held instead, which is faster. Leaves out: heads that do something else to the
logits (`read` says None; `forward.py` then takes the model's own).
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

SMALL = 1 << 24  # logits in all (64 MiB in fp32) up to which holding them costs less than making them twice

Scores = tuple[Float[Tensor, "n"], Float[Tensor, "n"] | None]  # log-probability, entropy


@dataclass(frozen=True)
class Head:
    """How a model makes logits. The weight is read at every call: it may be trained, or gathered for a moment only."""

    linear: torch.nn.Linear
    scale: float = 1.0
    cap: float | None = None
    float32: bool = False  # compute in fp32, whatever the model's dtype

    def logits(self, states: Float[Tensor, "n d"]) -> Float[Tensor, "n V"]:
        """Before the temperature; carries gradient."""
        return _logits(*self._cast(states), self.scale, self.cap)

    def scores(
        self,
        states: Float[Tensor, "n d"],
        tokens: Int[Tensor, "n"],
        support: Int[Tensor, "n K"] | None,
        temperature: float,
        with_entropy: bool,
        chunk: int,
    ) -> Scores:
        """log π in nats of each token after its state, and the entropy if asked for; both carry gradient, in fp32.

        `support` holds the ids that could be chosen, padded with -1; the token has to be one of them.
        """
        states, weight, bias = self._cast(states)
        if len(states) * len(weight) <= SMALL:
            return scores(
                _logits(states, weight, bias, self.scale, self.cap), tokens, support, temperature, with_entropy
            )
        given = (self.scale, self.cap, temperature, with_entropy, chunk)
        logp, entropy = _Chunked.apply(states, weight, bias, tokens, support, given)
        return logp, entropy

    def _cast(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        weight, bias = self.linear.weight, self.linear.bias
        if not self.float32:
            return states, weight, bias
        return states.float(), weight.float(), None if bias is None else bias.float()


def tempered(logits: Float[Tensor, "n V"], temperature: float) -> Float[Tensor, "n V"]:
    """logits / temperature in fp32; without the pass over all of them where it divides by one."""
    return logits.float() if temperature == 1.0 else logits.float() / temperature


def scores(
    logits: Float[Tensor, "n V"],
    tokens: Int[Tensor, "n"],
    support: Int[Tensor, "n K"] | None,
    temperature: float,
    with_entropy: bool,
) -> Scores:
    """What `Head.scores` gives, of logits that are held."""
    z = tempered(logits, temperature)
    if support is None:
        logp = -F.cross_entropy(z, tokens, reduction="none")
    else:
        logp = z.gather(-1, tokens[:, None])[:, 0] - _kept(z, support).logsumexp(-1)
    if not with_entropy:
        return logp, None
    logs = z.log_softmax(-1)
    return logp, -(logs.exp() * logs).sum(-1)


def read(model: Any, float32: bool = False) -> Head | None:
    """The head of a causal language model, or None where it is not linear up to a scale and a cap.

    What a forward does beside its head stands in no common place, so the result is compared with the model's own
    logits for a few tokens. Raises ValueError for `float32` on a head that cannot be read.
    """
    linear, config = model.get_output_embeddings(), model.config
    if type(linear) is torch.nn.Linear and linear.weight.is_floating_point():
        scale = getattr(config, "logit_scale", None) or 1.0 / (getattr(config, "logits_scaling", None) or 1.0)
        head = Head(linear, scale, getattr(config, "final_logit_softcapping", None), float32)
        if _agrees(head, model):
            return head
    if float32:
        name = type(model).__name__
        raise ValueError(f"model.head_dtype: the head of {name} cannot be computed apart; set model.head_dtype=model")
    return None


@torch.no_grad()
def _agrees(head: Head, model: Any) -> bool:
    size, device = head.linear.weight.shape[0], head.linear.weight.device
    ids = torch.arange(1, 5, device=device)[None] % size
    theirs = model(input_ids=ids, use_cache=False).logits[0].float()
    states = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]
    if states.shape[-1] != head.linear.weight.shape[1]:
        return False
    error = (head.logits(states).float() - theirs).abs().max()
    return bool(error <= (1e-4 if theirs.dtype == head.linear.weight.dtype else 2e-2) * theirs.abs().max())


def _linear(states: Tensor, weight: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    z = F.linear(states, weight, bias)
    return z if scale == 1.0 else z * scale


def _logits(states: Tensor, weight: Tensor, bias: Tensor | None, scale: float, cap: float | None) -> Tensor:
    z = _linear(states, weight, bias, scale)
    return z if cap is None else cap * torch.tanh(z / cap)


def _kept(z: Float[Tensor, "n V"], support: Int[Tensor, "n K"]) -> Float[Tensor, "n K"]:
    return z.gather(-1, support.clamp(min=0).long()).masked_fill(support < 0, -torch.inf)


class _Chunked(torch.autograd.Function):
    """`scores`, a chunk of tokens at a time; the backward makes a chunk's logits again.

    ∂log π / ∂z = 1[token] - softmax(z[support]),  ∂H / ∂z = - p (log p + H)
    The weight's gradient is summed over chunks in fp32, as one product over all tokens would sum it; autograd rounds it
    to what the weight wants.
    """

    @staticmethod
    def forward(ctx: Any, states: Any, weight: Any, bias: Any, tokens: Any, support: Any, given: Any) -> Any:
        scale, cap, temperature, with_entropy, chunk = given
        ctx.save_for_backward(states, weight, bias, tokens, support)
        ctx.set_materialize_grads(False)
        ctx.given = given
        logp, entropy = (torch.empty(len(states), device=states.device) for _ in range(2))
        for part in _parts(len(states), chunk):
            z = _logits(states[part], weight, bias, scale, cap)
            kept = None if support is None else support[part]
            logp[part], found = scores(z, tokens[part], kept, temperature, with_entropy)
            if found is not None:
                entropy[part] = found
        return logp, entropy if with_entropy else None

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        states, weight, bias, tokens, support = ctx.saved_tensors
        scale, cap, temperature, _, chunk = ctx.given
        d_states = torch.empty_like(states)
        d_weight = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        d_bias = torch.zeros_like(bias, dtype=torch.float32) if bias is not None else None
        for part in _parts(len(states), chunk):
            raw = _linear(states[part], weight, bias, scale)
            slope = scale / temperature
            if cap is not None:
                bent = torch.tanh(raw / cap)
                slope, raw = (1 - bent.float().square()) * slope, cap * bent
            d_logp, d_entropy = (None if g is None else g[part, None] for g in gradients)
            kept, z = None if support is None else support[part], tempered(raw, temperature)
            del raw  # as large as z
            d_raw = _d_logits(z, tokens[part, None], kept, d_logp, d_entropy).mul_(slope).to(weight.dtype)
            d_states[part] = d_raw @ weight
            if d_weight is not None and weight.dtype == torch.float32:
                d_weight.addmm_(d_raw.T, states[part])
            elif d_weight is not None:
                d_weight += d_raw.T @ states[part]
            if d_bias is not None:
                d_bias += d_raw.float().sum(0)
        return d_states, d_weight, d_bias, None, None, None


def _d_logits(
    z: Float[Tensor, "c V"],
    tokens: Int[Tensor, "c 1"],
    support: Int[Tensor, "c K"] | None,
    d_logp: Float[Tensor, "c 1"] | None,
    d_entropy: Float[Tensor, "c 1"] | None,
) -> Float[Tensor, "c V"]:
    """The gradient of the tempered logits z."""
    if d_entropy is not None:
        logs = z.log_softmax(-1)
        p = logs.exp()
        pull = logs.sub_(torch.linalg.vecdot(p, logs)[:, None]).mul_(-d_entropy)
        if d_logp is not None and support is None:
            pull -= d_logp
        out = p.mul_(pull)
    elif d_logp is not None and support is None:
        out = z.softmax(-1).mul_(-d_logp)
    else:
        out = torch.zeros_like(z)
    if d_logp is None:
        return out
    if support is not None:
        out.scatter_add_(
            -1, support.clamp(min=0).long(), _kept(z, support).softmax(-1) * -d_logp
        )  # adds 0 where padded
    return out.scatter_add_(-1, tokens, d_logp)


def _parts(total: int, chunk: int) -> list[slice]:
    return [slice(start, min(start + chunk, total)) for start in range(0, total, chunk)]
