"""Recipes, their listing and comparison: `tricks`, `tricks --markdown`, `diff`."""

from pathlib import Path

import pytest

from harness import tricks
from harness.sweep import handbook, keys, yaml12
from harness.sweep.catalog import disagreement, remarks
from harness.sweep.cli import main
from harness.sweep.recipes import recipes

REPOSITORY = Path(__file__).resolve().parents[2]
CHOSEN = {  # recipe -> admit, reward, keep, advantage, weight, surrogate, penalty
    "vanilla": "everything raw everything group_z token_mean clip none",
    "reinforce": "everything raw everything none sequence_sum reinforce none",
    "rloo": "everything raw everything leave_one_out sequence_sum reinforce none",
    "reinforce_pp": "everything raw everything reinforce_pp token_mean clip none",
    "reinforce_pp_baseline": "everything raw everything reinforce_pp_baseline token_mean clip k2",
    "ppo": "everything raw everything gae token_mean clip none",
    "grpo": "everything raw everything group_z sequence_mean clip none",
    "dr_grpo": "everything raw everything group_mean constant_length clip none",
    "dapo": "mixed_only soft_overlong everything group_z token_mean clip none",
    "lite_ppo": "everything raw everything group_mean_batch_std token_mean clip none",
    "gspo": "everything raw everything group_z sequence_mean gspo none",
    "cispo": "mixed_only soft_overlong everything group_z token_mean cispo none",
}
CHANGED = {  # the knobs that a recipe sets to other than the default
    ("dapo", "surrogate"): {"high": 0.28},
    ("reinforce_pp_baseline", "penalty"): {"beta": 0.001},
}


@pytest.mark.parametrize("name", CHOSEN)
def test_recipes_choose_what_their_publications_do(name: str) -> None:
    recipe = recipes()[name]
    assert " ".join(choice.trick.name for choice in recipe.choices.values()) == CHOSEN[name]
    for slot, choice in recipe.choices.items():
        assert choice.changed == CHANGED.get((name, slot), {})


def test_every_recipe_is_known_here_states_every_slot_and_names_its_source() -> None:
    assert set(recipes()) == set(CHOSEN)
    assert next(iter(recipes())) == "vanilla"
    for name, recipe in recipes().items():
        assert tuple(recipe.choices) == tricks.SLOTS, name
        assert "arXiv:" in recipe.about
        assert "Deviation" in recipe.about or name == "vanilla"


def test_recipes_leave_the_scales_keys_alone() -> None:
    others = {name: recipe.others for name, recipe in recipes().items() if recipe.others}
    assert others == {
        "dapo": {"sampling.max_rounds": 10},
        "cispo": {"sampling.max_rounds": 10},
        "ppo": {"critic.lr": "${train.lr}", "critic.value_clip": None},
    }


def test_knobs_that_a_recipe_states_are_stated_in_full() -> None:
    """A changed default of the code cannot change a recipe whose publication gives the number."""
    for file in (keys.EXPERIMENTS / "recipe").glob("*.yaml"):
        for slot, given in yaml12.load(file).value["tricks"].items():
            name = given if isinstance(given, str) else given["name"]
            stated = set(given) - {"name"} if isinstance(given, dict) else set()
            assert stated >= set(tricks.get(slot, name).knobs) - {"eps", "centred"}, (file.stem, slot)


DIFF = """\
grpo -> dapo
  admit      everything -> mixed_only
  reward     raw -> soft_overlong(buffer_share=0.2, factor=1, scale=2, shift=-1)
  weight     sequence_mean -> token_mean
  surrogate  clip: high 0.2 -> 0.28
equal: keep, advantage, penalty and every other key
"""


def test_diff_shows_what_differs_slot_by_slot(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "grpo", "dapo"]) == 0
    assert capsys.readouterr().out == DIFF


def test_diff_of_one_recipe_is_with_vanilla_and_shows_other_keys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["diff", "ppo"]) == 0
    assert capsys.readouterr().out == (
        "vanilla -> ppo\n"
        "  advantage          group_z(eps=1e-06) -> gae(gamma=1, lam=0.95, whiten=false, eps=1e-08)\n"
        "  critic.lr          (no critic) -> ${train.lr}\n"
        "  critic.value_clip  (no critic) -> null\n"
        "equal: admit, reward, keep, weight, surrogate, penalty and every other key\n"
    )
    assert main(["diff", "vanilla"]) == 0
    assert capsys.readouterr().out == "vanilla -> vanilla\nnothing differs\n"


def test_diff_wraps_beside_its_labels(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["diff", "ppo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2] == " " * 21 + "eps=1e-08)"


def test_a_trick_in_full(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["tricks", "dual_clip"]) == 0
    assert capsys.readouterr().out == (
        "tricks.surrogate: dual_clip\n"
        "S = max(clip(ρ, A), c A) where A < 0, else clip(ρ, A): a bound on what one very unlikely token can cost.\n"
        "  knobs    tricks.surrogate.low = 0.2\n"
        "           tricks.surrogate.high = 0.2\n"
        "           tricks.surrogate.c = 3\n"
        "  field    The field disagrees on c: 3 (verl, always on), 1 + 2 · clip = 1.4 (ROLL).\n"
        "  source   arXiv:1912.09729 eq. 5.\n"
        "  recipes  none\n\n"
    )
    assert main(["tricks", "clip"]) == 0
    assert "  recipes  vanilla, dapo(high=0.28), dr_grpo, grpo, " in capsys.readouterr().out


def test_a_slot_in_full_and_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tricks", "advantage"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Slot `advantage`: how good a sample is, given the others.")
    for name in tricks.registry()["advantage"]:
        assert f"tricks.advantage: {name}\n" in text
    assert "tricks.advantage.eps = 1e-06" in text
    assert main(["tricks"]) == 0
    text = capsys.readouterr().out
    for slot in tricks.SLOTS:
        for name in tricks.registry()[slot]:
            assert f"\n  {name}" in text


def test_what_is_said_of_the_field_stands_apart() -> None:
    trick = tricks.get("advantage", "gae")
    assert disagreement(trick) == "The field disagrees: verl always whitens, ROLL on request."
    assert "verl" not in remarks(trick) and "V = 0 after truncation too." in remarks(trick)
    for slot in tricks.SLOTS:
        for name, found in tricks.registry()[slot].items():
            assert bool(disagreement(found)) == ("the field disagrees" in " ".join(found.doc.lower().split())), name


def test_the_page_is_current() -> None:
    assert (REPOSITORY / "docs/tricks.md").read_text() == handbook.page(), "make pages"


def test_the_page_has_every_trick_and_recipe() -> None:
    page = handbook.page()
    for slot in tricks.SLOTS:
        assert f"## Slot `{slot}`\n" in page
        assert all(f"\n### {name}\n" in page for name in tricks.registry()[slot])
    assert (
        "| **dapo** | `mixed_only` | `soft_overlong` |  |  |  | `clip(high=0.28)` |  | `sampling.max_rounds=10` |"
        in page
    )
    assert "- recipes: vanilla, dapo(high=0.28), dr_grpo," in page
    assert "There is no `batch_mean_group_std`, for a group of equal rewards" in page


def test_markers_of_the_docstrings() -> None:
    known = tricks.registry()["advantage"]
    invariant = {"group_z", "batch_z", "group_mean_batch_std", "running", "reinforce_pp_baseline"}
    centred = {"group_mean", "group_z", "group_mean_batch_std", "leave_one_out", "reinforce_pp_baseline"}
    assert {name for name, trick in known.items() if trick.affine_invariant} == invariant
    assert {name for name, trick in known.items() if trick.group_centred} == centred
