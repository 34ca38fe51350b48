"""Loading a policy, its prompts, and its log-probabilities over large vocabularies, in bf16, recomputed."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, OPTConfig, OPTForCausalLM

from harness.config import Model, Runtime
from harness.core import forward, head, qwen3
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout, Rows
from tests.conftest import make_model

TEMPLATE = (
    "{% for m in messages %}{{ '? ' if m.role == 'system' else 'Q ' }}{{ m.content }} , {% endfor %}"
    "{% if add_generation_prompt %}A {% if enable_thinking %}answer {% endif %}{% endif %}"
)


def _load(path: Path, runtime: Runtime | None = None, **changes: object) -> Policy:
    return Policy.load(Model(role="", path=str(path), **changes), runtime)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with a chat template."""
    folder = make_model(tmp_path_factory.mktemp("chatty"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def _scored(policy: Policy, rows: Rows, temperature: float = 0.8) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities, entropies, and the gradient of a loss on both."""
    policy.model.zero_grad()
    logp, entropy = policy.logprobs(rows, temperature, with_entropy=True)
    assert entropy is not None
    (logp * torch.arange(logp.shape[1]) - 0.1 * entropy).sum().backward()
    gradient = torch.cat([p.grad.flatten() for p in policy.parameters()])  # type: ignore[union-attr]
    return logp.detach(), entropy.detach(), gradient.float()


def _same(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...], tolerance: float = 2e-5) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine - other).abs().max() <= tolerance * max(1.0, float(other.abs().max()))


@pytest.mark.parametrize("fast", [True, False])
def test_chunks_change_nothing_on_either_forward(
    policy: Policy, rollout: Rollout, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _scored(policy, rollout.rows())
    monkeypatch.setattr(head, "SMALL", 0)
    monkeypatch.setattr(policy, "chunk", 7)
    monkeypatch.setattr(policy, "fast", fast)
    monkeypatch.setattr(qwen3, "packed_logits", None)  # states alone are asked for
    _same(_scored(policy, rollout.rows()), whole)


@pytest.mark.parametrize("fast", [True, False])
def test_a_support_renormalises_and_leaves_the_entropy(
    policy: Policy, rollout: Rollout, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each token could be itself or token 3: log π = z - log(e^z + e^z3), a sigmoid of their difference."""
    monkeypatch.setattr(policy, "fast", fast)
    rows = rollout.rows()
    other = torch.where(rows.tokens == 3, -1, 3)  # alone where it is token 3 itself
    replay = Rows(rows.prompts, rows.prompt_index, rows.tokens, rows.lengths, torch.stack([rows.tokens, other], -1))
    threes = Rows(rows.prompts, rows.prompt_index, torch.full_like(rows.tokens, 3), rows.lengths)
    with torch.no_grad():
        full, entropy = policy.logprobs(rows, 0.8, with_entropy=True)
        kept, same = policy.logprobs(replay, 0.8, with_entropy=True)
        first, _ = policy.logprobs(
            Rows(rows.prompts, rows.prompt_index, rows.tokens, torch.ones_like(rows.lengths)), 0.8
        )
        three, _ = policy.logprobs(
            Rows(rows.prompts, rows.prompt_index, threes.tokens, torch.ones_like(rows.lengths)), 0.8
        )
    expected = torch.where(rows.tokens[:, 0] == 3, 0.0, torch.sigmoid(first[:, 0] - three[:, 0]).log())
    assert torch.allclose(kept[:, 0], expected, atol=2e-5)
    assert (kept >= full - 1e-6).all() and (kept[rows.mask] > full[rows.mask] + 1e-3).any()
    assert entropy is not None and same is not None and torch.allclose(entropy, same, atol=1e-5)
    assert not kept[~rows.mask].any()


def test_a_model_whose_head_cannot_be_read_is_scored_by_its_own_forward(
    policy: Policy, rollout: Rollout, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _scored(policy, rollout.rows())
    monkeypatch.setattr(policy, "fast", False)
    monkeypatch.setattr(policy, "head", None)
    _same(_scored(policy, rollout.rows()), expected)
    prompts = Prompts.of(policy.encode(["Q 1 + 2", "Q 3 A answer"]))
    own = policy.decoder(prompts, 2, 4)
    step = own.step(torch.tensor([1, 2, 3, 4]))
    monkeypatch.setattr(policy, "head", head.read(policy.model))
    read = policy.decoder(prompts, 2, 4)
    assert torch.allclose(own.first_logits, read.first_logits, atol=1e-5)
    assert torch.allclose(step, read.step(torch.tensor([1, 2, 3, 4])), atol=1e-5)


def test_a_bfloat16_policy_scores_near_the_float32_one_and_a_float32_head_nearer(
    tiny_model: Path, policy: Policy, rollout: Rollout
) -> None:
    with torch.no_grad():
        exact, _ = policy.logprobs(rollout.rows(), 1.0)
        errors = {}
        for dtype in ("model", "float32"):
            half = _load(tiny_model, dtype="bfloat16", head_dtype=dtype)
            assert not half.fast and {p.dtype for p in half.parameters()} == {torch.bfloat16}
            logp, entropy = half.logprobs(rollout.rows(), 1.0, with_entropy=True)
            assert entropy is not None and logp.dtype == entropy.dtype == torch.float32
            errors[dtype] = float((logp - exact).abs().mean())
    assert errors["float32"] < errors["model"] < 0.1


def test_recomputed_layers_give_the_same_gradient_and_run_twice(
    tiny_model: Path, rollout: Rollout, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(gradient_checkpointing=True)
    plain, recomputed = _load(tiny_model), _load(tiny_model, runtime)
    assert plain.fast and not recomputed.fast  # the functional form keeps what it computes
    plain.fast = False
    calls: list[bool] = []
    attention = recomputed.model.model.layers[0].self_attn
    attention.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    found = _scored(recomputed, rollout.rows())
    assert calls == [True, True]
    _same(found, _scored(plain, rollout.rows()), 1e-6)
    assert not any(module.training for module in recomputed.model.modules())


def test_recomputing_brings_no_dropout_back(tmp_path: Path, rollout: Rollout) -> None:
    folder = make_model(tmp_path, attention_dropout=0.5)
    runtime = Runtime(gradient_checkpointing=True)
    plain, recomputed = _load(folder), _load(folder, runtime)
    plain.fast = False
    _same(_scored(recomputed, rollout.rows()), _scored(plain, rollout.rows()), 1e-6)


def test_a_layer_that_would_drop_out_while_recomputed_is_refused() -> None:
    settings = {"vocab_size": 20, "hidden_size": 16, "ffn_dim": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = OPTForCausalLM(OPTConfig(**settings, word_embed_proj_dim=16, dropout=0.1)).eval()
    with pytest.raises(ValueError, match=r"runtime\.gradient_checkpointing: OPTDecoderLayer would drop out 0\.1"):
        forward.recompute_layers(model)


@torch.no_grad()
def test_a_recomputing_policy_still_decodes_from_its_cache(tiny_model: Path, policy: Policy) -> None:
    recomputed = _load(tiny_model, Runtime(gradient_checkpointing=True))
    prompts = Prompts.of(policy.encode(["Q 1 + 2", "Q 3 A answer"]))
    ours, theirs = (x.decoder(prompts, 1, 3) for x in (recomputed, policy))
    assert torch.allclose(ours.first_logits, theirs.first_logits, atol=1e-5)
    for token in ([4, 5], [6, 7]):
        assert torch.allclose(ours.step(torch.tensor(token)), theirs.step(torch.tensor(token)), atol=1e-5)


def test_a_prompt_is_the_user_s_turn_of_the_chat_template(chatty: Path) -> None:
    def words(**changes: object) -> str:
        policy = _load(chatty, chat=True, **changes)
        return " ".join(policy.words(policy.encode(["1 + 2", "3"])[0]))

    assert words() == "Q 1 + 2 , A"
    assert words(thinking=True) == "Q 1 + 2 , A answer"
    assert words(system="answer 5") == "? answer 5 , Q 1 + 2 , A"
    plain = _load(chatty, chat=False)
    assert plain.words(plain.encode(["1 + 2"])[0]) == ["1", "+", "2"]


def test_a_chat_without_a_template_is_refused_with_the_cure(tiny_model: Path) -> None:
    with pytest.raises(
        ValueError, match=r"model\.chat: the tokenizer of '.*' has no chat template; set model\.chat=false"
    ):
        _load(tiny_model, chat=True)


def test_full_weights_are_what_the_hub_format_holds(tmp_path: Path) -> None:
    for tied in (True, False):
        folder = make_model(tmp_path / str(tied), tie_word_embeddings=tied)
        policy = _load(folder)
        saved = AutoModelForCausalLM.from_pretrained(folder).state_dict()
        found = dict(policy.full_weights())
        assert ("lm_head.weight" in found) == (not tied)
        assert set(found) == set(saved) - ({"lm_head.weight"} if tied else set())
        assert all(torch.equal(value, saved[name]) for name, value in found.items())
