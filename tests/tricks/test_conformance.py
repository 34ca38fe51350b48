"""Every trick found keeps its slot's contract; a new function is held to it without a test of its own."""

import pytest
import torch

from harness import tricks
from harness.tricks.keep import Kept

FOUND = [(slot, name) for slot in tricks.SLOTS for name in tricks.registry()[slot]]
BATCH_SLOTS = [(slot, name) for slot, name in FOUND if slot in ("admit", "reward", "advantage", "weight")]


def _offer(prompts: int = 3, samples: int = 4, width: int = 6, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, width + 1, (prompts, samples), generator=generator)
    rewards = torch.randint(0, 2, (prompts, samples), generator=generator).double()
    mask = torch.arange(width) < lengths[..., None]
    rows = mask.flatten(0, 1)
    return {
        "rewards": rewards,
        "lengths": lengths,
        "mask": mask,
        "truncated": lengths == width,
        "counted": torch.ones(prompts, samples, dtype=torch.bool),
        "rows_mask": rows,
        "logratio": torch.where(rows, 0.5 * torch.randn(rows.shape, generator=generator), 0.0),
        "advantage": torch.randn(rows.shape, generator=generator),
        "logp": -torch.rand(rows.shape, generator=generator),
        "ref_logp": -torch.rand(rows.shape, generator=generator),
        "entropy": torch.rand(rows.shape, generator=generator),
    }


def _call(slot: str, name: str, offered: dict[str, torch.Tensor]):
    if slot in ("surrogate", "penalty"):
        offered = offered | {"mask": offered["rows_mask"]}
    return tricks.bind(slot, name, {})(offered)


def _tensors(result: object) -> list[torch.Tensor]:
    return [result.tokens, result.counted] if isinstance(result, Kept) else [result]  # type: ignore[list-item]


@pytest.mark.parametrize(("slot", "name"), FOUND)
def test_documented_with_formula_source_and_typed_knobs(slot: str, name: str) -> None:
    trick = tricks.get(slot, name)
    assert "=" in trick.formula
    assert trick.source.startswith("arXiv:")
    assert set(trick.knobs) == set(trick.defaults)


@pytest.mark.parametrize(("slot", "name"), FOUND)
def test_shape_is_the_slots_and_inputs_stay_untouched(slot: str, name: str) -> None:
    offered = _offer()
    before = {key: value.clone() for key, value in offered.items()}
    shapes = [tuple(x.shape) for x in _tensors(_call(slot, name, offered))]
    expected = {
        "admit": [(3,)],
        "reward": [(3, 4)],
        "keep": [(3, 4, 6), (3, 4)],
        "advantage": [(3, 4)],
        "weight": [(3, 4, 6)],
        "surrogate": [(12, 6)],
        "penalty": [(12, 6)],
    }
    assert shapes == expected[slot]
    assert all(torch.equal(offered[key], before[key]) for key in before)


@pytest.mark.parametrize(("slot", "name"), BATCH_SLOTS)
def test_permuting_prompts_permutes_results(slot: str, name: str) -> None:
    offered, order = _offer(), torch.tensor([2, 0, 1])
    permuted = {key: value[order] if value.shape[0] == 3 else value for key, value in offered.items()}
    assert torch.allclose(_call(slot, name, permuted).double(), _call(slot, name, offered)[order].double())


@pytest.mark.parametrize(("slot", "name"), FOUND)
@pytest.mark.parametrize("case", ["all_equal", "one_sample", "one_prompt", "nothing_kept", "no_prompts"])
def test_degenerate_batches_stay_finite(slot: str, name: str, case: str) -> None:
    offered = _offer(prompts={"one_prompt": 1, "no_prompts": 0}.get(case, 3), samples=1 if case == "one_sample" else 4)
    if case == "all_equal":
        offered["rewards"] = torch.full_like(offered["rewards"], 0.7)
    if case == "nothing_kept":
        offered |= {key: torch.zeros_like(offered[key]) for key in ("mask", "rows_mask", "counted")}
    for x in _tensors(_call(slot, name, offered)):
        assert torch.isfinite(x.double()).all()


@pytest.mark.parametrize("name", tricks.registry()["weight"])
def test_masked_tokens_weigh_nothing_and_weights_sum_to_one(name: str) -> None:
    offered = _offer()
    w = _call("weight", name, offered)
    assert not w[~offered["mask"]].any()
    assert float(w.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", tricks.registry()["advantage"])
def test_uncounted_samples_neither_move_others_nor_have_an_advantage(name: str) -> None:
    offered = _offer()
    offered["counted"] = torch.tensor([[False, True, True, True]] * 3)
    result = _call("advantage", name, offered)
    other = offered["rewards"].clone()
    other[:, 0] = 123.0
    assert torch.equal(result, _call("advantage", name, offered | {"rewards": other}))
    assert not result[:, 0].any()


@pytest.mark.parametrize("slot", ["surrogate", "penalty"])
def test_rows_do_not_see_other_rows(slot: str) -> None:
    for name in tricks.registry()[slot]:
        offered = _offer()
        whole = _call(slot, name, offered)
        one = {key: value[:1] if value.shape[0] == 12 else value for key, value in offered.items()}
        assert torch.equal(_call(slot, name, one), whole[:1])


def test_a_wrong_shape_is_refused_not_broadcast() -> None:
    from harness.tricks import advantage

    with pytest.raises(Exception, match="counted"):
        advantage.group_z(torch.zeros(3, 4), torch.ones(3, 5, dtype=torch.bool))


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(tricks.TrickError, match="did you mean 'group_z'"):
        tricks.get("advantage", "grup_z")
    with pytest.raises(tricks.TrickError, match="did you mean 'advantage'"):
        tricks.get("advantge", "group_z")
    with pytest.raises(tricks.TrickError, match=r"did you mean .high..*its knobs: low, high"):
        tricks.complete("surrogate", "clip", {"hihg": 0.28})
    with pytest.raises(tricks.TrickError, match="takes a float, not 'big'"):
        tricks.complete("surrogate", "clip", {"high": "big"})
    with pytest.raises(tricks.TrickError, match="takes a float, not True"):
        tricks.complete("surrogate", "clip", {"high": True})
