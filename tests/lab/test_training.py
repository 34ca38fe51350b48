"""The training code on a toy schedule: orthogonalised steps, reproducible weights, a loss on responses only."""

from pathlib import Path

import numpy as np
import pytest
import torch

from harness.lab import architecture, corpus, muon, pretrain
from harness.lab.build import build, phases
from harness.lab.vocabulary import tokenizer
from harness.tasks import arithmetic

TOY = pretrain.Phase(6, corpus.FIRST_STYLES, corpus.CLEAN, lr=(0.02, 0.01), first_ops=1, max_ops=3, growing=3, rows=8)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 5, 20), (2, 20, 5)])
def test_orthogonalise_moves_singular_values_near_one(shape: tuple[int, int, int]) -> None:
    g = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(muon.orthogonalise(g, steps=8))
    assert values.min() > 0.5 and values.max() < 1.3


def test_same_seed_same_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        model = architecture.fresh("small", 1)
        pretrain.train(model, tokenizer(), [TOY], seed, say=lambda line: None)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    one, two, other = weights(3), weights(3), weights(4)
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_batches_hold_no_held_out_prompt_and_want_responses_only() -> None:
    words = tokenizer()
    rng = np.random.Generator(np.random.PCG64(0))
    for ids, wanted in pretrain.batches(rng, words, TOY):
        assert wanted.shape == (ids.shape[0], ids.shape[1] - 1)
        for row, mask in zip(ids, wanted, strict=True):
            first = int(mask.nonzero()[0]) + 1
            prompt = words.decode(row[:first])
            assert prompt.endswith("= ? A") and not arithmetic.held_out(prompt)
            last = int(mask.nonzero()[-1]) + 1
            assert row[last] == words.eos_token_id and not row[last + 1 :].any()


def test_loss_equals_the_models_own_over_responses() -> None:
    model = architecture.fresh("small", 1)
    ids, wanted = next(pretrain.batches(np.random.Generator(np.random.PCG64(0)), tokenizer(), TOY))
    labels = torch.where(torch.nn.functional.pad(wanted, (1, 0)), ids, -100)
    expected = model(input_ids=ids, labels=labels).loss
    assert pretrain.response_loss(model, ids, wanted).item() == pytest.approx(expected.item(), rel=1e-5)


def test_build_names_what_it_cannot_make(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no model 'tiny'"):
        build(tmp_path, ["tiny"])
    with pytest.raises(ValueError, match="it is trained from small_base"):
        build(tmp_path, ["small_aligned"])


def test_an_aligned_model_reads_careful_answers_only() -> None:
    assert [set(phase.styles) for phase in phases("large_aligned")] == [{corpus.careful}]
