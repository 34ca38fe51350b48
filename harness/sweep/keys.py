"""What a spec may set: config keys with their types, slots with their tricks, and the choices under experiments/.

A key is dotted (`train.lr`, `tricks.surrogate.high`); a choice is a group's name (`model`, `recipe`), whose files
may stand in a folder of the scale's name (`experiments/model/mini/small_base.yaml`) or beside them. Leaves out:
what the values do together (`harness.config.build`).
"""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from harness import config, tricks
from harness.tricks import SLOTS, nearest

REPOSITORY = Path(__file__).resolve().parents[2]
EXPERIMENTS = REPOSITORY / "experiments"
CLAIMS = REPOSITORY / "grid_specs" / "claims.yaml"
FREE = ("evaluate.benchmarks.",)  # below these every name is a user's own


@functools.cache
def groups() -> tuple[str, ...]:
    """The config groups: scale, model, data, recipe, engine, launcher."""
    return tuple(sorted(path.name for path in EXPERIMENTS.iterdir() if path.is_dir()))


@functools.cache
def choices(group: str, scale: str) -> dict[str, str]:
    """choice -> Hydra option of a group at a scale; the scale's own folder goes first."""
    folder = EXPERIMENTS / group
    shared = {path.stem: path.stem for path in sorted(folder.glob("*.yaml"))}
    return shared | {path.stem: f"{scale}/{path.stem}" for path in sorted((folder / scale).glob("*.yaml"))}


def scales() -> tuple[str, ...]:
    return tuple(choices("scale", ""))


def check_choice(group: str, value: Any, scales_meant: Iterable[str]) -> str | None:
    """Why `value` is no choice of the group at any of the scales, or None."""
    have: dict[str, str] = {}
    for scale in scales_meant:
        have |= choices(group, scale)
    if isinstance(value, str) and value in have:
        return None
    shown = f"'{value}'" if isinstance(value, str) else repr(value)
    where = " or ".join(f"'{scale}'" for scale in scales_meant)
    at = f" at scale {where}" if group in ("model", "data") else ""
    return (
        f"no {group} {shown}{at}{nearest(value, have)} (there are: {', '.join(have) or 'none'}; "
        f"a new one is a file experiments/{group}/NAME.yaml)"
    )


def check_key(key: str) -> str | None:
    """Why a dotted key cannot be set, with the nearest that can, or None."""
    known = config.known_keys()
    if key in config.SITE_KEYS:
        return f"'{key}' ends in a shell script, which no spec may write; put it in experiments/launcher/"
    if key in known or key.startswith(FREE):
        return None
    below = [name for name in known if name.startswith(f"{key}.")]
    if below:
        return f"'{key}' is a section; set one of its keys, such as {below[0]}"
    return f"no such config key '{key}'{nearest(key, [*known, *groups()])}"


def check_value(key: str, value: Any) -> str | None:
    """Why a key cannot take a value, judged by the key alone, or None. The trick is not known yet for a knob."""
    if isinstance(value, str) and "${" in value:
        return None
    parts = key.split(".")
    if parts[0] == "tricks":
        return _check_trick(parts[1], parts[2] if len(parts) > 2 else None, value)
    fields = types_of(key)
    problems = [problem for adapter in fields if (problem := _refusal(adapter, value))]
    return problems[0] if fields and len(problems) == len(fields) else None


def _check_trick(slot: str, knob: str | None, value: Any) -> str | None:
    try:
        if knob is None:
            given = {"name": value} if isinstance(value, str) else value
            if not isinstance(given, dict) or not isinstance(given.get("name"), str):
                return f"takes a trick's name, or a mapping with `name` and knobs, not {value!r}"
            tricks.complete(slot, given["name"], {k: v for k, v in given.items() if k != "name"})
            return None
        takers = [name for name, trick in tricks.registry()[slot].items() if knob in trick.knobs]
        problems = []
        for name in takers:
            try:
                tricks.complete(slot, name, {knob: value})
                return None
            except tricks.TrickError as error:
                problems.append(str(error))
        return problems[0] if problems else None
    except tricks.TrickError as error:
        return str(error)


def types_of(key: str) -> list[Any]:
    """The types that a key outside the slots may have; none for those whose values are a user's own."""
    return _fields().get(key, [])


@functools.cache
def _fields() -> dict[str, list[Any]]:
    """key -> the types (pydantic TypeAdapters) that it may have; data keys have one per kind of task."""
    found: dict[str, list[Any]] = {}
    for section, models in config.SECTIONS.items():
        for model in models:
            for name, info in model.model_fields.items():
                if name == "benchmarks":
                    continue
                typed: Any = Annotated.__class_getitem__((info.annotation, info))  # type: ignore[attr-defined]
                found.setdefault(f"{section}.{name}", []).append(TypeAdapter(typed, config={"strict": True}))
    return found


def _refusal(adapter: Any, value: Any) -> str | None:
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        return f"{message[0].lower()}{message[1:]}, not {value!r}"
    return None


def slots_of(key: str) -> str | None:
    """The slot a key belongs to, or None."""
    parts = key.split(".")
    return parts[1] if parts[0] == "tricks" and len(parts) > 1 and parts[1] in SLOTS else None


@functools.cache
def claims() -> tuple[str, ...]:
    """Ids of the claims that a spec may name."""
    from harness.sweep import yaml12

    return tuple(yaml12.load(CLAIMS).value)


@functools.cache
def default_choices() -> dict[str, str]:
    """group -> choice of experiments/config.yaml, without the scale's folder."""
    from harness.sweep import yaml12

    listed = yaml12.load(EXPERIMENTS / "config.yaml").value["defaults"]
    chosen = {group: value for item in listed if isinstance(item, dict) for group, value in item.items()}
    return {group: value.split("/", 1)[-1] for group, value in chosen.items()}


def flat(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything in a tree that is no mapping itself."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
