"""Hydra composes once per distinct tuple of group choices; from there on it is plain dictionaries.

A whole value `${other.key}` stays live until a cell is complete, so that it follows axes and overrides. Leaves
out: every other kind of interpolation.
"""

import contextlib
import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

from harness import config, tricks
from harness.sweep import keys
from harness.tricks import nearest

_SECTIONS: dict[str, Any] = {name: TypeAdapter(kinds[0]) for name, kinds in config.SECTIONS.items()}
_SECTIONS["data"] = TypeAdapter(config.Data)
_LIVE = re.compile(r"\$\{([\w.]+)\}")


def compose(choices: dict[str, str]) -> dict[str, Any]:
    """The composed tree of one tuple of choices. Raises ConfigError for a fault in a file under experiments/."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    words = []
    for group, choice in choices.items():
        have = keys.choices(group, choices["scale"])
        if choice not in have:
            problem = keys.check_choice(group, choice, [choices["scale"]])
            raise config.ConfigError([(group, str(problem))])
        words.append(f"{group}={have[choice]}")
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(keys.EXPERIMENTS), version_base="1.3"):
            tree = OmegaConf.to_container(hydra_compose("config", overrides=words), resolve=False)
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        first = " ".join(str(error).split())
        raise config.ConfigError([("", f"experiments/ ({', '.join(words)}): {first}")]) from None
    return tree  # type: ignore[return-value]


def put(tree: dict[str, Any], key: str, value: Any) -> None:
    """Sets a key of `tree`, copying every mapping on the way, since cells share the parts they do not change."""
    node: Any = tree
    for part in key.split(".")[:-1]:
        child = node.get(part)
        if not isinstance(child, dict):
            break
        node[part] = node = dict(child)
    config.set_key(tree, key, value)


def ready(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree with every section and trick that is valid by itself validated; the others are left for the build."""
    out = dict(tree)
    for name, check in _SECTIONS.items():
        with contextlib.suppress(ValidationError):
            out[name] = check.validate_python(tree.get(name))
    slots = tree.get("tricks")
    if isinstance(slots, dict):
        out["tricks"] = {slot: _ready_trick(slot, choice) for slot, choice in slots.items()}
    return out


def _ready_trick(slot: str, choice: Any) -> Any:
    given = {"name": choice} if isinstance(choice, str) else choice
    try:
        knobs = tricks.complete(slot, given["name"], {k: v for k, v in given.items() if k != "name"})
    except (tricks.TrickError, TypeError, KeyError, AttributeError):
        return choice  # the build says what is wrong with it
    return config.Trick.model_validate({"name": given["name"]} | knobs)


def is_live(value: Any) -> bool:
    if isinstance(value, dict):
        return any(is_live(item) for item in value.values())
    return isinstance(value, str) and bool(_LIVE.fullmatch(value))


def resolve(tree: dict[str, Any]) -> dict[str, Any]:
    """Every `${key}` replaced by that key's value, in copies. Raises ConfigError for an unknown key or a circle."""

    def value_of(value: Any, place: str, seen: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {name: value_of(item, f"{place}.{name}" if place else name, seen) for name, item in value.items()}
        live = _LIVE.fullmatch(value) if isinstance(value, str) else None
        if not live:
            return value
        key = live.group(1)
        if key in seen:
            raise config.ConfigError([(place, f"${{{key}}} refers to itself")])
        node: Any = tree
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        if node is None:
            raise config.ConfigError([(place, f"${{{key}}} has no value{nearest(key, config.known_keys())}")])
        return value_of(node, place, (*seen, key))

    return value_of(tree, "", ())


def look_up(tree: dict[str, Any], key: str) -> Any:
    """A key's value in a tree, a default where the tree does not name it: a slot gives its trick's name."""
    parts = key.split(".")
    if parts[0] == "tricks" and len(parts) > 1:
        choice = tree.get("tricks", {}).get(parts[1])
        name = choice.get("name") if isinstance(choice, dict) else choice
        if len(parts) == 2:
            return name
        known = tricks.registry().get(parts[1], {}).get(str(name))
        defaults: dict[str, Any] = dict(known.defaults) if known else {}
        return (defaults | (choice if isinstance(choice, dict) else {})).get(parts[2])
    node: Any = tree
    for part in parts:
        if not isinstance(node, dict) or part not in node:
            return _default(key)
        node = node[part]
    return node


def _default(key: str) -> Any:
    section, _, name = key.partition(".")
    models = config.SECTIONS.get(section, ())
    info = models[-1].model_fields.get(name) if models else None
    return None if info is None or info.is_required() else info.default
