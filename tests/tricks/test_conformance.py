"""Every trick found keeps its slot's contract; a new function is held to it without a test of its own."""

from typing import Any

import pytest
import torch

from harness import tricks
from tests.tricks.batches import FOUND, SHARED, call, names, offer, tensors

BATCH = [(slot, name) for slot, name in FOUND if slot in ("admit", "reward", "keep", "advantage", "weight")]
ROWS = [(slot, name) for slot, name in FOUND if slot in ("surrogate", "penalty")]
# Its micro-batches are consecutive samples in rollout order, so another order is another loss: that is the trap shown.
ORDERED = [("weight", "microbatch_token_mean")]

# slot -> the shapes it may answer with, for 3 prompts, 4 samples, 6 tokens, 12 rows
SHAPES: dict[str, list[list[tuple[int, ...]]]] = {
    "admit": [[(3,)]],
    "reward": [[(3, 4)]],
    "keep": [[(3, 4, 6), (3, 4), (3, 4)], [(3, 4, 6), (3, 4), (3, 4), (3, 4, 6)]],
    "advantage": [[(3, 4)], [(3, 4, 6)], [(3, 4, 6), (3, 4, 6)]],
    "weight": [[(3, 4, 6)]],
    "surrogate": [[(12, 6)]],
    "penalty": [[(12, 6)]],
}


def _copy(offered: dict[str, Any]) -> dict[str, Any]:
    return {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in offered.items()}


def _same(one: object, other: object) -> bool:
    return all(torch.equal(x, y) for x, y in zip(tensors(one), tensors(other), strict=True))


@pytest.mark.parametrize(("slot", "name"), FOUND)
def test_documented_with_formula_source_and_typed_knobs(slot: str, name: str) -> None:
    trick = tricks.get(slot, name)
    assert "=" in trick.formula
    assert trick.source.startswith("arXiv:")
    assert set(trick.knobs) == set(trick.defaults)


@pytest.mark.parametrize(("slot", "name"), FOUND)
def test_shape_is_the_slots(slot: str, name: str) -> None:
    assert [tuple(x.shape) for x in tensors(call(slot, name, offer()))] in SHAPES[slot]


@pytest.mark.parametrize(("slot", "name"), FOUND)
def test_inputs_stay_untouched_even_if_the_answer_is_written_into(slot: str, name: str) -> None:
    offered = offer()
    before = _copy(offered)
    for x in tensors(call(slot, name, offered)):
        x.copy_(x == 0)  # changes every element of a flag or a number
    for key, value in before.items():
        assert (
            (value == offered[key]) if key == "limit" else torch.equal(value.nan_to_num(9), offered[key].nan_to_num(9))
        )


def _others(knob: tricks.Knob) -> list[tricks.Knob]:
    """Other values of a knob, small and large."""
    if isinstance(knob, bool):
        return [not knob]
    assert not isinstance(knob, str)
    return [knob + 1, knob / 2, knob / 1000] if isinstance(knob, float) else [knob + 1, knob - 1]


@pytest.mark.parametrize(("slot", "name"), FOUND)
def test_every_knob_reaches_the_formula(slot: str, name: str) -> None:
    defaults = tricks.get(slot, name).defaults
    switched = defaults | {knob: True for knob, value in defaults.items() if isinstance(value, bool)}  # eps of `whiten`
    batches = [offer(seed=seed) for seed in range(20)]
    for knob in defaults:
        assert any(
            not _same(call(slot, name, batch, **rest), call(slot, name, batch, **(rest | {knob: other})))
            for rest in (defaults, switched)
            for other in _others(rest[knob])
            for batch in batches
        ), knob


@pytest.mark.parametrize("axis", [0, 1], ids=["prompts", "samples"])
@pytest.mark.parametrize(("slot", "name"), [found for found in BATCH if found not in ORDERED])
def test_another_order_of_prompts_or_samples_is_the_same_answer_in_that_order(slot: str, name: str, axis: int) -> None:
    order = torch.tensor([[2, 0, 1], [3, 1, 0, 2]][axis])
    offered = offer()
    moved = {
        key: value.index_select(axis, order)
        if isinstance(value, torch.Tensor) and value.dim() > axis and value.shape[axis] == len(order)
        else value
        for key, value in offered.items()
    }
    for x, y in zip(tensors(call(slot, name, offered)), tensors(call(slot, name, moved)), strict=True):
        expected = x.index_select(axis, order) if x.dim() > axis else x
        assert torch.allclose(y.double(), expected.double(), rtol=1e-12, atol=1e-14)


def _degenerate(case: str, seed: int) -> dict[str, Any]:
    prompts, samples = {"one_prompt": (1, 4), "no_prompts": (0, 4), "one_sample": (3, 1), "no_samples": (3, 0)}.get(
        case, (3, 4)
    )
    offered = offer(prompts, samples, seed=seed)
    if case == "all_equal":
        offered["rewards"] = torch.full_like(offered["rewards"], 0.7)
    if case == "nothing_kept":
        offered |= {key: torch.zeros_like(offered[key]) for key in ("mask", "rows_mask", "counted", "lengths")}
    if case == "no_history":
        offered["entropies"] = torch.zeros(0)
    return offered


@pytest.mark.parametrize(("slot", "name"), FOUND)
@pytest.mark.parametrize(
    "case", ["all_equal", "one_sample", "one_prompt", "nothing_kept", "no_prompts", "no_samples", "no_history"]
)
def test_degenerate_batches_stay_finite(slot: str, name: str, case: str) -> None:
    for seed in range(3):
        for x in tensors(call(slot, name, _degenerate(case, seed))):
            assert torch.isfinite(x.double()).all()


@pytest.mark.parametrize(("slot", "name"), BATCH)
def test_rewards_may_be_float32_or_float64(slot: str, name: str) -> None:
    single, double = call(slot, name, offer()), call(slot, name, offer() | {"rewards": offer()["rewards"].float()})
    for x, y in zip(tensors(single), tensors(double), strict=True):
        assert torch.allclose(x.double(), y.double(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", names("weight"))
def test_masked_tokens_weigh_nothing_and_others_something(name: str) -> None:
    offered = offer()
    weight = call("weight", name, offered)
    assert not weight[~offered["mask"]].any()
    assert (weight[offered["mask"]] > 0).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", names("weight", "Σ w = 1"))
def test_weights_sum_to_one_where_the_docstring_says_so(name: str, seed: int) -> None:
    offered = offer(seed=seed)
    offered["mask"][0, 1] = False  # also when a sequence, and here a prompt, was dropped
    offered["mask"][2] = False
    assert float(call("weight", name, offered).sum()) == pytest.approx(1.0, abs=1e-12)


def test_some_weights_do_sum_to_one_and_some_do_not() -> None:
    assert 0 < len(names("weight", "Σ w = 1")) < len(names("weight"))


@pytest.mark.parametrize("name", names("advantage"))
def test_uncounted_samples_neither_move_others_nor_have_an_advantage(name: str) -> None:
    answers = []
    for reward in (0.0, 123.0, torch.nan):
        offered = offer()
        offered["counted"][:, 0] = False
        offered["rewards"][:, 0] = reward
        for key in ("values", "kl"):  # nor do their tokens
            offered[key][:, 0] = reward
        answers.append(tensors(call("advantage", name, offered))[0])
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[0], answers[2])
    assert not answers[0][:, 0].any()
    assert answers[0][:, 1:].any()


@pytest.mark.parametrize("name", names("advantage"))
def test_masked_tokens_neither_move_others_nor_have_an_advantage(name: str) -> None:
    offered = offer()
    poisoned = offered | {key: offered[key].masked_fill(~offered["mask"], torch.nan) for key in ("values", "kl")}
    clean, other = (tensors(call("advantage", name, x)) for x in (offered, poisoned))
    for x, y in zip(clean, other, strict=True):
        assert torch.equal(x, y)
        assert x.dim() == 2 or not x[~offered["mask"]].any()


@pytest.mark.parametrize("name", names("reward"))
def test_what_is_behind_a_responses_end_does_not_change_its_reward(name: str) -> None:
    offered = offer()
    other = offered | {"tokens": offered["tokens"].masked_fill(~offered["mask"], 7)}
    assert torch.equal(call("reward", name, offered), call("reward", name, other))


@pytest.mark.parametrize("name", names("keep"))
def test_nothing_is_kept_that_was_masked(name: str) -> None:
    offered = offer()
    assert not call("keep", name, offered).tokens[~offered["mask"]].any()


@pytest.mark.parametrize(("slot", "name"), ROWS)
def test_rows_do_not_see_other_rows(slot: str, name: str) -> None:
    offered = offer()
    whole = call(slot, name, offered)
    for row in range(12):
        others = torch.arange(12) != row
        poisoned = _copy(offered)
        for key, value in poisoned.items():
            if key not in (*SHARED, "limit") and value.shape[0] == 12:
                value[others] = torch.nan if value.is_floating_point() else ~value[others]
        assert torch.equal(call(slot, name, poisoned)[row], whole[row])


def _gain(slot: str, name: str, offered: dict[str, Any]) -> tuple[float, dict[str, torch.Tensor]]:
    """Sum and gradients of what is kept, with the loop's own `where` before (on the log-ratio) and after."""
    kept = offered["rows_mask"]
    leaves = {key: offered[key].clone().requires_grad_() for key in ("logratio", "logp", "entropy")}
    gain = call(slot, name, offered | leaves | {"logratio": torch.where(kept, leaves["logratio"], 0.0)})
    total = torch.where(kept, gain, 0.0).sum()
    if total.requires_grad:
        total.backward()
    gradients = {key: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for key, leaf in leaves.items()}
    return float(total.detach()), gradients


@pytest.mark.parametrize(("slot", "name"), ROWS)
def test_masked_tokens_have_no_gradient_and_change_nothing(slot: str, name: str) -> None:
    offered = offer()
    masked = ~offered["rows_mask"]
    value, gradients = _gain(slot, name, offered)
    assert not any(gradient[masked].any() for gradient in gradients.values())
    garbage = offered | {
        key: offered[key].masked_fill(masked, 50.0) for key in ("advantage", "logp", "ref_logp", "entropy")
    }
    garbage["logratio"] = offered["logratio"].masked_fill(masked, torch.nan)
    other, changed = _gain(slot, name, garbage)
    assert other == value
    assert all(torch.equal(gradients[key], changed[key]) for key in gradients)


@pytest.mark.parametrize(("slot", "name"), ROWS)
def test_nan_in_masked_tokens_never_reaches_a_kept_one(slot: str, name: str) -> None:
    offered = offer()
    kept = offered["rows_mask"]
    poisoned = {key: offered[key].masked_fill(~kept, torch.nan) for key in ("logratio", "logp", "ref_logp", "entropy")}
    clean, other = call(slot, name, offered), call(slot, name, offered | poisoned)
    assert torch.equal(clean[kept], other[kept])
    (value, gradients), (other_value, changed) = _gain(slot, name, offered), _gain(slot, name, offered | poisoned)
    assert other_value == value
    assert all(torch.equal(gradients[key][kept], changed[key][kept]) for key in gradients)


@pytest.mark.parametrize(("slot", "name"), ROWS)
def test_carries_a_gradient_unless_it_is_off(slot: str, name: str) -> None:
    gradients = [_gain(slot, name, offer(seed=seed))[1] for seed in range(5)]
    assert any(x.any() for gradient in gradients for x in gradient.values()) == (name != "none")


def test_a_wrong_shape_is_refused_not_broadcast() -> None:
    from harness.tricks import advantage

    with pytest.raises(Exception, match="counted"):
        advantage.group_z(torch.zeros(3, 4), torch.ones(3, 5, dtype=torch.bool))
