"""Log-probabilities from hidden states: chunked against whole logits, in numbers and in memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    FalconH1Config,
    FalconH1ForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    PhiConfig,
    PhiForCausalLM,
)

from harness.core import head
from harness.core.head import Head

N, D, V, K = 21, 16, 501, 6
SMALL_MODEL = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "SMALL", 0)


def _linear(bias: bool = True, dtype: torch.dtype = torch.float32) -> torch.nn.Linear:
    torch.manual_seed(0)
    linear = torch.nn.Linear(D, V, bias=bias)
    torch.nn.init.normal_(linear.weight, std=0.4)  # a spread at which truncation and a cap matter
    return linear.to(dtype)


def _given(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """States, tokens, and a support of 2 to K ids that holds the token."""
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(N, D, generator=generator).to(dtype).requires_grad_()
    tokens = torch.randint(V, (N,), generator=generator)
    support = (tokens[:, None] + 7 * torch.arange(K)) % V
    support[torch.arange(K) >= torch.randint(2, K + 1, (N, 1), generator=generator)] = -1
    return states, tokens, support


def _naive(
    h: Head, states: Tensor, tokens: Tensor, support: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor]:
    """The definition, from whole logits."""
    z = h.scale * torch.nn.functional.linear(states, h.linear.weight, h.linear.bias)
    if h.cap:
        z = h.cap * torch.tanh(z / h.cap)
    z = z.float() / temperature
    logs = z.log_softmax(-1)
    entropy = torch.distributions.Categorical(logits=z).entropy()
    if support is not None:
        logs = torch.stack([_over(row, ids) for row, ids in zip(z, support, strict=True)])
    return logs[torch.arange(len(tokens)), tokens], entropy


def _over(row: Tensor, ids: Tensor) -> Tensor:
    """Log-probabilities where only these ids can be chosen."""
    allowed = torch.zeros(len(row), dtype=torch.bool)
    allowed[ids[ids >= 0]] = True
    return row.masked_fill(~allowed, -torch.inf).log_softmax(-1)


def _gradients(h: Head, states: Tensor, logp: Tensor | None, entropy: Tensor | None) -> list[Tensor]:
    """Of a loss in which every token counts differently."""
    generator = torch.Generator().manual_seed(2)
    loss = torch.zeros(())
    for value in (logp, entropy):
        if value is not None:
            loss = loss + (value * torch.randn(N, generator=generator)).sum()
    inputs = [states, h.linear.weight, *([h.linear.bias] if h.linear.bias is not None else [])]
    return list(torch.autograd.grad(loss, inputs))


@pytest.mark.parametrize("chunk", [8, 1000])
@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize(
    "bias, scale, cap", [(False, 1.0, None), (True, 0.25, None), (True, 1.0, 3.0), (False, 2.0, 5.0)]
)
def test_chunked_equals_whole_in_value_and_gradient(
    chunk: int, replay: bool, bias: bool, scale: float, cap: float | None
) -> None:
    h = Head(_linear(bias), scale, cap)
    states, tokens, support = _given()
    kept = support if replay else None

    def used(found: tuple[Tensor, Tensor | None], which: str) -> tuple[Tensor | None, Tensor | None]:
        return found[0] if "p" in which else None, found[1] if "H" in which else None

    for which in ("p", "H", "pH"):  # the gradient of either alone, and of both
        ours = h.scores(states, tokens, kept, 0.7, True, chunk)
        theirs = _naive(h, states, tokens, kept, 0.7)
        for mine, other in zip(ours, theirs, strict=True):
            assert mine is not None and torch.allclose(mine, other, atol=2e-6, rtol=1e-6)
        gradients = _gradients(h, states, *used(ours, which)), _gradients(h, states, *used(theirs, which))
        for mine, other in zip(*gradients, strict=True):
            assert (mine - other).abs().max() < (3e-6 if "H" in which else 1e-6) * other.abs().max()


def test_autograd_agrees_in_double_precision() -> None:
    """The hand-written backward against finite differences."""
    torch.manual_seed(0)
    states, weight, bias = torch.randn(5, 3).double(), torch.randn(7, 3).double(), torch.randn(7).double()
    tokens, support = torch.tensor([0, 1, 2, 3, 6]), torch.tensor([[0, 5], [1, -1], [2, 6], [3, 0], [6, 4]])
    given = (0.5, 2.0, 0.9, True, 2)
    assert torch.autograd.gradcheck(
        lambda *x: head._Chunked.apply(*x, tokens, support, given),
        [x.requires_grad_() for x in (states, weight, bias)],
        atol=1e-3,
        eps=1e-3,
    )


def test_small_logits_are_held_and_large_ones_never(monkeypatch: pytest.MonkeyPatch) -> None:
    h, (states, tokens, _) = Head(_linear()), _given()
    expected, _ = h.scores(states, tokens, None, 1.0, False, 8)
    shapes: list[int] = []
    real = head._logits
    monkeypatch.setattr(head, "_logits", lambda x, *rest: shapes.append(len(x)) or real(x, *rest))
    h.scores(states, tokens, None, 1.0, False, 8)
    assert shapes == [8, 8, 5]
    monkeypatch.setattr(head, "SMALL", N * V)
    shapes.clear()
    held, _ = h.scores(states, tokens, None, 1.0, False, 8)
    assert shapes == [N] and torch.allclose(held, expected, atol=2e-6)


def test_the_kept_set_is_the_whole_mass() -> None:
    """logits 2, 1, 0, -1 under top-k 2: 2 - ln(e² + e) = -.313262 of the first, -.440190 without replay."""
    linear = torch.nn.Linear(1, 4, bias=False)
    linear.weight.data = torch.tensor([[2.0], [1.0], [0.0], [-1.0]])
    states, tokens = torch.ones(1, 1), torch.tensor([0])
    for small in (0, 100):
        head.SMALL = small
        replayed, entropy = Head(linear).scores(states, tokens, torch.tensor([[1, 0, -1]]), 1.0, True, 4)
        full, _ = Head(linear).scores(states, tokens, None, 1.0, False, 4)
        assert replayed.item() == pytest.approx(-0.313262, abs=1e-6)
        assert full.item() == pytest.approx(-0.440190, abs=1e-6)
        assert entropy is not None and entropy.item() == pytest.approx(0.947537, abs=1e-6)  # full vocabulary


def test_a_float32_head_on_a_bfloat16_model_is_computed_in_float32() -> None:
    linear, (states, tokens, _) = _linear(dtype=torch.bfloat16), _given(torch.bfloat16)
    exact = torch.nn.Linear(D, V).requires_grad_()
    exact.load_state_dict({name: value.float() for name, value in linear.state_dict().items()})
    wide = states.detach().float().requires_grad_()
    expected, _ = _naive(Head(exact), wide, tokens, None, 1.0)
    found, _ = Head(linear, float32=True).scores(states, tokens, None, 1.0, False, 8)
    rounded, _ = Head(linear).scores(states, tokens, None, 1.0, False, 8)
    assert torch.allclose(found, expected, atol=2e-6)
    assert (rounded - expected).abs().max().item() > 1e-3  # what the option is for
    ours, theirs = _gradients(Head(linear), states, found, None), _gradients(Head(exact), wide, expected, None)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == torch.bfloat16
        assert torch.allclose(mine.float(), other, rtol=2**-8, atol=1e-6)


def test_a_bfloat16_weight_s_gradient_is_summed_in_float32() -> None:
    linear, (states, tokens, _) = _linear(bias=False, dtype=torch.bfloat16), _given(torch.bfloat16)
    for_all = _gradients(Head(linear), states, Head(linear).scores(states, tokens, None, 1.0, False, N)[0], None)
    by_one = _gradients(Head(linear), states, Head(linear).scores(states, tokens, None, 1.0, False, 1)[0], None)
    assert torch.allclose(by_one[1].float(), for_all[1].float(), rtol=2**-7, atol=2**-8 * float(for_all[1].abs().max()))


def _model(kind: type, config: type, **settings: object) -> torch.nn.Module:
    torch.manual_seed(0)
    model = kind(config(**(SMALL_MODEL | settings))).eval()
    model.get_output_embeddings().weight.data.normal_(std=1.0)
    return model


@pytest.mark.parametrize(
    "kind, config, settings, scale, cap",
    [
        (CohereForCausalLM, CohereConfig, {"logit_scale": 0.25}, 0.25, None),
        (GraniteForCausalLM, GraniteConfig, {"logits_scaling": 4.0}, 0.25, None),
        (Gemma2ForCausalLM, Gemma2Config, {"final_logit_softcapping": 2.0}, 1.0, 2.0),
        (PhiForCausalLM, PhiConfig, {}, 1.0, None),  # a head with a bias
    ],
)
def test_a_head_is_read_with_its_scale_and_cap(
    kind: type, config: type, settings: dict, scale: float, cap: float | None
) -> None:
    model = _model(kind, config, **settings)
    if (bias := model.get_output_embeddings().bias) is not None:
        bias.data.normal_()
    found = head.read(model)
    assert found is not None and (found.scale, found.cap) == (scale, cap)
    ids = torch.arange(12)[None]
    states = model.base_model(input_ids=ids).last_hidden_state[0]
    assert torch.allclose(found.logits(states), model(input_ids=ids).logits[0], atol=1e-5)


def test_a_head_that_does_something_else_is_left_to_the_model() -> None:
    model = _model(FalconH1ForCausalLM, FalconH1Config, lm_head_multiplier=0.5, mamba_d_ssm=32, mamba_n_heads=2)
    assert head.read(model) is None
    with pytest.raises(ValueError, match="head_dtype: the head of FalconH1ForCausalLM"):
        head.read(model, float32=True)


MEASURE = """
import json, time
import torch
from harness.core import head

torch.set_num_threads(1)
N, D, V = 1024, 32, 151_936
torch.manual_seed(0)
linear = torch.nn.Linear(D, V, bias=False)
states, tokens, pull = torch.randn(N, D).requires_grad_(), torch.randint(V, (N,)), torch.randn(N)

def peak():  # MiB; VmHWM is this program's own, where ru_maxrss can be its parent's
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024

def run(small):
    head.SMALL, before, start = small, peak(), time.process_time()
    logp, _ = head.Head(linear).scores(states, tokens, None, 0.99, False, 128)
    loss = (logp * pull).sum()
    gradients = torch.autograd.grad(loss, [states, linear.weight])
    return peak() - before, time.process_time() - start, [loss.detach(), *gradients]

chunked, chunked_s, ours = run(0)  # the smaller first: a peak never falls
naive, naive_s, theirs = run(N * V)
error = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours, theirs))
print(json.dumps(dict(chunked=chunked, naive=naive, error=error, chunked_s=chunked_s, naive_s=naive_s)))
"""


def test_chunks_take_a_fraction_of_the_memory_at_a_real_vocabulary() -> None:
    """1,024 tokens of Qwen3's 151,936: at most 30 % of the peak of whole logits, same loss and gradient."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, cwd=root, check=True)
    found = json.loads(done.stdout)
    assert found["naive"] > 2 * 1024 * 151_936 * 4 / 2**20  # MiB: it did hold whole logits
    assert found["chunked"] < 0.3 * found["naive"], found
    assert found["error"] < 1e-6 * 5, found
