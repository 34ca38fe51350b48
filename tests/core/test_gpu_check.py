"""The GPU check in its small shape: it runs, its checks can fail, and its FLOPs are the textbook's."""

import json
import sys
from pathlib import Path

import pytest
import torch

from bench import gpu_check
from harness.core import head


def test_the_small_shape_runs_and_writes_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "numbers.json"
    monkeypatch.setattr(sys, "argv", ["gpu_check", "--tiny", "--json", str(out)])
    assert gpu_check.main() == 0
    found = json.loads(out.read_text())
    assert found["head same"] and found["score same"] and found["head largest difference"] < 2e-6
    assert found["step update tokens/s"] > 0 and found["step largest |log ratio| at first"] < 1e-6
    assert "chunked ms" in capsys.readouterr().out


def test_a_wrong_gradient_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    right = head._d_logits
    monkeypatch.setattr(head, "_d_logits", lambda *given: right(*given) * 1.001)
    assert not gpu_check._head(tiny=True)["same"]


def test_flops_of_a_token_are_six_per_weight_and_the_attention_s() -> None:
    """Qwen3-0.6B has 595,984,384 weights with its tied embedding once, norms (65,536 of them) aside."""
    shape = gpu_check.REAL
    norms = 28 * (2 * 1024 + 2 * 128) + 1024
    assert gpu_check._flops_per_token(shape, 0) == 6 * (596_049_920 - norms)
    assert gpu_check._flops_per_token(shape, 256) - gpu_check._flops_per_token(shape, 0) == 6 * 28 * 16 * 128 * 256
    with torch.device("meta"):
        from transformers import Qwen3Config, Qwen3ForCausalLM

        model = Qwen3ForCausalLM(Qwen3Config(**shape, tie_word_embeddings=True))
    assert sum(p.numel() for p in model.parameters()) == 596_049_920
