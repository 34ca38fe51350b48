"""Axes, levels and settings of a spec, read from its document with the mark of everything.

A level is a label and the settings it brings. Labels are text, as written in the file. Leaves out: `set`, `exclude`
and `include` (`selection.py`), the spec's other words (`spec.py`), the order in which settings apply (`expand.py`).
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from harness.sweep import keys, span
from harness.sweep.expression import Expression, ExpressionError, compile_expression
from harness.sweep.span import Span
from harness.sweep.yaml12 import Document, Mark, Problem
from harness.tricks import nearest

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_RESERVED = {"seed": "seeds are replicates, not an axis: `seeds: 3`", "seeds": "seeds are replicates: `seeds: 3`"}


@dataclass(frozen=True)
class Setting:
    """A config key or a group's choice, its value, and where that was written ('' = in the spec's file)."""

    key: str
    value: Any
    mark: Mark | None = None
    where: str = ""


@dataclass(frozen=True)
class Choice:
    group: str
    choice: Any
    mark: Mark | None


@dataclass(frozen=True)
class Level:
    """One arm: `label` in tables and legends, `value` in expressions."""

    label: str
    value: Any
    settings: tuple[Setting, ...]
    mark: Mark | None


@dataclass(frozen=True)
class Axis:
    """`key` is the one key that its values set; None for named levels. The levels of a `span` are its two ends."""

    name: str
    key: str | None
    levels: tuple[Level, ...]
    when: Expression | None
    mark: Mark | None
    span: Span | None = None

    def at(self, value: float) -> Level:
        """The level of a number of the span."""
        assert self.span and self.key
        value = self.span.rounded(value)
        return Level(label_of(value), value, (Setting(self.key, value, self.mark),), self.mark)

    def level(self, value: Any) -> Level | None:
        return next((level for level in self.levels if matches(level, value)), None)

    def no_level(self, value: Any) -> str:
        labels = [level.label for level in self.levels]
        given = label_of(value)
        return f"axis '{self.name}' has no level {given!r}{nearest(given, labels)} (levels: {', '.join(labels)})"

    def sets(self) -> set[str]:
        """The keys and groups that some level sets."""
        return {setting.key for level in self.levels for setting in level.settings}


class Reader:
    """The document and the faults found in it so far."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def get(self, key: str, default: Any) -> Any:
        value = self.document.value.get(key, default)
        return default if value is None else value

    def add(self, message: str, *place: str | int, value: bool = False, shift: int = 0) -> None:
        mark = self.document.value_mark(*place) if value else self.document.mark(*place)
        if shift and mark:
            mark = Mark(mark.line, mark.column + shift)
        self.problems.append(Problem(message, mark))


def same(a: Any, b: Any) -> bool:
    """Equal, and not a boolean beside a number."""
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _comparable(value: Any) -> Any:
    """Equal for values that are the `same`, and hashable."""
    return (isinstance(value, bool), value) if isinstance(value, int | float) else label_of(value)


def matches(level: Level, value: Any) -> bool:
    return same(level.value, value) or level.label == label_of(value)


def label_of(value: Any) -> str:
    """A value as its legend shows it."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def read_axes(reader: Reader) -> tuple[Axis, ...]:
    given = reader.get("axes", {})
    if not isinstance(given, dict) or (not given and not reader.get("include", [])):
        reader.add(
            "axes takes a mapping with at least one axis, such as {train.lr: [1e-4, 1e-3]}: nothing varies", "axes"
        )
        return ()
    out: list[Axis] = []
    for name, value in given.items():
        if name in _RESERVED or not _NAME.fullmatch(name):
            hint = _RESERVED.get(name, "an axis is named by letters, digits, _ and dots")
            reader.add(f"'{name}' cannot name an axis: {hint}", "axes", name)
        else:
            axis = _axis(reader, name, value, [axis.name for axis in out], list(given))
            out += [axis] if axis else []
    for index, axis in enumerate(out):
        for other in out[:index]:
            for key in sorted(axis.sets() & other.sets()):
                if not (axis.when or other.when):
                    reader.add(f"axes '{other.name}' and '{axis.name}' both set '{key}'", "axes", axis.name)
    return tuple(out)


def _axis(reader: Reader, name: str, value: Any, before: list[str], every: list[str]) -> Axis | None:
    place: tuple[str | int, ...] = ("axes", name)
    when, key = None, name
    if isinstance(value, dict):
        if "when" in value:
            when = read_expression(reader, value["when"], before, every, *place, "when")
        if "values" in value:
            for word in set(value) - {"key", "values", "when"}:
                reader.add(f"axis '{name}': unknown key '{word}' beside `values` (key, values, when)", *place, word)
            key, place, value = value.get("key", name), (*place, "values"), value["values"]
        elif ("low" in value or "high" in value) and not isinstance(value.get("low", value.get("high")), dict):
            return _spanned(reader, name, value, when)
        else:
            if "key" in value:
                reader.add(
                    f"axis '{name}' gives `key` but no `values` (or `low` and `high`); write {{key: {value['key']}, "
                    "values: [...]}",
                    *place,
                )
                return None
            levels = {level: sets for level, sets in value.items() if level != "when"}
            return _named(reader, name, levels, when)
    if not isinstance(value, list):
        reader.add(
            f"axis '{name}' takes a list of values, {{key, values, when}} or named levels, not {value!r}", *place
        )
        return None
    if not isinstance(key, str) or (key not in keys.groups() and keys.check_key(key)):
        problem = keys.check_key(key) if isinstance(key, str) else f"`key` takes a dotted config key, not {key!r}"
        at = ("axes", name, "key") if len(place) == 3 and key != name else ("axes", name)
        reader.add(str(problem), *at, value=len(at) == 3)
        return None
    if not value:
        reader.add(f"axis '{name}' has no levels, so the grid is empty; give it a list of values", "axes", name)
        return None
    return _valued(reader, name, key, value, when, place)


def _spanned(reader: Reader, name: str, given: dict[str, Any], when: Expression | None) -> Axis | None:
    key, mark = given.get("key", name), reader.document.mark("axes", name)
    problem = keys.check_key(key) if isinstance(key, str) else f"`key` takes a dotted config key, not {key!r}"
    found = problem or span.read(key, given)
    if isinstance(found, str):
        reader.add(f"axis '{name}': {found}", "axes", name)
        return None
    ends = tuple(Level(label_of(v), v, (Setting(key, v, mark),), mark) for v in (found.low, found.high))
    return Axis(name, key, ends, when, mark, found)


def _valued(
    reader: Reader, name: str, key: str, values: list[Any], when: Expression | None, place: tuple[str | int, ...]
) -> Axis:
    levels: list[Level] = []
    seen: set[Any] = set()
    for index, value in enumerate(values):
        mark = reader.document.value_mark(*place, index)
        label = reader.document.texts.get((*place, index), label_of(value)) if value is not None else "null"
        level = Level(label, value, (Setting(key, value, mark),), mark)
        names = {label, label_of(value), _comparable(value)}
        repeated = bool(names & seen)
        seen |= names
        if repeated:
            reader.add(f"axis '{name}' repeats the level {label}", *place, index)
        elif key not in keys.groups() and (problem := keys.check_value(key, value)):
            reader.add(f"{key}: {problem}", *place, index)
        levels.append(level)
    return Axis(name, key, tuple(levels), when, reader.document.mark("axes", name))


def _named(reader: Reader, name: str, given: dict[str, Any], when: Expression | None) -> Axis | None:
    if not given:
        reader.add(f"axis '{name}' has no levels, so the grid is empty; give it a list of values", "axes", name)
        return None
    levels = []
    for label, sets in given.items():
        mark = reader.document.mark("axes", name, label)
        if not isinstance(sets, dict):
            reader.add(
                f"level '{label}' of axis '{name}' takes a mapping of the keys it sets, not {sets!r}",
                "axes",
                name,
                label,
            )
            sets = {}
        levels.append(Level(label, label, read_settings(reader, sets, "axes", name, label, groups=True), mark))
    return Axis(name, None, tuple(levels), when, reader.document.mark("axes", name))


def read_settings(
    reader: Reader, given: dict[str, Any], *place: str | int, groups: bool = False
) -> tuple[Setting, ...]:
    """Dotted keys (and group choices where `groups`) with their marks; faults are noted and left out."""
    out = []
    for key, value in given.items():
        if key in keys.groups():
            if groups:
                out.append(Setting(key, value, reader.document.value_mark(*place, key)))
            else:
                reader.add(f"'{key}' is a group: its choice goes into `base` or into an axis's levels", *place, key)
            continue
        if problem := keys.check_key(key):
            if isinstance(value, dict) and value and "section" in problem:
                problem = f"'{key}' is a section; write {key}.{next(iter(value))}: … with a dot"
            reader.add(problem, *place, key)
        elif problem := keys.check_value(key, value):
            reader.add(f"{key}: {problem}", *place, key, value=True)
        else:
            out.append(Setting(key, value, reader.document.mark(*place, key)))
    return tuple(out)


def scales_meant(scale: str, axes: tuple[Axis, ...]) -> tuple[str, ...]:
    """Every scale that some cell may have."""
    varied = [s.value for axis in axes for level in axis.levels for s in level.settings if s.key == "scale"]
    return tuple(dict.fromkeys([scale, *(str(value) for value in varied)]))


def check_choices(reader: Reader, base: list[Choice], axes: tuple[Axis, ...], scales: tuple[str, ...]) -> None:
    varied = [
        Choice(s.key, s.value, s.mark) for a in axes for lv in a.levels for s in lv.settings if s.key in keys.groups()
    ]
    for item in base + varied:
        if problem := keys.check_choice(item.group, item.choice, scales):
            reader.problems.append(Problem(problem, item.mark))


def read_expression(
    reader: Reader, text: Any, axes: list[str], later: list[str], *place: str | int
) -> Expression | None:
    """A condition over axis names, group names and config keys."""
    if not isinstance(text, str):
        reader.add(f"takes an expression such as train.steps > 10, not {text!r}", *place, value=True)
        return None
    mark = reader.document.values.get(place)
    line = reader.document.text.splitlines()[mark.line - 1] if mark else ""
    quoted = 1 if mark and line[mark.column - 1 : mark.column] in ("'", '"') else 0
    try:
        expression = compile_expression(text)
    except ExpressionError as error:
        reader.add(str(error), *place, value=True, shift=quoted + error.column)
        return None
    for name, column in expression.names:
        if name in later and name not in axes:
            reader.add(f"axis '{name}' comes later: move it above this one", *place, value=True, shift=quoted + column)
        elif name not in axes and name not in keys.groups() and keys.check_key(name):
            known = [*axes, *keys.groups(), *keys.config.known_keys()]
            reader.add(f"unknown name '{name}'{nearest(name, known)}", *place, value=True, shift=quoted + column)
    return expression
