"""A spec that cannot show its effect is refused, with the reason and the cure; one that can is not."""

from collections.abc import Callable

import pytest

from harness import tricks
from harness.sweep.grid import Expansion

Grid = Callable[..., Expansion]
Problems = Callable[..., str]

CLIP = "question: q\naxes: {eps: {key: tricks.surrogate.high, values: [0.2, 0.28]}}\n"
ONE = "base: {train.updates_per_rollout: 1, train.epochs: 1, tricks.surrogate: %s}\naxes: {%s}\n"
ALIKE = "train exactly alike"


def refused(problems: Problems, body: str, *words: str) -> str:
    text = problems(f"question: q\n{body}")
    for word in words:
        assert word in text
    assert "did you mean" not in text
    return text


def test_a_clip_axis_needs_more_than_one_update(problems: Problems, grid: Grid) -> None:
    assert problems(CLIP + "base: {train.updates_per_rollout: 1, train.epochs: 1}").startswith(
        "spec.yaml:2:8: axis 'eps': 0.2 and 0.28 train exactly alike: with train.updates_per_rollout = 1 every ratio "
        "is 1, where the gradient of every surrogate is A; set train.updates_per_rollout: 4 in `base`, exclude all of "
        "them but one, or say `control: [eps]` for an A/A control\n"
    )
    assert len(grid(CLIP.removeprefix("question: q\n") + "base: {train.updates_per_rollout: 2}").cells) == 2


def test_a_clip_axis_crossed_with_one_update_may_exclude_it(problems: Problems, grid: Grid) -> None:
    crossed = "axes: {k: {key: train.updates_per_rollout, values: [1, 4]}, tricks.surrogate.low: [0.1, 0.2]}\n"
    crossed += "base: {train.epochs: 1}\n"
    assert "0.1 and 0.2 train exactly alike in 2 of 4 cells: with" in problems("question: q\n" + crossed)
    assert len(grid(crossed + "exclude: [{k: 1, tricks.surrogate.low: 0.1}]").cells) == 3


def test_a_correction_of_the_engine_needs_a_gap(problems: Problems, grid: Grid) -> None:
    axes = "base: {sampling.old_logp: recompute%s}\naxes: {tricks.keep: [everything, token_tis, sequence_icepop]}\n"
    refused(problems, axes % "", f"everything, token_tis and sequence_icepop {ALIKE}", "no gap to correct")
    refused(problems, axes % ", sampling.top_k: 5, sampling.logprob_support: replay", ALIKE)
    assert len(grid(axes % ", sampling.top_k: 5").cells) == 3
    assert len(grid(axes % ", engine: vllm").cells) == 3


def test_a_ratio_that_starts_at_the_kept_mass_is_clipped_from_the_first_update_on(
    problems: Problems, grid: Grid
) -> None:
    cut = "base: {train.updates_per_rollout: 1, train.epochs: 1, sampling.top_p: 0.9%s}\n"
    assert len(grid(CLIP.removeprefix("question: q\n") + cut % "").cells) == 2
    for cure in ("sampling.logprob_support: replay", "sampling.old_logp: recompute", "sampling.old_logp: detach"):
        refused(problems, CLIP.removeprefix("question: q\n") + cut % f", {cure}", ALIKE)


@pytest.mark.parametrize(
    ("name", "knob"),
    [
        ("clip", "low"),
        ("dual_clip", "high"),
        ("dual_clip", "c"),
        ("gspo", "high"),
        ("cispo", "high"),
        ("gmpo", "low"),
        ("sapo", "tau_negative"),
        ("topr", "cap"),
    ],
)
def test_no_knob_of_a_ratio_acts_at_one_update(name: str, knob: str, problems: Problems, grid: Grid) -> None:
    body = ONE % (name, f"tricks.surrogate.{knob}: [1.5, 2.5]")
    refused(problems, body, f"axis 'tricks.surrogate.{knob}': 1.5 and 2.5 {ALIKE}", "every ratio is 1")
    assert len(grid(body.replace("rollout: 1", "rollout: 4")).cells) == 2
    assert len(grid(body + "control: true").cells) == 2


def test_all_surrogates_are_one_at_one_update(problems: Problems) -> None:
    names = ", ".join(tricks.registry()["surrogate"])
    listed = names[: names.rindex(", ")] + " and " + names[names.rindex(", ") + 2 :]
    refused(problems, ONE % ("clip", f"tricks.surrogate: [{names}]"), f"axis 'tricks.surrogate': {listed} {ALIKE}:")


def test_a_surrogate_that_acts_at_a_ratio_of_one_is_let_through(grid: Grid) -> None:
    for name, knob, acting in (("dual_clip", "c", "[0.5, 0.8]"), ("topr", "cap", "[0.5, 0.8]")):
        assert len(grid(ONE % (name, f"tricks.surrogate.{knob}: {acting}")).cells) == 2
    per_token = (ONE % ("clip", "tricks.surrogate: [clip, gmpo]")).replace("}\n", ", recipe: ppo}\n", 1)
    assert len(grid(per_token).cells) == 2  # a mean over a row of unlike advantages is not their sum


REWARD = "axes: {tricks.reward: [raw, affine]}\nbase: {tricks.advantage: %s}\n"


@pytest.mark.parametrize("name", [n for n, trick in tricks.registry()["advantage"].items() if trick.affine_invariant])
def test_a_reward_scale_cancels_in_a_z_score(name: str, problems: Problems, grid: Grid) -> None:
    body = REWARD % name
    refused(problems, body, f"raw and affine {ALIKE}: a rescaled reward cancels under tricks.advantage = {name}")
    refused(problems, body, "(group_mean)", "control: [tricks.reward]")
    assert len(grid(body + "control: true").cells) == 2


def test_a_reward_scale_that_does_not_cancel(problems: Problems, grid: Grid) -> None:
    assert len(grid(REWARD % "group_mean").cells) == 2
    scale = "axes: {tricks.reward.scale: [%s]}\nbase: {tricks.reward: affine, tricks.keep: %s}\n"
    refused(problems, scale % ("1.0, 3.0", "everything"), f"1.0 and 3.0 {ALIKE}")
    assert len(grid(scale % ("-1.0, 3.0", "everything")).cells) == 2  # the sign does not cancel
    assert len(grid(scale % ("1.0, 3.0", "zero_truncated")).cells) == 2  # truncated samples stay at 0


def test_truncated_samples_are_zero_already(problems: Problems, grid: Grid) -> None:
    body = "axes: {tricks.keep: [everything, drop_truncated, discount_truncated, zero_truncated]}\n"
    both = f"axis 'tricks.keep': everything and zero_truncated {ALIKE} in 2 of 4 cells: under tricks.reward = raw"
    text = refused(problems, body, both)
    assert "(tricks.reward: affine)" in text
    assert len(grid(body + "base: {tricks.reward: affine}").cells) == 4


def test_weights_of_responses_that_cannot_end_early(problems: Problems, grid: Grid) -> None:
    body = "axes: {tricks.weight: [token_mean, sequence_mean, prompt_mean, sequence_sum, constant_length]}\n"
    one = body + "base: {sampling.max_new_tokens: 1%s}\n"
    everything = "token_mean, sequence_mean, prompt_mean, sequence_sum and constant_length"
    refused(problems, one % "", f"{everything} {ALIKE}: with sampling.max_new_tokens = 1", "raise sampling.max_new")
    some = "token_mean, sequence_mean and sequence_sum"  # of prompts that keep some samples only, the others differ
    refused(problems, one % ", tricks.keep: drop_truncated", f"{some} {ALIKE}")
    assert len(grid(body + "base: {sampling.max_new_tokens: 2}").cells) == 5


def test_weights_that_are_each_other(problems: Problems, grid: Grid) -> None:
    rows = "axes: {weight: {a: {tricks.weight: %s}, b: {tricks.weight: {name: microbatch_token_mean, rows: %s}}}}\n"
    refused(problems, rows % ("sequence_mean", 1), f"a and b {ALIKE}: a micro-batch of one sample is a sequence")
    refused(
        problems, rows % ("token_mean", 128), f"a and b {ALIKE}: a micro-batch of that many rows is the whole batch"
    )
    assert len(grid(rows % ("token_mean", 127)).cells) == 2
    single = "base: {sampling.group_size: %s, tricks.advantage: batch_z}\n"
    single += "axes: {tricks.weight: [sequence_mean, prompt_mean]}\n"
    refused(problems, single % 1, f"{ALIKE}: with sampling.group_size = 1 a prompt is a sequence")
    assert len(grid(single % 2).cells) == 2


@pytest.mark.parametrize(("name", "knob"), [(k, "beta") for k in ("k1", "k2", "k3")] + [("sft", "coefficient")])
def test_a_penalty_of_nothing_is_none(name: str, knob: str, problems: Problems, grid: Grid) -> None:
    body = "axes: {penalty: {off: {tricks.penalty: none}, on: {tricks.penalty: {name: %s, %s: %s}}}}\n"
    refused(
        problems, body % (name, knob, 0), f"off and on {ALIKE}: tricks.penalty = {name} with {knob} = 0 is no penalty"
    )
    assert len(grid(body % (name, knob, 0.1)).cells) == 2


def test_prompts_that_never_return(problems: Problems, grid: Grid) -> None:
    body = "axes: {tricks.admit: [everything, no_positive_resampling]}\nbase: {train.steps: 50, data.size: %s}\n"
    text = refused(problems, body % 800, f"everything and no_positive_resampling {ALIKE}: train.steps x ")
    assert "sampling.prompts_per_step = 800 prompts of data.size = 800 are never met twice; lower data.size" in text
    assert len(grid(body % 799).cells) == 2


def test_rounds_of_a_batch_that_is_full(problems: Problems, grid: Grid) -> None:
    body = "axes: {%s}\nbase: {tricks.admit: %s}\n"
    for axis in ("sampling.max_rounds: [1, 3]", "sampling.short_batch: [train, error]"):
        text = refused(
            problems, body % (axis, "everything"), "where every prompt is admitted there is no batch to refill"
        )
        assert "choose tricks.admit: mixed_only" in text
        assert len(grid(body % (axis, "mixed_only")).cells) == 2


SINGLE = "base: {%s}\naxes: {sampling.group_size: [1, 8]}\n"


@pytest.mark.parametrize("name", [n for n, trick in tricks.registry()["advantage"].items() if trick.group_centred])
def test_a_group_of_one_has_no_advantage(name: str, problems: Problems, grid: Grid) -> None:
    text = refused(problems, SINGLE % f"tricks.advantage: {name}")
    assert text.startswith(
        f"spec.yaml:3:30: sampling.group_size: with 1, tricks.advantage = {name} compares a sample with itself and "
        "every advantage is 0; raise it, or choose an advantage over the batch (batch_z, batch_mean)\n"
    )


def test_a_group_of_one_and_what_looks_at_the_batch(grid: Grid) -> None:
    for name in ("none", "batch_mean", "batch_z", "running", "reinforce_pp"):
        assert len(grid(SINGLE % f"tricks.advantage: {name}").cells) == 2


def test_a_group_of_one_is_never_mixed(problems: Problems, grid: Grid) -> None:
    for admit in ("mixed_only", "pass_rate_between"):
        base = f"tricks.advantage: batch_z, tricks.admit: {admit}"
        refused(problems, SINGLE % base, f"with 1, tricks.admit = {admit} admits no prompt")
    right_too = "tricks.advantage: batch_z, tricks.admit: {name: pass_rate_between, high: 1.1}"
    assert len(grid(SINGLE % right_too).cells) == 2
    kept = "tricks.advantage: batch_z, tricks.keep: drop_zero_variance"
    refused(problems, SINGLE % kept, "with 1, tricks.keep = drop_zero_variance drops every sample")


def test_two_reasons_are_both_given(problems: Problems) -> None:
    body = "base: {train.updates_per_rollout: 1, train.epochs: 1}\naxes:\n  both:\n    a: {}\n"
    body += "    b: {tricks.surrogate: gspo, tricks.reward: affine}\n"
    refused(problems, body, "every surrogate is A and a rescaled reward cancels under tricks.advantage = group_z; set")


def test_arms_that_are_the_same_cell_everywhere(problems: Problems) -> None:
    text = """question: q
axes:
  data: [easy, hard]
  method:
    a: {recipe: vanilla}
    b: {tricks.weight: token_mean}
    c: {recipe: grpo}
"""
    assert "spec.yaml:6:5: levels 'a' and 'b' of axis 'method' are the same cell everywhere" in problems(text)


def test_arms_that_are_equal_only_in_places_are_merged(grid: Grid) -> None:
    expansion = grid("""
axes:
  recipe: [lite_ppo, grpo]
  weight: {as_is: {}, tokens: {tricks.weight: token_mean}}
""")
    assert len(expansion.cells) == 3
    assert expansion.merged == 1


def test_an_empty_grid_and_a_baseline_that_is_excluded(problems: Problems) -> None:
    assert "the grid is empty: all 2 cells are excluded" in problems(CLIP + "exclude: [{eps: [0.2, 0.28]}]")
    assert "no cell has eps = 0.2" in problems(CLIP + "exclude: [{eps: 0.2}]\nbaseline: {eps: 0.2}")
