"""The mathematics behind the plan's refusals, held against the tricks themselves."""

import pytest
import torch

from harness import tricks
from tests.tricks.batches import call, offer

AFFINE = [name for name, trick in tricks.registry()["advantage"].items() if trick.affine_invariant]
CENTRED = [name for name, trick in tricks.registry()["advantage"].items() if trick.group_centred]


def _gradient(name: str, advantage: torch.Tensor, mask: torch.Tensor, **knobs: float) -> torch.Tensor:
    logratio = torch.zeros(advantage.shape, dtype=torch.float64, requires_grad=True)
    gain = tricks.bind("surrogate", name, knobs)({"logratio": logratio, "advantage": advantage, "mask": mask})
    torch.where(mask, gain, 0.0).sum().backward()
    assert logratio.grad is not None
    return logratio.grad


@pytest.mark.parametrize("name", tricks.registry()["surrogate"])
def test_the_gradient_of_every_surrogate_is_a_at_a_ratio_of_one(name: str) -> None:
    offered = offer()
    per_row = offered["advantage"][:, :1].expand(offered["advantage"].shape)
    mask = offered["rows_mask"]
    expected = torch.where(mask, per_row, 0.0)
    assert torch.allclose(_gradient(name, per_row, mask), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "sign", "knobs"),
    [
        ("dual_clip", -1, {"c": 0.5}),
        ("topr", -1, {"cap": 0.5}),
        ("clip", 1, {"high": -0.1}),
        ("cispo", 1, {"high": -0.1}),
    ],
)
def test_those_that_the_plan_lets_through_act_there(name: str, sign: int, knobs: dict[str, float]) -> None:
    mask = offer()["rows_mask"]
    advantage = torch.full(mask.shape, float(sign), dtype=torch.float64)
    assert not torch.allclose(_gradient(name, advantage, mask, **knobs), torch.where(mask, advantage, 0.0))


def test_a_geometric_mean_over_unlike_advantages_is_not_their_sum() -> None:
    mask = offer()["rows_mask"]
    unlike = torch.ones(mask.shape, dtype=torch.float64).cumsum(-1)
    assert not torch.allclose(_gradient("gmpo", unlike, mask), torch.where(mask, unlike, 0.0))


@pytest.mark.parametrize("name", AFFINE)
def test_the_marker_of_affine_invariance_is_true(name: str) -> None:
    offered = offer()
    count, mean, squares, low, high = offered["past"].tolist()
    moved = torch.tensor([count, 3 * mean - 1, 9 * squares, 3 * low - 1, 3 * high - 1], dtype=torch.float64)
    other = call("advantage", name, offered | {"rewards": 3 * offered["rewards"] - 1, "past": moved})
    assert torch.allclose(call("advantage", name, offered), other, atol=2e-5)


@pytest.mark.parametrize("name", CENTRED)
def test_the_marker_of_a_group_mean_is_true(name: str) -> None:
    assert not call("advantage", name, offer(prompts=5, samples=1)).any()


@pytest.mark.parametrize("name", sorted(set(tricks.registry()["advantage"]) - set(CENTRED)))
def test_the_others_say_something_of_a_group_of_one(name: str) -> None:
    result = call("advantage", name, offer(prompts=5, samples=1))
    assert (result.advantage if hasattr(result, "advantage") else result).any()


def test_weights_of_one_token_each() -> None:
    whole = torch.ones(3, 4, 1, dtype=torch.bool)
    some = whole & torch.tensor([[1, 1, 1, 1], [0, 1, 0, 0], [1, 1, 0, 0]]).bool()[..., None]

    def weights(mask: torch.Tensor, *names: str) -> list[torch.Tensor]:
        return [tricks.bind("weight", name, {})({"mask": mask, "limit": 1}) for name in names]

    first, *others = weights(whole, "token_mean", "sequence_mean", "sequence_sum", "prompt_mean", "constant_length")
    assert all(torch.allclose(first, other) for other in others)
    first, *others = weights(some, "token_mean", "sequence_mean", "sequence_sum")
    assert all(torch.allclose(first, other) for other in others)
    assert not any(torch.allclose(first, other) for other in weights(some, "prompt_mean", "constant_length"))


def test_weights_that_are_each_other() -> None:
    mask, single = offer()["mask"], offer(prompts=5, samples=1)["mask"]

    def weight(name: str, mask: torch.Tensor, **knobs: int) -> torch.Tensor:
        return tricks.bind("weight", name, knobs)({"mask": mask, "limit": 6})

    assert torch.allclose(weight("microbatch_token_mean", mask, rows=1), weight("sequence_mean", mask))
    assert torch.allclose(weight("microbatch_token_mean", mask, rows=12), weight("token_mean", mask))
    assert torch.allclose(weight("prompt_mean", single), weight("sequence_mean", single))
