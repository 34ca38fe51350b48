"""From one plain tree with the keys a user writes to a run's configuration, with every fault and its cure.

Leaves out: where the tree comes from (`harness.sweep.compose`).
"""

import functools
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from harness import tricks
from harness.config.hardware import Hardware
from harness.config.sections import (
    ArithmeticData,
    Critic,
    Evaluate,
    Identity,
    JsonlData,
    Launcher,
    Model,
    Runtime,
    Sampling,
    Train,
    Trick,
)
from harness.tricks import SLOTS, nearest


class ConfigError(ValueError):
    """Every fault of a configuration at once, each as (dotted key, message)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("\n".join(f"{key}: {message}" if key else message for key, message in problems))
        self.problems = problems


_BESIDE = ("runtime", "launcher", "hardware", "tricks")  # no plain part of the identity


def build(tree: Mapping[str, Any]) -> tuple[Identity, Runtime, Launcher, Hardware]:
    """The four parts from one plain tree with the keys a user writes (`train.lr`, `tricks.surrogate.high`).

    A section or trick that is validated already is taken as it is. Raises ConfigError with every fault and the
    nearest known key.
    """
    problems: list[tuple[str, str]] = []
    chosen = _complete_tricks(tree.get("tricks", {}), problems)
    plain = {key: value for key, value in tree.items() if key not in _BESIDE}
    identity = _validate(Identity, plain | {"tricks": chosen}, "", problems)
    runtime = _validate(Runtime, tree.get("runtime", {}), "runtime.", problems)
    launcher = _validate(Launcher, tree.get("launcher", {}), "launcher.", problems)
    hardware = _validate(Hardware, tree.get("hardware", {}), "hardware.", problems)
    if problems or identity is None or runtime is None or launcher is None or hardware is None:
        raise ConfigError(problems)
    return identity, runtime, launcher, hardware


def _complete_tricks(given: Any, problems: list[tuple[str, str]]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        problems.append(("tricks", f"takes a mapping of slots ({', '.join(SLOTS)}), not {given!r}"))
        return {}
    out: dict[str, Any] = {}
    for slot, choice in given.items():
        if isinstance(choice, Trick):  # complete already, shared by many cells
            out[slot] = choice
            continue
        knobs = {"name": choice} if isinstance(choice, str) else choice
        try:
            tricks.get(slot, "") if slot not in SLOTS else None
            if not isinstance(knobs, Mapping) or not isinstance(knobs.get("name"), str):
                raise tricks.TrickError(slot, f"takes a trick's name or a mapping with `name`, not {choice!r}")
            name = knobs["name"]
            out[slot] = {"name": name} | tricks.complete(slot, name, {k: v for k, v in knobs.items() if k != "name"})
        except tricks.TrickError as error:
            problems.append((f"tricks.{error.key}", str(error)))
            if slot in SLOTS:
                out[slot] = {"name": ""}
    return out


def _validate(model: type[BaseModel], value: Any, prefix: str, problems: list[tuple[str, str]]) -> Any:
    if isinstance(value, model):  # validated already, shared by many cells
        return value
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for item in error.errors():
            problems.append(_explain(item, prefix))
        return None


def _explain(item: Any, prefix: str) -> tuple[str, str]:
    tags = {"arithmetic", "jsonl"}
    key = prefix + ".".join(str(part) for part in item["loc"] if str(part) not in tags)
    if item["type"] == "extra_forbidden" and key in known_keys():
        kind = next((str(part) for part in item["loc"] if str(part) in tags), "such a")
        return key, f"does not apply to {kind} {key.split('.')[0]}; choose another `data` (data=gsm8k reads JSON lines)"
    if item["type"] == "extra_forbidden":
        return key, f"no such key{nearest(key, known_keys())}"
    if item["type"] == "missing":
        return key, "is missing"
    message = item["msg"].removeprefix("Value error, ")
    if key == prefix and ": " in message:
        key, message = message.split(": ", 1)
        return key, message
    given = item.get("input")
    shown = "" if isinstance(given, Mapping) else f", not {given!r}"
    return key, message[0].lower() + message[1:] + shown


def set_key(tree: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted key of a plain tree in place. Raises ConfigError with the nearest known key.

    `tricks.<slot>` replaces the slot's whole choice; `tricks.<slot>.<knob>` sets one knob of it.
    """
    parts = key.split(".")
    node: Any = tree
    for depth, part in enumerate(parts[:-1]):
        child = node.get(part)
        if isinstance(child, str) and parts[0] == "tricks" and depth == 1:
            child = node[part] = {"name": child}
        if child is None and depth == 0 and part in SECTIONS:
            child = node[part] = {}  # a section that is left out where nothing needs it
        if not isinstance(child, dict):
            raise ConfigError([(key, f"no such key{nearest(key, known_keys())}")])
        node = child
    knob = parts[0] == "tricks" and len(parts) == 3
    if not (knob or parts[-1] in node or key in known_keys()):
        raise ConfigError([(key, f"no such key{nearest(key, known_keys())}")])
    if knob:  # unknown slots and knobs are named here, with the nearest
        try:
            tricks.complete(parts[1], node.get("name", ""), {parts[2]: value})
        except tricks.TrickError as error:
            raise ConfigError([(key, str(error))]) from None
    node[parts[-1]] = value


SECTIONS: dict[str, tuple[type[BaseModel], ...]] = {
    "model": (Model,),
    "data": (ArithmeticData, JsonlData),
    "sampling": (Sampling,),
    "train": (Train,),
    "critic": (Critic,),
    "evaluate": (Evaluate,),
    "runtime": (Runtime,),
    "launcher": (Launcher,),
    "hardware": (Hardware,),
}


SITE_KEYS = ("launcher.setup", "launcher.extra")  # end in a shell script: only a file under experiments/ may set them


@functools.cache
def known_keys() -> tuple[str, ...]:
    """Every dotted key that a spec or the command line may set, for messages and the editor's schema."""
    found = [f"{name}.{field}" for name, models in SECTIONS.items() for m in models for field in m.model_fields]
    found += [f"tricks.{slot}" for slot in SLOTS]
    found += [f"tricks.{slot}.{knob}" for slot in SLOTS for t in tricks.registry()[slot].values() for knob in t.knobs]
    return tuple(key for key in dict.fromkeys(found) if key not in SITE_KEYS)
