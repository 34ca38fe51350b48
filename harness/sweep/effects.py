"""What a setting cannot show, known before anything is trained.

Two cells train exactly alike when their plainest forms are one: each rule rewrites a part of a cell that another part
leaves without effect, and says why and what to do. A rule holds by mathematics, for tricks that it knows by name or by
a marker of their docstring; of any other it says nothing. Leaves out: what is refused over it (`checks.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from harness import tricks
from harness.config import ArithmeticData, Identity, Sampling, Trick, Tricks


@dataclass(frozen=True)
class Idle:
    """`part` of a cell (`tricks.surrogate`, `sampling.max_rounds`) may as well be `instead`."""

    part: str
    instead: Any
    why: str
    cure: str


def plain(cell: Identity) -> tuple[Identity, tuple[Idle, ...]]:
    """The plainest cell that trains exactly like this one, and every part that had no effect."""
    found: list[Idle] = []
    for rule in _RULES:
        for idle in rule(cell):
            section, name = idle.part.split(".")
            changed = getattr(cell, section).model_copy(update={name: idle.instead})
            cell = cell.model_copy(update={section: changed})
            found.append(idle)
    return cell, tuple(found)


def value(cell: Identity, part: str) -> Any:
    section, name = part.split(".")
    return getattr(getattr(cell, section), name)


def silent(cell: Identity) -> list[tuple[str, str]]:
    """Why a cell can learn nothing at all, as (key to blame, message)."""
    if cell.sampling.group_size > 1:
        return []
    slots, key = cell.tricks, "sampling.group_size"
    known = tricks.registry()["advantage"].get(slots.advantage.name)
    out = []
    if known and known.group_centred:
        out.append(
            f"with 1, tricks.advantage = {known.name} compares a sample with itself and every advantage is 0; raise "
            "it, or choose an advantage over the batch (batch_z, batch_mean)"
        )
    low, high = slots.admit.knobs.get("low", 0.0), slots.admit.knobs.get("high", 1.0)
    if slots.admit.name == "mixed_only" or (slots.admit.name == "pass_rate_between" and low >= 0 and high <= 1):
        out.append(
            f"with 1, tricks.admit = {slots.admit.name} admits no prompt, for one answer is right or wrong and never "
            "mixed; raise it, or choose tricks.admit: everything"
        )
    if slots.keep.name == "drop_zero_variance":
        out.append("with 1, tricks.keep = drop_zero_variance drops every sample; raise it, or choose another `keep`")
    return [(key, message) for message in out]


def _ratio_is_one(cell: Identity) -> Iterator[Idle]:
    sampling = cell.sampling
    cut = sampling.top_p < 1 or sampling.top_k > 0
    if cut and sampling.logprob_support == "full" and sampling.old_logp == "engine":
        return  # the ratio starts at the mass that was kept
    if cell.train.updates_per_rollout == 1 and cell.tricks.surrogate.name in _AT_ONE and _gradient_is_a(cell.tricks):
        yield Idle(
            "tricks.surrogate",
            Trick(name="reinforce"),
            "with train.updates_per_rollout = 1 every ratio is 1, where the gradient of every surrogate is A",
            "set train.updates_per_rollout: 4 in `base`",
        )


_AT_ONE = {"clip", "dual_clip", "gspo", "cispo", "sapo", "gmpo", "topr"}


def _gradient_is_a(slots: Tricks) -> bool:
    """At ρ = 1. Clips that exclude 1, dual clips that act there and a mean over unlike advantages are left alone."""
    name, knobs = slots.surrogate.name, slots.surrogate.knobs
    advantage = tricks.registry()["advantage"].get(slots.advantage.name)
    if name == "gmpo" and (not advantage or "mask" in advantage.inputs):
        return False
    least = {"c": 1.0, "cap": 1.0 - 1e-9}
    return all(knob > least.get(key, 0.0) for key, knob in knobs.items())


def _reward_is_rescaled(cell: Identity) -> Iterator[Idle]:
    slots = cell.tricks
    known = tricks.registry()["advantage"].get(slots.advantage.name)
    scaled = slots.reward.name == "affine" and slots.reward.knobs["scale"] > 0
    if scaled and known and known.affine_invariant and slots.keep.name != "zero_truncated":
        yield Idle(
            "tricks.reward",
            Trick(name="raw"),
            f"a rescaled reward cancels under tricks.advantage = {known.name}",
            "use an advantage without a standard deviation (group_mean)",
        )


def _zeros_are_zeroed(cell: Identity) -> Iterator[Idle]:
    if cell.tricks.keep.name == "zero_truncated" and cell.tricks.reward.name in ("raw", "length_dependent_accuracy"):
        yield Idle(
            "tricks.keep",
            Trick(name="everything"),
            f"under tricks.reward = {cell.tricks.reward.name} a truncated sample has reward 0 already",
            "give wrong answers another reward (tricks.reward: affine)",
        )


def _weights_are_equal(cell: Identity) -> Iterator[Idle]:
    sampling, slots = cell.sampling, cell.tricks
    name, rows = slots.weight.name, slots.weight.knobs.get("rows", 0)
    whole = slots.keep.name in ("everything", "zero_truncated")
    if name == "prompt_mean" and sampling.group_size == 1:
        why, cure = "with sampling.group_size = 1 a prompt is a sequence", "raise sampling.group_size"
        yield Idle("tricks.weight", Trick(name="sequence_mean"), why, cure)
    if name == "microbatch_token_mean" and rows == 1:
        why, cure = "a micro-batch of one sample is a sequence", "raise tricks.weight.rows"
        yield Idle("tricks.weight", Trick(name="sequence_mean"), why, cure)
    if name == "microbatch_token_mean" and rows >= sampling.prompts_per_step * sampling.group_size:
        why, cure = "a micro-batch of that many rows is the whole batch", "lower tricks.weight.rows"
        yield Idle("tricks.weight", Trick(name="token_mean"), why, cure)
    equal = {"sequence_mean", "sequence_sum"} | ({"prompt_mean", "constant_length"} if whole else set())
    if sampling.max_new_tokens == 1 and name in equal:
        why = "with sampling.max_new_tokens = 1 every response has one token, and tokens and sequences weigh the same"
        yield Idle("tricks.weight", Trick(name="token_mean"), why, "raise sampling.max_new_tokens")


def _penalty_is_zero(cell: Identity) -> Iterator[Idle]:
    name, knobs = cell.tricks.penalty.name, cell.tricks.penalty.knobs
    factor = {"k1": "beta", "k2": "beta", "k3": "beta", "entropy_bonus": "coefficient", "sft": "coefficient"}.get(name)
    if factor and knobs[factor] == 0:
        why = f"tricks.penalty = {name} with {factor} = 0 is no penalty"
        yield Idle("tricks.penalty", Trick(name="none"), why, f"raise tricks.penalty.{factor}")


def _no_gap(cell: Identity) -> Iterator[Idle]:
    """The engine hf samples with the trainer's own weights and precision: only a cut of the distribution is a gap."""
    known, sampling = tricks.registry()["keep"].get(cell.tricks.keep.name), cell.sampling
    cut = (sampling.top_p < 1 or sampling.top_k > 0) and sampling.logprob_support == "full"
    if known and "gap" in known.inputs and sampling.engine == "hf" and not cut:
        yield Idle(
            "tricks.keep",
            Trick(name="everything"),
            f"with sampling.engine = hf the engine is the trainer: tricks.keep = {known.name} has no gap to correct",
            "choose engine=vllm, or cut the sampled distribution (sampling.top_k) under sampling.logprob_support: full",
        )


def _no_prompt_returns(cell: Identity) -> Iterator[Idle]:
    """The stream of prompts is a shuffled epoch after another: none comes twice before all have come once."""
    drawn = cell.train.steps * cell.sampling.prompts_per_step
    data = cell.data
    if cell.tricks.admit.name == "no_positive_resampling" and isinstance(data, ArithmeticData) and drawn <= data.size:
        yield Idle(
            "tricks.admit",
            Trick(name="everything"),
            f"train.steps x sampling.prompts_per_step = {drawn} prompts of data.size = {data.size} are never met twice",
            "lower data.size, or train longer",
        )


def _nothing_to_refill(cell: Identity) -> Iterator[Idle]:
    if cell.tricks.admit.name == "everything":
        for name in ("max_rounds", "short_batch"):
            default = Sampling.model_fields[name].default
            if getattr(cell.sampling, name) != default:
                why = "where every prompt is admitted there is no batch to refill"
                yield Idle(f"sampling.{name}", default, why, "choose tricks.admit: mixed_only")


_RULES: tuple[Callable[[Identity], Iterator[Idle]], ...] = (
    _ratio_is_one,
    _reward_is_rescaled,
    _zeros_are_zeroed,
    _weights_are_equal,
    _penalty_is_zero,
    _no_gap,
    _no_prompt_returns,
    _nothing_to_refill,
)
