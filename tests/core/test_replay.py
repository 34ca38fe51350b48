"""Truncated sampling: what the engine says of its own distribution, and ratios over what it could choose from."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from harness import store
from harness.config import ConfigError
from harness.core import engines
from harness.core.engines.hf import HfEngine, _joined, _kept, _truncate
from harness.core.metrics import gap_metrics
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout
from harness.core.train import train
from tests.core.conftest import MakeRun

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0]])  # p = .643914, .236883, .087144, .032059


@pytest.fixture(scope="module")
def truncated(policy: Policy) -> Rollout:
    engine = HfEngine()
    engine.sync(policy)
    prompts = Prompts.of(policy.encode(["Q 1 + 2 = ? A", "Q 3 A"]))
    params = engines.SamplingParams(24, 0.9, top_p=0.8, top_k=5, replay=True)
    return engine.generate(prompts, np.arange(8).reshape(2, 4), params)


def test_the_kept_tokens_of_two_of_four() -> None:
    left = _truncate(LOGITS.softmax(-1), engines.SamplingParams(1, 1.0, top_k=2))
    assert sorted(_kept(left)[0].tolist()) == [0, 1]
    # log(.643914 / .880797) = -.126928 above the log-probability over all four
    assert float(LOGITS.log_softmax(-1)[0, 0] - left.sum().log()) == pytest.approx(-0.313262, abs=1e-6)
    uneven = torch.tensor([[0.5, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]])
    assert [sorted(row) for row in _kept(uneven).tolist()] == [[0, 2], [-1, 1]]


def test_kept_tokens_stand_at_their_place_and_nothing_beyond_an_end() -> None:
    first = (torch.tensor([0, 1]), torch.tensor([[4, 5], [6, -1]]).int())
    second = (
        torch.tensor([0, 1]),
        torch.tensor([[8], [7]]).int(),
    )  # row 0 has ended and runs on
    joined = _joined([first, second], torch.tensor([1, 2]))
    assert joined.tolist() == [[[4, 5], [-1, -1]], [[6, -1], [7, -1]]]


def test_every_sampled_token_is_among_those_kept_and_told_as_of_them(truncated: Rollout, policy: Policy) -> None:
    assert truncated.support is not None
    mask = truncated.mask
    assert (truncated.support == truncated.tokens[..., None]).any(-1)[mask].all()
    assert int((truncated.support >= 0).sum(-1)[mask].max()) <= 5
    full, _ = policy.logprobs(replace(truncated.rows(), support=None), 0.9)
    replayed, _ = policy.logprobs(truncated.rows(), 0.9)
    told = truncated.logp.flatten(0, 1)[truncated.rows().mask]
    assert torch.allclose(replayed[truncated.rows().mask], told, atol=1e-5)
    assert (told - full[truncated.rows().mask]).max() > 0.1  # renormalised over four fifths of the mass


def test_a_batch_joined_of_parts_keeps_every_parts_tokens(truncated: Rollout) -> None:
    first, second = (truncated.take(torch.tensor([i])) for i in (0, 1))
    joined = Rollout.join([first, second])
    assert joined.support is not None and truncated.support is not None
    assert torch.equal(joined.support, truncated.support)
    assert Rollout.join([first, replace(second, support=None)]).support is None


def test_the_gap_of_a_sampled_token_is_measured_before_anything_corrects_it(truncated: Rollout) -> None:
    assert gap_metrics(truncated) == {}
    ratio = torch.where(torch.arange(truncated.tokens.shape[-1]) == 0, 4.0, 1.0)  # q = 4 on every first token
    found = gap_metrics(replace(truncated, trainer_logp=truncated.logp + ratio.log()))
    share = 8 / int(truncated.mask.sum())
    assert found == {
        "gap/mean_abs": pytest.approx(share * math.log(4), rel=1e-5),
        "gap/max_abs": pytest.approx(math.log(4), rel=1e-5),
        "gap/kl": pytest.approx(-share * math.log(4), rel=1e-5),
        "gap/ratio_mean": pytest.approx(1 + 3 * share, rel=1e-5),
        "gap/outside_share": pytest.approx(share),
    }


def _first(run: store.Run) -> dict[str, float]:
    train(run)
    assert run.state() == "done"
    return run.read("metrics")[0]["m"]


CUT = {"sampling__top_k": 3, "sampling__temperature": 0.9, "train__steps": 1}


def test_the_ratio_starts_at_one_over_the_kept_tokens_and_at_the_kept_mass_over_all(make_run: MakeRun) -> None:
    replayed = _first(make_run("replay", sampling__logprob_support="replay", **CUT))
    assert replayed["ratio/first_update"] < 1e-5
    full = _first(make_run("full", **CUT))
    assert full["ratio/first_update"] > 0.2  # -log of the mass that top-k left
    again = _first(make_run("again", sampling__old_logp="recompute", **CUT))
    assert again["ratio/first_update"] < 1e-5  # hidden, not gone:
    assert again["gap/max_abs"] > full["ratio/first_update"] - 1e-5  # of all rows, not of the first update's alone
    assert again["gap/ratio_mean"] < 0.9


def test_recomputed_and_detached_log_probabilities_train_as_the_engines_do_where_there_is_no_gap(
    make_run: MakeRun,
) -> None:
    one = {"train__steps": 2, "train__updates_per_rollout": 1}
    curves = []
    for old in ("engine", "recompute", "detach"):
        run = make_run(old, sampling__old_logp=old, **one)
        train(run)
        curves.append([record["m"] for record in run.read("metrics")])
    assert curves[1][0]["gap/max_abs"] < 1e-5
    assert curves[2][0]["ratio/first_update"] == 0.0
    for curve in curves[1:]:
        for mine, theirs in zip(curve, curves[0], strict=True):
            for key in ("train/accuracy", "policy/entropy", "grad/norm"):
                if key in theirs:
                    assert mine[key] == pytest.approx(theirs[key], rel=1e-3)


def test_what_needs_the_trainers_word_is_refused_without_it(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tricks.keep: 'token_tis' compares .*set sampling.old_logp=recompute"):
        make_run(tricks__keep="token_tis")
    with pytest.raises(ConfigError, match=r"sampling.old_logp: detach makes every ratio 1 in all 4 updates"):
        make_run(sampling__old_logp="detach")


def test_words_for_a_chat_template_are_refused_where_none_is_used(make_run: MakeRun) -> None:
    for key, value in {"system": "Be brief.", "thinking": True}.items():
        with pytest.raises(
            ConfigError,
            match=rf"model.{key}: is for a chat template, which is off; set model.chat=true, or",
        ):
            make_run(**{f"model__{key}": value})


def test_a_correction_weighs_by_the_kept_mass(make_run: MakeRun) -> None:
    """Truncated importance sampling turns 1/S of the engine's distribution back: its gradient is smaller."""
    settings = CUT | {"sampling__old_logp": "recompute", "tricks__reward": {"name": "affine"}}
    plain = _first(make_run("plain", **settings))
    weighed = _first(make_run("tis", tricks__keep="token_tis", **settings))
    assert weighed["gap/ratio_mean"] == pytest.approx(plain["gap/ratio_mean"])
    assert weighed["grad/norm"] < plain["grad/norm"]
