"""How rows are cut into passes: every row once, within the limits, neighbours of like length."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core import batching
from harness.core.policy import Policy
from harness.core.shapes import Prompts, Rollout, Rows
from harness.core.step import accumulate, bind_slots, micro_batches, prepare
from tests.core.test_step import _samples, choose


def _rows(prompt_lengths: list[int], lengths: list[int]) -> Rows:
    """One row per prompt."""
    prompts = Prompts.of([[1] * length for length in prompt_lengths])
    tokens = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    return Rows(prompts, torch.arange(len(lengths)), tokens, torch.tensor(lengths))


def test_a_part_is_cut_where_its_padded_tokens_pass_the_limit() -> None:
    rows = _rows([2, 2, 2, 2, 2], [1, 2, 3, 8, 9])  # 3, 4, 5, 10, 11 tokens with the prompt
    found = batching.parts(rows, torch.arange(5), max_tokens=15)
    assert [part.tolist() for part in found] == [[0, 1, 2], [3], [4]]  # 3·5 = 15; 4·10, 2·11 are too many
    assert [part.tolist() for part in batching.parts(rows, torch.arange(5), max_tokens=22)] == [[0, 1, 2], [3, 4]]


def test_both_limits_hold_at_once() -> None:
    rows = _rows([1] * 6, [1, 1, 1, 1, 5, 5])
    found = batching.parts(rows, torch.arange(6), max_rows=3, max_tokens=8)
    assert [part.tolist() for part in found] == [[0, 1, 2], [3], [4], [5]]


def test_a_row_longer_than_the_limit_is_alone_and_not_lost() -> None:
    rows = _rows([3, 3, 3], [2, 90, 2])
    assert [part.tolist() for part in batching.parts(rows, torch.arange(3), max_tokens=10)] == [[0], [1], [2]]


def test_the_longest_row_so_far_counts_for_all_rows_of_a_part() -> None:
    rows = _rows([9, 1, 1], [1, 2, 3])  # the long prompt comes first
    assert [part.tolist() for part in batching.parts(rows, torch.arange(3), max_tokens=20)] == [[0, 1], [2]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=25), st.integers(1, 9), st.integers(1, 120))
def test_every_row_is_in_one_part_within_the_limits(lengths: list[int], max_rows: int, max_tokens: int) -> None:
    rows = _rows([2] * len(lengths), lengths)
    order = batching.by_length(rows, torch.arange(len(lengths)))
    found = batching.parts(rows, order, max_rows, max_tokens)
    assert torch.equal(torch.cat(found), order)
    for part in found:
        assert len(part) <= max_rows
        assert len(part) == 1 or len(part) * (2 + max(lengths[i] for i in part.tolist())) <= max_tokens


def test_no_rows_are_no_parts() -> None:
    assert batching.parts(_rows([1], [1]), torch.arange(0), 2, 5) == []


def test_a_token_limit_changes_no_gradient_and_no_sample(policy: Policy, rollout: Rollout) -> None:
    slots = bind_slots(choose())
    batch = prepare(_samples(rollout), slots)
    found = []
    for limit in (None, 60):
        policy.model.zero_grad()
        done = accumulate(policy, batch, torch.arange(12), slots, 1.0, 1.0, None, limit)
        assert sorted(torch.cat([part.rows for part in done]).tolist()) == list(range(12))
        found.append(torch.cat([p.grad.flatten() for p in policy.parameters()]))  # type: ignore[union-attr]
        for part in done:
            rows = batch.rows.take(part.rows)
            longest = int((rows.prompts.lengths[rows.prompt_index] + rows.lengths).max())
            assert limit is None or len(part.rows) == 1 or len(part.rows) * longest <= limit
    assert len(done) > 3
    assert torch.allclose(found[0], found[1], atol=1e-6 * float(found[0].abs().max()))


@pytest.mark.parametrize("limit", [1, 40])
def test_micro_batches_take_rows_of_like_length_under_a_token_limit(rollout: Rollout, limit: int) -> None:
    batch = prepare(_samples(rollout), bind_slots(choose()))
    lengths = torch.tensor([3, 1, 2, 1, 3, 2, 1, 1, 2, 3, 1, 2])
    batch = dataclasses.replace(batch, rows=dataclasses.replace(batch.rows, lengths=lengths))
    found = micro_batches(batch, torch.arange(12), None, limit)
    assert torch.cat(found).tolist() == [1, 3, 6, 7, 10, 2, 5, 8, 11, 0, 4, 9]
