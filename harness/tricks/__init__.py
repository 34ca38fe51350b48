"""The registry of tricks: names, knobs and text of every public function of the seven slot modules.

A trick is a public function of `harness/tricks/<slot>.py`; the module is the registry. Names, inputs, knobs
and docstrings are read from the source text, so that planning a sweep needs no torch; `bind` imports the
module, and only a worker that trains calls it. Leaves out: any mathematics.
"""

import ast
import difflib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SLOTS = ("admit", "reward", "keep", "advantage", "weight", "surrogate", "penalty")

REFERENCE = {"ref_logp", "kl"}  # inputs that a frozen copy of the first policy provides

# Names that a reader of the literature may look for, and why there is no such trick.
ABSENT = {
    ("advantage", "batch_mean_group_std"): (
        "a group of equal rewards is off the batch's mean and has deviation 0: under a batch mean of 1/3 its zeros "
        "give A = (0 - 1/3) / 1e-6 = -333333; choose group_z, batch_z or group_mean_batch_std"
    ),
}

Knob = float | int | bool | str
_KNOB_TYPES: dict[str, type] = {"float": float, "int": int, "bool": bool, "str": str}


class TrickError(ValueError):
    """A slot, trick or knob that does not exist, or a knob's value of the wrong type. `key` is the part at fault."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Trick:
    """One trick as its source text declares it."""

    slot: str
    name: str
    inputs: tuple[str, ...]  # positional parameters, bound by name
    knobs: dict[str, type]
    defaults: dict[str, Knob]
    doc: str

    @property
    def formula(self) -> str:
        """The first paragraph of the docstring."""
        return " ".join(self.doc.split("\n\n")[0].split())

    @property
    def source(self) -> str:
        """The text after `Ref:` in the docstring."""
        line = next((part for part in self.doc.splitlines() if part.strip().startswith("Ref:")), "")
        return line.strip().removeprefix("Ref:").strip()

    @property
    def affine_invariant(self) -> bool:
        """Whether scale · r + shift, scale > 0, gives the same as r: the docstring says "Affine invariant"."""
        return "Affine invariant" in self.doc

    @property
    def group_centred(self) -> bool:
        """Whether its formula takes the group's mean off the reward, so that a group of one gives 0."""
        return "- mean_g(r)" in self.formula


def nearest(word: str, words: Any, lead: str = "; did you mean ") -> str:
    """`; did you mean 'clip'?` when one of `words` is close to `word`, else nothing."""
    close = difflib.get_close_matches(str(word), [str(w) for w in words], n=1, cutoff=0.5)
    return f"{lead}'{close[0]}'?" if close else ""


@functools.cache
def registry() -> dict[str, dict[str, Trick]]:
    """slot -> name -> Trick, in source order."""
    return {slot: _read(slot) for slot in SLOTS}


def _read(slot: str) -> dict[str, Trick]:
    functions = (node for node in _module(slot).body if isinstance(node, ast.FunctionDef))
    return {node.name: _trick(slot, node) for node in functions if not node.name.startswith("_")}


@functools.cache
def contract(slot: str) -> str:
    """What the slot decides, what it offers and what it takes back: its module's docstring."""
    return ast.get_docstring(_module(slot)) or ""


def _module(slot: str) -> ast.Module:
    path = Path(__file__).with_name(f"{slot}.py")
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _trick(slot: str, node: ast.FunctionDef) -> Trick:
    knobs, defaults = {}, {}
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        annotation = ast.unparse(argument.annotation) if argument.annotation else ""
        if annotation not in _KNOB_TYPES or default is None:
            raise TypeError(f"{slot}.{node.name}: knob {argument.arg} needs a type of {[*_KNOB_TYPES]} and a default")
        knobs[argument.arg] = _KNOB_TYPES[annotation]
        defaults[argument.arg] = _KNOB_TYPES[annotation](ast.literal_eval(default))
    inputs = tuple(argument.arg for argument in node.args.args)
    return Trick(slot, node.name, inputs, knobs, defaults, ast.get_docstring(node) or "")


def get(slot: str, name: str) -> Trick:
    """Raises TrickError naming the slot's tricks and the nearest one."""
    tricks = registry()
    if slot not in tricks:
        raise TrickError(slot, f"no such slot '{slot}'{nearest(slot, SLOTS)} (slots: {', '.join(SLOTS)})")
    if (slot, name) in ABSENT:
        raise TrickError(slot, f"no trick '{name}' in slot '{slot}', for {ABSENT[slot, name]}")
    if name not in tricks[slot]:
        raise TrickError(
            slot,
            f"no trick '{name}' in slot '{slot}'{nearest(name, tricks[slot])} (there are: {', '.join(tricks[slot])})",
        )
    return tricks[slot][name]


def complete(slot: str, name: str, knobs: Mapping[str, Any]) -> dict[str, Knob]:
    """All knobs of a trick: those given, coerced to the declared type, and the defaults of the rest.

    Raises TrickError for an unknown knob or a value of the wrong type (a bool is never a number).
    """
    trick = get(slot, name)
    out = dict(trick.defaults)
    for key, value in knobs.items():
        if key not in trick.knobs:
            has = f"its knobs: {', '.join(trick.knobs)}" if trick.knobs else "it has no knobs"
            raise TrickError(f"{slot}.{key}", f"'{name}' has no knob '{key}'{nearest(key, trick.knobs)} ({has})")
        out[key] = _coerce(slot, name, key, value, trick.knobs[key])
    return out


def _coerce(slot: str, name: str, key: str, value: Any, kind: type) -> Knob:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float and number and value == value and abs(value) != float("inf"):
        return float(value)
    if kind is int and number and int(value) == value:
        return int(value)
    if kind in (bool, str) and isinstance(value, kind):
        return value
    raise TrickError(f"{slot}.{key}", f"knob '{key}' of '{name}' takes a {kind.__name__}, not {value!r}")


@dataclass(frozen=True)
class Bound:
    """A trick with its knobs, a function of everything its slot offers; `inputs` names what it takes of that."""

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    knobs: Mapping[str, Knob]

    def __call__(self, offered: Mapping[str, Any]) -> Any:
        return self.function(*(offered[name] for name in self.inputs), **self.knobs)


def bind(slot: str, name: str, knobs: Mapping[str, Knob]) -> Bound:
    """The trick, ready to call. Imports the slot's module, hence torch."""
    import importlib

    function = getattr(importlib.import_module(f"{__name__}.{slot}"), name)
    return Bound(function, get(slot, name).inputs, complete(slot, name, knobs))
