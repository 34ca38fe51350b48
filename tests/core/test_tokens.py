"""What is recorded of single tokens: repetitions, counts and marks with values found by eye."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness import tricks
from harness.core import metrics, tokens
from harness.core.collect import Collected
from harness.core.metrics import Clipped
from harness.core.repeats import ends_in_repetition
from harness.core.shapes import Prompts, Rollout, Rows
from harness.core.step import RowLoss
from harness.core.train import train
from tests.core.conftest import MakeRun


@pytest.mark.parametrize(
    ("row", "repeats"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], False),
        ([1, 2, 3, 9, 9, 9], True),  # period 1, three times
        ([1, 2, 3, 4, 9, 9], False),  # twice is no repetition
        ([5, 1, 2, 1, 2, 1, 2], True),  # period 2
        ([5, 2, 1, 2, 1, 2], False),  # two and a half copies
        ([1, 2, 3] * 3, True),
        ([7, 7, 7, 1], False),  # earlier, not at the end
        (list(range(40)) + [8] * 5, False),  # 5 of 45 tokens are less than an eighth
        (list(range(40)) + [8] * 6, True),  # 6 of 46 are more
        ([1, 1], False),
        ([], False),
    ],
)
def test_repetitions_by_eye(row: list[int], repeats: bool) -> None:
    padded = torch.tensor([row + [9] * 3])
    assert ends_in_repetition(padded, torch.tensor([len(row)])).tolist() == [repeats]


@given(st.lists(st.integers(0, 2), max_size=14))
def test_a_repetition_is_what_the_definition_says(row: list[int]) -> None:
    def holds(period: int, length: int) -> bool:
        tail = row[len(row) - length :]
        return all(tail[i] == tail[i - period] for i in range(period, length))

    least = max(3, -(-len(row) // 8))
    expected = any(holds(p, n) for n in range(least, len(row) + 1) for p in range(1, n // 3 + 1))
    assert ends_in_repetition(torch.tensor([row or [0]]), torch.tensor([len(row)])).tolist() == [expected]


def words(ids: list[int]) -> list[str]:
    return [f"w{i}" for i in ids]


def _collected(ids: torch.Tensor, rewards: torch.Tensor, admitted: list[bool], p: torch.Tensor) -> Collected:
    prompts, samples, width = ids.shape
    lengths = torch.full((prompts, samples), width)
    truncated = torch.zeros(prompts, samples).bool()
    rollout = Rollout(Prompts.of([[1]] * prompts), ids, lengths, truncated, p.log(), torch.full(ids.shape, 0.25))
    texts = [f"text {row}" for row in range(prompts * samples)]
    formatted = torch.ones(prompts, samples).bool()
    return Collected(
        list(range(10, 10 + prompts)), rollout, rewards, formatted, texts, torch.tensor(admitted), prompts, 1
    )


@pytest.fixture
def step() -> tuple[Collected, Rows]:
    """Two prompts of two samples of three tokens; only the second trains, its samples are rows 0 and 1."""
    ids = torch.tensor([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [7, 7, 8]]])
    p = torch.tensor([0.29, 0.31, 0.61, 0.86, 0.949, 0.951, 0.991, 0.999, 1.0, 0.1, 0.2, 0.5]).view(2, 2, 3)
    rewards = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    collected = _collected(ids, rewards, [False, True], p)
    return collected, Rows(Prompts.of([[1]]), torch.tensor([0, 0]), ids[1], torch.tensor([3, 3]))


CLIPPED = Clipped(
    rows=torch.tensor([1, 0, 1]),  # row 1 in two updates
    high=torch.tensor([[True, False, False], [False, True, False], [True, True, False]]),
    low=torch.tensor([[False, False, True], [False, False, False], [False, False, True]]),
)


def test_counts_by_hand(step: tuple[Collected, Rows]) -> None:
    collected, rows = step
    found = tokens.counts(collected, rows, CLIPPED, words)
    # of the twelve: .29 .1 .2 | .31 .5 | .61 | .86 .949 | .951 | .991 .999 1
    assert found["probability"] == [3, 2, 1, 2, 1, 3]
    assert found["groups"] == [0, 1, 1]  # one prompt with one right response, one with two
    names = dict(zip([7, 8], words([7, 8]), strict=True))
    assert found["high"] == {names[7]: 3, names[8]: 1}  # row 1 holds 7 7 8, row 0 holds 7 8 9
    assert found["low"] == {names[8]: 2}
    assert (found["high_total"], found["low_total"]) == (4, 2)


def test_only_the_most_clipped_tokens_are_named_and_all_are_counted() -> None:
    ids = torch.arange(60).view(1, 1, 60) + 5
    collected = _collected(ids, torch.ones(1, 1).double(), [True], torch.full(ids.shape, 0.5))
    every = torch.ones(2, 60).bool()
    every[1] = torch.arange(60) >= 50  # the last ten twice
    clipped = Clipped(torch.tensor([0, 0]), every, torch.zeros(2, 60).bool())
    rows = Rows(Prompts.of([[1]]), torch.tensor([0]), ids[0], torch.tensor([60]))
    found = tokens.counts(collected, rows, clipped, words)
    assert found["high_total"] == 70 and found["low_total"] == 0 and found["low"] == {}
    assert len(found["high"]) == 50 and sum(found["high"].values()) == 10 * 2 + 40
    assert all(found["high"][word] == 2 for word in words(list(range(55, 65))))


def test_marks_are_of_the_first_prompt_that_trains(step: tuple[Collected, Rows]) -> None:
    collected, rows = step
    found = tokens.shown(collected, rows, CLIPPED, words, most=4)
    assert tokens.prompt(collected) == 11
    assert [response["text"] for response in found] == ["text 2", "text 3"]
    assert [response["clipped"] for response in found] == [[0, 1, 0], [1, 1, -1]]
    assert found[0]["probability"] == [0.991, 0.999, 1.0] and found[0]["entropy"] == [0.25] * 3
    assert found[0]["tokens"] == words([7, 8, 9]) and [r["reward"] for r in found] == [1.0, 0.0]


def test_a_step_that_trains_nothing_shows_what_was_sampled(step: tuple[Collected, Rows]) -> None:
    collected, _ = step
    nothing = _collected(collected.rollout.tokens, collected.rewards, [False, False], collected.rollout.logp.exp())
    none = Clipped(torch.zeros(0).long(), torch.zeros(0, 1).bool(), torch.zeros(0, 1).bool())
    rows = Rows(Prompts.of([[1]]), torch.zeros(0).long(), torch.zeros(0, 3).long(), torch.zeros(0).long())
    found = tokens.shown(nothing, rows, none, words, most=1)
    assert found[0]["text"] == "text 0" and found[0]["clipped"] == [0, 0, 0]
    counts = tokens.counts(nothing, rows, none, words)
    assert (counts["high"], counts["high_total"], sum(counts["probability"])) == ({}, 0, 12)


def test_clipped_tokens_are_those_without_gradient() -> None:
    m = metrics.RatioMetrics(tricks.bind("surrogate", "clip", {"high": 0.28}))
    ratio, sign = torch.tensor([[1.25, 1.30, 0.70, 1.40, 1.5]]), torch.tensor([[1.0, 1.0, -1.0, -1.0, 1.0]])
    kept = torch.tensor([[True, True, True, True, False]])
    m.add(RowLoss(torch.tensor(0.0), torch.tensor([3]), ratio.log(), sign, kept))
    _, clipped = m.result()
    assert clipped.rows.tolist() == [3]
    assert clipped.high.tolist() == [[False, True, False, False, False]]
    assert clipped.low.tolist() == [[False, False, True, False, False]]


def test_the_record_agrees_with_itself(make_run: MakeRun) -> None:
    run = make_run(tricks__reward={"name": "affine", "scale": -2.0, "shift": 1.0}, train__lr=1e-2)
    train(run)
    rows = {record["step"]: record["m"] for record in run.read("metrics")}
    clipped = 0
    for line in run.read("counts"):
        m = rows[line["step"]]
        assert sum(line["probability"]) == m["count/tokens_generated"]
        assert sum(line["groups"]) == m["count/prompts_generated"]
        share = sum(n * i for i, n in enumerate(line["groups"])) / m["count/samples_generated"]
        assert share == pytest.approx(m["train/accuracy"])
        assert line["high_total"] >= sum(line["high"].values()) > 0 or line["high_total"] == 0
        clipped += line["high_total"]
    assert clipped > 0 and [line["step"] for line in run.read("counts")] == list(range(6))
    samples = run.read("samples")
    assert [line["step"] for line in samples] == [0, 3]
    marks = [mark for line in samples for sample in line["samples"] for mark in sample["clipped"]]
    assert set(marks) <= {-1, 0, 1}
    for line in samples:
        for sample in line["samples"]:
            assert len(sample["tokens"]) == len(sample["clipped"]) == len(sample["probability"]) > 0
