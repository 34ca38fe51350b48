"""Fixtures: a tiny random Qwen3 in hub format, with a word-level tokenizer."""

from pathlib import Path
from typing import Any

import pytest

WORDS = ["<pad>", "<unk>", "<end>", "Q", "=", "?", "A", "answer", ",", "+", "-", *map(str, range(20))]
FORKED = ("tests/core/test_sharded.py", "tests/core/test_parallel.py", "tests/core/test_train.py::test_a_kill_at_any")


@pytest.hookimpl(optionalhook=True)  # xdist's
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests go one by one to whoever is free, but for those that share what takes long to make; these stay together.

    That is a file of tests/analysis (sweeps, pictures), trainings that are forked from one server, and all of Slurm:
    one cluster, whose tests mostly wait, so that `make test` has a process more than cores for them. The groups of
    most tests begin.
    """
    from xdist.scheduler import LoadScopeScheduling

    class TogetherWhereShared(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/slurm/"):
                return "slurm"
            if nodeid.startswith(FORKED):
                return "forked"
            return nodeid.partition("::")[0] if nodeid.startswith("tests/analysis/") else nodeid

    return TogetherWhereShared(config, log)


def make_model(folder: Path, **changes: object) -> Path:
    """A random-weight Qwen3 of about 30 k parameters whose logits are spread enough to sample from."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>", unk_token="<unk>"
    ).save_pretrained(folder)
    settings = {
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "bos_token_id": None,
    }
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**(settings | changes)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif "embed" in name:
                parameter.mul_(12.0)
            else:
                parameter.mul_(4.0)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "tiny")
