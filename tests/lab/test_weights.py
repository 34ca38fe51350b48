"""The committed miniature models: their sizes, that transformers loads them, where they start from."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness.lab import bands, measure
from harness.lab.build import ROLES, WEIGHTS, build


def load(folder: Path) -> tuple:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)


def check_start(folder: Path, role: str, size: int, slack: float) -> None:
    model, words = load(folder)
    truncated = []
    for difficulty, (low, high) in bands.START[role].items():
        found = measure.start(model, words, difficulty, size=size)
        assert low - slack <= found.accuracy <= high + slack, (role, difficulty, found)
        truncated.append(found.truncated)
    low, high = bands.TRUNCATED[role.split("_")[1]]
    assert low - slack / 2 <= sum(truncated) / len(truncated) <= high + slack / 2, (role, truncated)


def test_all_four_together_stay_small() -> None:
    assert sum(file.stat().st_size for file in WEIGHTS.rglob("*") if file.is_file()) <= bands.MAX_BYTES


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_a_qwen3_in_hub_format(role: str) -> None:
    model, words = load(WEIGHTS / role)
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert model.config.head_dim == 32 and model.config.tie_word_embeddings
    assert model.num_parameters() == bands.PARAMETERS[role.split("_")[0]]
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.generation_config.eos_token_id == words.eos_token_id == model.config.eos_token_id
    assert words.encode("Q 17 a+1 = ? A")[0] == words.convert_tokens_to_ids("Q")


@pytest.mark.parametrize("role", ROLES)
def test_a_role_starts_within_its_bands(role: str) -> None:
    check_start(WEIGHTS / role, role, size=100, slack=0.10)


@pytest.mark.slow
def test_building_anew_lands_in_the_bands(tmp_path: Path) -> None:
    build(tmp_path, ["small_base"])
    check_start(tmp_path / "small_base", "small_base", size=400, slack=0.0)
