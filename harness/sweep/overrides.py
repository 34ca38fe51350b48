"""The command line's `key=value` words, applied to a spec last.

    seeds=5  design=oat  prune=null     the spec's own words
    model=[small_base,small_aligned]    an axis: only these of its levels
    scale=paper  data=hard              a group's choice, where no axis varies it
    train.steps=20                      a config key, set after everything else

Values are YAML 1.2 scalars or flow lists. Leaves out: any key that an axis sets (narrow the axis instead).
"""

from dataclasses import replace
from typing import Any

from harness import config
from harness.sweep import design as designs
from harness.sweep import keys, yaml12
from harness.sweep import prune as prunes
from harness.sweep import stop as stops
from harness.sweep.axes import Axis, Reader, Setting
from harness.sweep.spec import Spec, read_seeds
from harness.tricks import nearest

COMMAND_LINE = "command line"


def split(words: tuple[str, ...], reader: Reader) -> dict[str, Any]:
    """name -> value. Faults (no `=`, the same name twice, no YAML) are noted."""
    out: dict[str, Any] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign or not name:
            fault(reader, f"'{word}' is no override; write key=value, such as train.steps=20")
        elif name in out:
            fault(reader, f"'{name}' is given twice")
        else:
            try:
                out[name] = yaml12.scalar(text) if text else ""
            except yaml12.SpecError as error:
                fault(reader, f"{name}: cannot read the value {text!r}: {error.problems[0].message}")
    return out


def fault(reader: Reader, message: str) -> None:
    reader.problems.append(yaml12.Problem(message, None, COMMAND_LINE))


def apply(spec: Spec, words: dict[str, Any], reader: Reader, scales: tuple[str, ...]) -> Spec:
    """The spec with every override in place; faults are noted in the reader."""
    by_name = {axis.name: axis for axis in spec.axes}
    by_key = {key: axis for axis in spec.axes for key in axis.sets()}
    last: list[Setting] = []
    for name, value in words.items():
        where = yaml12.Document("", "", {})
        own = Reader(where)
        if name == "seeds":
            spec = replace(spec, seeds=read_seeds(own, value))
        elif name == "design":
            spec = replace(spec, design=designs.read(own, value, spec.axes))
        elif name == "stop":
            spec = replace(spec, stop=stops.read(own, value))
        elif name == "prune":
            spec = replace(spec, prune=prunes.read(own, value))
        elif name in by_name:
            axis = _narrow(by_name[name], value, spec, reader)
            spec = replace(spec, axes=tuple(axis if a.name == name else a for a in spec.axes))
        elif name in by_key:
            axis_name = by_key[name].name
            fault(reader, f"'{name}' is set by axis '{axis_name}'; narrow the axis instead: {axis_name}=[LEVEL,...]")
        elif name in keys.groups():
            if problem := keys.check_choice(name, value, keys.scales() if name == "scale" else scales):
                fault(reader, problem)
            else:
                spec = replace(spec, choices=spec.choices | {name: value})
        else:
            last += _key(name, value, [*by_name, "seeds", "design", "stop", "prune"], reader)
        for found in own.problems:
            fault(reader, found.message)
    return replace(spec, last=tuple(last))


def _narrow(axis: Axis, value: Any, spec: Spec, reader: Reader) -> Axis:
    chosen = []
    for item in value if isinstance(value, list) else [value]:
        level = axis.level(item)
        if level is None:
            fault(reader, axis.no_level(item))
        elif level not in chosen:
            chosen.append(level)
    kept = [level for level in axis.levels if level in chosen]  # in the file's order
    base = spec.baseline.get(axis.name)
    if kept and base is not None and base not in [level.label for level in kept]:
        fault(reader, f"'{axis.name}' leaves out its baseline {base}; add it: {axis.name}=[{base},...]")
    if not kept and isinstance(value, list) and not value:
        fault(reader, f"axis '{axis.name}' is left with no levels, so the grid is empty")
    return replace(axis, levels=tuple(kept)) if kept else axis


def _key(name: str, value: Any, words: list[str], reader: Reader) -> list[Setting]:
    if keys.check_key(name):
        below = [key for key in config.known_keys() if key.startswith(f"{name}.")]
        close = nearest(name, [*words, *config.known_keys(), *keys.groups()])
        if below or name in config.SITE_KEYS:
            fault(reader, str(keys.check_key(name)))
        else:
            takes = "a config key, a group, an axis of the spec, seeds, design, stop or prune"
            fault(reader, f"unknown key '{name}'{close} ({takes})")
    elif problem := keys.check_value(name, value):
        fault(reader, f"{name}: {problem}")
    else:
        return [Setting(name, value, None, COMMAND_LINE)]
    return []
