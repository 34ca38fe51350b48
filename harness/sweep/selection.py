"""What a spec says beside its axes: keys set after them, cells left out, whole cells added.

Leaves out: how cells are matched (`expand.py`).
"""

from dataclasses import dataclass
from typing import Any

from harness.sweep import keys
from harness.sweep.axes import (
    Axis,
    Choice,
    Level,
    Reader,
    Setting,
    check_choices,
    label_of,
    read_expression,
    read_settings,
)
from harness.sweep.expression import Expression
from harness.sweep.yaml12 import Mark
from harness.tricks import nearest


@dataclass(frozen=True)
class Rule:
    """Keys that `set` sets, where `when` holds."""

    when: Expression | None
    settings: tuple[Setting, ...]
    mark: Mark | None


@dataclass(frozen=True)
class Exclusion:
    """A cell is left out when every name has one of its values, or when the expression holds."""

    partial: dict[str, tuple[Any, ...]]
    expression: Expression | None
    mark: Mark | None


@dataclass(frozen=True)
class Inclusion:
    """A whole cell: levels of axes, and settings beside them."""

    levels: dict[str, Level]
    settings: tuple[Setting, ...]
    mark: Mark | None


def read_rules(reader: Reader, axes: tuple[Axis, ...]) -> tuple[Rule, ...]:
    """`set`: one mapping, or a list of mappings with an optional `when`."""
    given = reader.get("set", [])
    items: list[tuple[Any, tuple[str | int, ...]]] = [(given, ("set",))]
    if isinstance(given, list):
        items = [(item, ("set", index)) for index, item in enumerate(given)]
    out = []
    names = [axis.name for axis in axes]
    for item, place in items:
        if not isinstance(item, dict):
            reader.add("set takes a mapping of dotted keys, or a list of such mappings", *place)
            continue
        when = read_expression(reader, item["when"], names, [], *place, "when") if "when" in item else None
        settings = read_settings(reader, {k: v for k, v in item.items() if k != "when"}, *place)
        for setting in settings:
            owner = next((axis.name for axis in axes if setting.key in axis.sets()), None)
            if owner and "when" not in item:
                reader.add(
                    f"set overwrites axis '{owner}' in every cell; drop one, or add a `when`", *place, setting.key
                )
        out.append(Rule(when, settings, reader.document.mark(*place)))
    return tuple(out)


def read_exclude(reader: Reader, axes: tuple[Axis, ...]) -> tuple[Exclusion, ...]:
    given = reader.get("exclude", [])
    if not isinstance(given, list):
        reader.add("exclude takes a list of partial matches or expressions", "exclude")
        return ()
    by_name = {axis.name: axis for axis in axes}
    out = []
    for index, item in enumerate(given):
        mark = reader.document.mark("exclude", index)
        if isinstance(item, str):
            expression = read_expression(reader, item, list(by_name), [], "exclude", index)
            out.append(Exclusion({}, expression, mark))
        elif isinstance(item, dict) and item:
            partial = {}
            for name, value in item.items():
                values = value if isinstance(value, list) else [value]
                partial[name] = tuple(values)
                if name in by_name:
                    for wrong in [v for v in values if by_name[name].level(v) is None]:
                        reader.add(by_name[name].no_level(wrong), "exclude", index, name, value=True)
                elif name not in keys.groups() and keys.check_key(name):
                    known = [*by_name, *keys.groups(), *keys.config.known_keys()]
                    reader.add(f"unknown name '{name}'{nearest(name, known)}", "exclude", index, name)
            out.append(Exclusion(partial, None, mark))
        else:
            reader.add(
                "an exclusion is a partial match such as {model: small_base}, or an expression", "exclude", index
            )
    return tuple(out)


def read_include(reader: Reader, axes: tuple[Axis, ...], scales: tuple[str, ...]) -> tuple[Inclusion, ...]:
    given = reader.get("include", [])
    if not isinstance(given, list):
        reader.add("include takes a list of whole cells, each a mapping of axes and keys", "include")
        return ()
    by_name = {axis.name: axis for axis in axes}
    out = []
    for index, item in enumerate(given):
        if not isinstance(item, dict) or not item:
            reader.add("a cell to include is a mapping of axis levels and dotted keys", "include", index)
            continue
        levels: dict[str, Level] = {}
        rest: dict[str, Any] = {}
        for name, value in item.items():
            axis = by_name.get(name)
            if axis is None:
                rest[name] = value
            elif level := axis.level(value) or _new_level(reader, axis, value, index, scales):
                levels[name] = level
        settings = read_settings(reader, rest, "include", index, groups=True)
        check_choices(reader, [Choice(s.key, s.value, s.mark) for s in settings if s.key in keys.groups()], (), scales)
        out.append(Inclusion(levels, settings, reader.document.mark("include", index)))
    return tuple(out)


def _new_level(reader: Reader, axis: Axis, value: Any, index: int, scales: tuple[str, ...]) -> Level | None:
    """A value that the axis does not list: fine for one key's values, not for named levels."""
    place = ("include", index, axis.name)
    if axis.key is None:
        reader.add(axis.no_level(value), *place, value=True)
        return None
    group = axis.key in keys.groups()
    problem = keys.check_choice(axis.key, value, scales) if group else keys.check_value(axis.key, value)
    if problem:
        reader.add(f"{axis.key}: {problem}", *place, value=True)
    mark = reader.document.value_mark(*place)
    return Level(reader.document.texts.get(place, label_of(value)), value, (Setting(axis.key, value, mark),), mark)
