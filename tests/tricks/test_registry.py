"""The registry: what it reads from the source text, how it answers a wrong name or value, and every knob's default."""

import math
from pathlib import Path

import pytest
import torch

from harness import tricks

# Where no source is named, the value is the one of the trick's `Ref`.
DEFAULTS: dict[str, dict[str, tricks.Knob]] = {
    "admit.pass_rate_between": {"low": 0.1, "high": 0.95},  # ROLL's yaml
    "admit.no_positive_resampling": {"threshold": 0.9},
    "reward.affine": {"scale": 2.0, "shift": -1.0},  # {1, 0} becomes {1, -1}
    "reward.soft_overlong": {"buffer_share": 0.2, "factor": 1.0, "scale": 2.0, "shift": -1.0},  # 4096 of 20480
    "reward.length_penalty": {"coefficient": 1.0},
    "reward.length_dependent_accuracy": {"alpha": 0.1},
    "reward.format_bonus": {"bonus": 0.1},
    "reward.repetition_penalty": {"ngram": 3, "factor": 1.0},
    "keep.error_max": {"share": 0.8},
    "keep.right_min": {"share": 0.2},
    "keep.token_tis": {"cap": 2.0},  # verl
    "keep.sequence_tis": {"cap": 2.0},
    "keep.token_icepop": {"low": 0.5, "high": 5.0},
    "keep.sequence_icepop": {"low": 0.5, "high": 2.0},  # verl
    "advantage.group_z": {"eps": 1e-6},  # verl and ROLL; TRL has 1e-4
    "advantage.batch_z": {"eps": 1e-6},
    "advantage.group_mean_batch_std": {"centred": False, "eps": 1e-6},  # ROLL and TRL
    "advantage.running": {"eps": 1e-6},
    "advantage.reinforce_pp": {"beta": 0.01, "gamma": 1.0, "eps": 1e-8},
    "advantage.reinforce_pp_baseline": {"eps": 1e-8},
    "advantage.gae": {"gamma": 1.0, "lam": 0.95, "whiten": False, "eps": 1e-8},  # ROLL
    "weight.microbatch_token_mean": {"rows": 4},
    "surrogate.clip": {"low": 0.2, "high": 0.2},
    "surrogate.dual_clip": {"low": 0.2, "high": 0.2, "c": 3.0},  # verl
    "surrogate.gspo": {"low": 3e-4, "high": 4e-4},
    "surrogate.cispo": {"low": 1.0, "high": 4.0},  # cap 5
    "surrogate.sapo": {"tau_positive": 1.0, "tau_negative": 1.05},
    "surrogate.gmpo": {"low": 0.4, "high": 0.4},
    "surrogate.topr": {"cap": 1.0},
    "penalty.k1": {"beta": 0.01},
    "penalty.k2": {"beta": 0.01},
    "penalty.k3": {"beta": 0.04},
    "penalty.entropy_bonus": {"coefficient": 0.001},
    "penalty.entropy_target": {"target": 0.2, "change": 0.005, "largest": 1.0},
    "penalty.sft": {"coefficient": 0.1},
}


@pytest.mark.parametrize("trick", DEFAULTS)
def test_a_knob_left_out_has_the_sources_value(trick: str) -> None:
    slot, name = trick.split(".")
    assert tricks.get(slot, name).defaults == DEFAULTS[trick]
    assert tricks.complete(slot, name, {}) == DEFAULTS[trick]
    assert {knob: type(value) for knob, value in DEFAULTS[trick].items()} == tricks.get(slot, name).knobs


def test_a_trick_is_read_from_its_text() -> None:
    trick = tricks.get("surrogate", "dual_clip")
    assert (trick.slot, trick.name) == ("surrogate", "dual_clip")
    assert trick.inputs == ("logratio", "advantage", "mask")
    assert list(trick.knobs.items()) == [("low", float), ("high", float), ("c", float)]
    assert trick.formula.startswith("S = max(clip(ρ, A), c A) where A < 0")
    assert trick.formula.endswith("one very unlikely token can cost.")
    assert trick.source == "arXiv:1912.09729 eq. 5."


def test_helpers_and_classes_are_no_tricks() -> None:
    assert set(tricks.registry()) == set(tricks.SLOTS)
    assert not [name for slot in tricks.SLOTS for name in tricks.registry()[slot] if name.startswith("_")]
    assert not {"Kept", "Estimate"} & {name for slot in tricks.SLOTS for name in tricks.registry()[slot]}


@pytest.mark.parametrize(
    ("slot", "name", "key", "answer"),
    [
        (
            "advantage",
            "grup_z",
            "advantage",
            r"no trick 'grup_z' in slot 'advantage'; did you mean 'group_z'\? \(there",
        ),
        ("advantge", "group_z", "advantge", r"no such slot 'advantge'; did you mean 'advantage'\? \(slots: admit, rew"),
        ("advantage", "xxxxxxx", "advantage", r"no trick 'xxxxxxx' in slot 'advantage' \(there are: none, group_mean"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(slot: str, name: str, key: str, answer: str) -> None:
    with pytest.raises(tricks.TrickError, match=answer) as error:
        tricks.get(slot, name)
    assert error.value.key == key


@pytest.mark.parametrize(
    ("knobs", "key", "answer"),
    [
        ({"hihg": 0.28}, "surrogate.hihg", r"no knob 'hihg'; did you mean 'high'\? \(its knobs: low, high\)"),
        ({"high": "big"}, "surrogate.high", "knob 'high' of 'clip' takes a float, not 'big'"),
        ({"high": True}, "surrogate.high", "takes a float, not True"),
        ({"high": math.nan}, "surrogate.high", "takes a float, not nan"),
        ({"high": math.inf}, "surrogate.high", "takes a float, not inf"),
        ({"low": -math.inf}, "surrogate.low", "takes a float, not -inf"),
        ({"low": None}, "surrogate.low", "takes a float, not None"),
    ],
)
def test_wrong_knobs_are_refused(knobs: dict[str, object], key: str, answer: str) -> None:
    with pytest.raises(tricks.TrickError, match=answer) as error:
        tricks.complete("surrogate", "clip", knobs)
    assert error.value.key == key


def test_knobs_are_coerced_only_where_nothing_is_lost() -> None:
    high = tricks.complete("surrogate", "clip", {"high": 1})["high"]
    assert (high, type(high)) == (1.0, float)
    rows = tricks.complete("weight", "microbatch_token_mean", {"rows": 2.0})["rows"]
    assert (rows, type(rows)) == (2, int)
    assert tricks.complete("advantage", "gae", {"whiten": True})["whiten"] is True
    with pytest.raises(tricks.TrickError, match=r"takes a int, not 2\.5"):
        tricks.complete("weight", "microbatch_token_mean", {"rows": 2.5})
    with pytest.raises(tricks.TrickError, match="takes a int, not True"):
        tricks.complete("weight", "microbatch_token_mean", {"rows": True})
    with pytest.raises(tricks.TrickError, match="takes a bool, not 1"):
        tricks.complete("advantage", "gae", {"whiten": 1})
    with pytest.raises(tricks.TrickError, match=r"'none' has no knob 'eps' \(it has no knobs\)"):
        tricks.complete("penalty", "none", {"eps": 1.0})


def test_a_bound_trick_takes_what_it_names_and_has_its_knobs() -> None:
    bound = tricks.bind("surrogate", "clip", {"high": 0.28})
    assert bound.inputs == ("logratio", "advantage", "mask")
    assert bound.knobs == {"low": 0.2, "high": 0.28}
    one = torch.ones(1, 1)
    offered = {"logratio": one * math.log(1.5), "advantage": one, "mask": one.bool(), "logp": None}
    assert float(bound(offered)) == pytest.approx(1.28)


def test_the_nearest_word_is_a_moderately_close_one() -> None:
    # `clamp` and `clip` share c, l, p: 2 · 3 / 9 = .67; `sum` and `mean` share m: 2 · 1 / 7 = .29
    assert tricks.nearest("clamp", ["clip", "gspo"]) == "; did you mean 'clip'?"
    assert tricks.nearest("sum", ["mean"]) == ""


@pytest.mark.parametrize("slot", tricks.SLOTS)
def test_a_contract_is_what_the_slots_module_says_of_itself(slot: str) -> None:
    text = tricks.contract(slot)
    first = (Path(tricks.__file__).parent / f"{slot}.py").read_text().splitlines()[0]
    assert text.startswith("Slot `" + slot + "`: ") and first == '"""' + text.splitlines()[0]


def test_markers_of_the_advantages() -> None:
    found = tricks.registry()["advantage"].values()
    # a shift and a scale of the reward cancel wherever a mean is taken off and a deviation divides
    invariant = {"group_z", "batch_z", "group_mean_batch_std", "running", "reinforce_pp_baseline"}
    assert {trick.name for trick in found if trick.affine_invariant} == invariant
    # a group of one is its own mean
    centred = {"group_mean", "group_z", "group_mean_batch_std", "leave_one_out", "reinforce_pp_baseline"}
    assert {trick.name for trick in found if trick.group_centred} == centred
