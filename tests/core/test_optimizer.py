"""The optimizer against torch's own over a list, and what it does for numbers that bfloat16 would lose."""

import copy

import pytest
import torch

from harness.config import Train
from harness.core.optimizer import Optimizer

SETTINGS = Train(steps=1, updates_per_rollout=1, lr=1e-2, warmup_steps=4, weight_decay=0.1, max_grad_norm=0.5)


def test_it_does_what_adamw_and_clip_grad_norm_do_over_a_list() -> None:
    torch.manual_seed(0)
    ours = {name: torch.nn.Parameter(torch.randn(shape)) for name, shape in (("a", (3, 4)), ("b", (5,)))}
    theirs = copy.deepcopy(ours)
    optimizer = Optimizer(ours, SETTINGS, SETTINGS.lr)
    reference = torch.optim.AdamW(
        theirs.values(), lr=SETTINGS.lr, betas=(SETTINGS.beta1, SETTINGS.beta2), eps=SETTINGS.adam_eps, weight_decay=0.1
    )
    for rollout in range(6):
        for parameters in (ours, theirs):
            sum(((rollout + 1) * p.sin() * p).sum() for p in parameters.values()).backward()  # type: ignore[union-attr]
        norm = torch.nn.utils.clip_grad_norm_(theirs.values(), 0.5)
        reference.param_groups[0]["lr"] = SETTINGS.lr * min(1.0, (rollout + 1) / 4)
        reference.step()
        reference.zero_grad()
        assert optimizer.step(rollout) == pytest.approx(float(norm), rel=1e-6)
        for name, value in ours.items():
            assert torch.allclose(value, theirs[name], rtol=1e-6, atol=1e-7), name
            assert value.grad is not None and not value.grad.any()


def test_updates_too_small_for_bfloat16_add_up() -> None:
    parameter = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))  # the next number below is 1 - 2^-8
    settings = SETTINGS.model_copy(update={"weight_decay": 0.0, "warmup_steps": 0})
    optimizer = Optimizer({"a": parameter}, settings, 1e-4)
    seen = []
    for _ in range(40):
        (parameter.float().sum() * 0.1).backward()
        optimizer.step(0)  # a constant gradient: every step of Adam is the learning rate
        seen.append(float(parameter[0].detach()))
    assert seen[10] == 1.0 and seen[-1] == 1 - 2**-8
    assert float(optimizer.pieces()["weight/a"].data[0]) == pytest.approx(1 - 40e-4, abs=1e-6)


def test_gradients_of_bfloat16_are_summed_in_float32() -> None:
    parameter = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    settings = SETTINGS.model_copy(update={"max_grad_norm": None})
    optimizer = Optimizer({"a": parameter}, settings, 1e-4)
    parameter.float().sum().backward()
    for _ in range(64):
        (parameter.float().sum() * 2**-9).backward()  # in bfloat16 each of them is lost beside 1
    assert optimizer.step(0) == 1 + 64 * 2**-9


def test_a_norm_that_is_not_finite_updates_nothing() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = Optimizer({"a": parameter}, SETTINGS, 1e-2)
    (parameter * torch.inf).sum().backward()
    assert optimizer.step(0) == torch.inf
    assert parameter.tolist() == [1.0, 1.0] and int(optimizer.updates) == 0
