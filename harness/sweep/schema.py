"""The JSON Schema of grid specs: completion and checks in an editor, from the same lists that `spec.py` checks by.

Written to grid_specs/schema.json by `python -m harness schema > grid_specs/schema.json`; a test keeps it current.
Leaves out: what one schema cannot say (levels of other axes, expressions, cells).
"""

import json
from typing import Any

from harness import config, tricks
from harness.sweep import design, fraction_spec, keys, prune, search_spec
from harness.sweep.spec import RESOURCES, WORDS

_SEEDS: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {
            "type": "object",
            "properties": {"n": {"type": "integer", "minimum": 1}, "start": {"type": "integer", "minimum": 0}},
            "required": ["n"],
            "additionalProperties": False,
        },
    ]
}
_ONE_OF_TYPES = {"type": ["string", "number", "boolean", "null"]}


def text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def schema() -> dict[str, Any]:
    settings: dict[str, Any] = {
        "type": "object",
        "properties": {key: _key(key) for key in config.known_keys()},
        "patternProperties": {rf"^{free.replace('.', chr(92) + '.')}": {} for free in keys.FREE},
        "additionalProperties": False,
    }
    with_choices = {**settings, "properties": {**_choices(), **settings["properties"]}}
    when = {"type": "string", "description": "an expression over axis names, groups and config keys"}
    with_when = {**settings, "properties": {"when": when, **settings["properties"]}}
    values = {"type": "array", "minItems": 1}
    level = {"$ref": "#/$defs/settings_or_choices"}
    axis = {
        "anyOf": [
            values,
            {
                "type": "object",
                "properties": {"key": {"enum": _axis_keys()}, "values": values, "when": when},
                "required": ["values"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {
                    "key": {"enum": _axis_keys()},
                    "low": {"type": "number"},
                    "high": {"type": "number"},
                    "log": {"type": "boolean"},
                    "step": {"type": "number", "exclusiveMinimum": 0},
                    "when": when,
                },
                "required": ["low", "high"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"when": when},
                "additionalProperties": level,
                "not": {"required": ["values"]},
            },
        ]
    }
    axes = {
        "type": "object",
        "minProperties": 1,
        "properties": {name: axis_of for name in _axis_keys() if (axis_of := _listed(name, axis))},
        "additionalProperties": {"$ref": "#/$defs/axis"},
    }
    match = {"anyOf": [{"type": "string"}, {"type": "object", "minProperties": 1}]}
    endpoint = {
        "metric": {"type": "string"},
        "last": {"type": "integer", "minimum": 1},
        "goal": {"enum": ["max", "min"]},
        "margin": {"type": "number", "minimum": 0},
        "sd": {"type": "number", "exclusiveMinimum": 0},
    }
    names = {"type": "array", "items": {"type": "string"}}
    kinds: dict[str, dict[str, Any]] = {
        "question": {"type": "string"},
        "source": {"type": "string"},
        "base": {"$ref": "#/$defs/settings_or_choices"},
        "set": {"anyOf": [{"$ref": "#/$defs/settings"}, {"type": "array", "items": with_when}]},
        "axes": axes,
        "exclude": {"type": "array", "items": match},
        "include": {"type": "array", "items": {"type": "object", "minProperties": 1}},
        "design": {
            "anyOf": [
                {"enum": ["full", "oat"]},
                *(_design(kind, words) for kind, words in design.WORDS.items()),
            ]
        },
        "seeds": _SEEDS,
        "stop": {
            "type": "object",
            "properties": {
                "when": {"const": "decided"},
                "max_seeds": {"type": "integer", "minimum": 4},
                "step": {"type": "integer", "minimum": 1},
                "futility": {"type": ["number", "null"], "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            },
            "required": ["when", "max_seeds"],
            "additionalProperties": False,
        },
        "prune": {"anyOf": [_prune(rule, knobs) for rule, knobs in prune.KNOBS.items()]},
        "baseline": {"type": "object", "additionalProperties": _ONE_OF_TYPES},
        "claims": {"type": "array", "items": {"type": "string"}},
        "figures": {"type": "array", "items": {"type": "string"}},
        "endpoint": {"type": "object", "properties": endpoint, "additionalProperties": False},
        "control": {"anyOf": [{"type": "boolean"}, names]},
        "resources": {
            "type": "object",
            "properties": {word: _key(key) for word, key in RESOURCES.items()},
            "additionalProperties": False,
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "grid spec",
        "description": "One question, what varies, and what each level sets.",
        "type": "object",
        "required": ["question"],
        "properties": {word: {"description": WORDS[word], **kinds[word]} for word in WORDS},
        "additionalProperties": False,
        "$defs": {"settings": settings, "settings_or_choices": with_choices, "axis": axis},
    }


def _design(kind: str, words: tuple[str, ...]) -> dict[str, Any]:
    names = {"type": "array", "items": {"type": "string"}}
    takes: dict[str, Any] = {
        "from": {"type": "array", "items": {"enum": ["baseline", "full"]}, "minItems": 1},
        "stack": {"type": "object", "additionalProperties": _ONE_OF_TYPES},
        "generators": {**names, "minItems": 1},
        "runs": {"type": "integer", "minimum": 4},
        "resolution": {"enum": [*fraction_spec.ROMAN, *fraction_spec.ROMAN.values()]},
        "levels": {"type": "object", "additionalProperties": {"type": "array", "minItems": 2, "maxItems": 2}},
        "size": {"type": "integer", "minimum": 1},
        "seed": {"type": "integer", "minimum": 0},
        "trials": {"type": "integer", "minimum": 2},
        "at_once": {"type": "integer", "minimum": 1},
        "sampler": {"enum": list(search_spec.SAMPLERS)},
        "seeds": _SEEDS,
        "storage": {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "://"}]},
        "reuse": {"type": "boolean"},
        "within": names,
    }
    needed = {"fractional": {"oneOf": [{"required": [word]} for word in ("generators", "runs", "resolution")]}}
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **{word: takes[word] for word in words}},
        "required": ["kind", *({"sample": ["size"], "search": ["trials"]}.get(kind, []))],
        "additionalProperties": False,
        **needed.get(kind, {}),
    }


def _prune(rule: str, knobs: tuple[str, ...]) -> dict[str, Any]:
    takes: dict[str, Any] = {knob: {"type": "integer", "minimum": least} for knob, (_, least) in prune.WHOLE.items()}
    takes |= {"p": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}}
    return {
        "type": "object",
        "properties": {"rule": {"const": rule}, "after": takes["after"], **{knob: takes[knob] for knob in knobs}},
        "required": ["rule", "after"],
        "additionalProperties": False,
    }


def _axis_keys() -> list[str]:
    return [*keys.groups(), *config.known_keys()]


def _listed(name: str, axis: dict[str, Any]) -> dict[str, Any] | None:
    """An axis named by a group or a slot: its values are completed; other axes take the general form."""
    offered = _choices().get(name) or (_key(name) if name.startswith("tricks.") and name.count(".") == 1 else None)
    if not offered:
        return None
    return {"anyOf": [{"type": "array", "minItems": 1, "items": offered}, *axis["anyOf"][1:]]}


def _choices() -> dict[str, Any]:
    out: dict[str, Any] = {}
    for group in keys.groups():
        names = dict.fromkeys(name for scale in keys.scales() for name in keys.choices(group, scale))
        out[group] = {"enum": list(names), "description": f"a file of experiments/{group}/"}
    return out


def _key(key: str) -> dict[str, Any]:
    slot = keys.slots_of(key)
    if slot and key.count(".") == 1:
        names = list(tricks.registry()[slot])
        full = {"type": "object", "properties": {"name": {"enum": names}}, "required": ["name"]}
        formulas = "\n".join(f"{name}: {trick.formula}" for name, trick in tricks.registry()[slot].items())
        return {"description": formulas, "anyOf": [{"enum": names}, full]}
    if slot:
        return {"type": ["number", "boolean", "string"]}
    found = [adapter.json_schema() for adapter in keys.types_of(key)]
    return found[0] if len(found) == 1 else {"anyOf": found} if found else {}
