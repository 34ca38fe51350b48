"""docs/tricks.md as text: recipes against slots, then every slot with its contract and every trick.

`python -m harness tricks --markdown > docs/tricks.md`; a test keeps the page current. Leaves out: the terminal
(`catalog.py`).
"""

from collections.abc import Iterator

from harness import tricks
from harness.sweep.catalog import disagreement, remarks, used_by
from harness.sweep.recipes import VANILLA, Recipe, call, recipes, shown
from harness.tricks import SLOTS, Trick

_OPENING = """\
# Tricks and recipes

Written by `make pages` from the docstrings of `harness/tricks` and the files of `experiments/recipe`; a test fails when
it is stale. A trick is a choice for one of seven slots, a recipe a choice for all of them ([design](design.md)); how to
add one stands in [adding.md](adding.md). `python -m harness tricks NAME` prints one trick, `python -m harness diff A B`
what differs between two recipes.
"""


def page() -> str:
    return "\n".join([_OPENING, *_recipes(), *(line for slot in SLOTS for line in _slot(slot))])


def _recipes() -> Iterator[str]:
    known = recipes()
    yield "## Recipes\n"
    yield f"Knobs are shown where they are not at their default. An empty place is {VANILLA}'s choice.\n"
    yield f"| recipe | {' | '.join(f'`{slot}`' for slot in SLOTS)} | other keys |"
    yield "|---" * (len(SLOTS) + 2) + "|"
    for recipe in known.values():
        yield f"| {' | '.join([f'**{recipe.name}**', *_row(recipe, known[VANILLA])])} |"
    yield ""
    for recipe in known.values():
        yield f"- **{recipe.name}**: {recipe.about}"
    yield ""


def _row(recipe: Recipe, vanilla: Recipe) -> Iterator[str]:
    for slot in SLOTS:
        choice = recipe.choices[slot]
        same = choice == vanilla.choices[slot] and recipe is not vanilla
        yield "" if same else f"`{call(choice.trick.name, choice.changed)}`"
    yield ", ".join(f"`{key}={shown(value)}`" for key, value in recipe.others.items())


def _slot(slot: str) -> Iterator[str]:
    yield f"## Slot `{slot}`\n"
    contract = tricks.contract(slot).removeprefix(f"Slot `{slot}`: ")
    yield contract[:1].upper() + contract[1:] + "\n"
    for trick in tricks.registry()[slot].values():
        yield from _trick(trick)
    for (where, name), why in tricks.ABSENT.items():
        if where == slot:
            yield f"There is no `{name}`, for {why}.\n"


def _trick(trick: Trick) -> Iterator[str]:
    yield f"### {trick.name}\n"
    yield trick.formula + "\n"
    if said := remarks(trick):
        yield said + "\n"
    if trick.defaults:
        yield f"- knobs: {', '.join(f'`{knob}={shown(value)}`' for knob, value in trick.defaults.items())}"
    if said := disagreement(trick):
        yield f"- field: {said}"
    yield f"- source: {trick.source}"
    yield f"- recipes: {used_by(trick)}\n"
