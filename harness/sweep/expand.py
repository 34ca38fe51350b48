"""Spec -> cells and runs. Settings apply in one order: choices, `base`, axes, `set`, the command line.

Hydra composes once per tuple of choices; a cell is that tree with its few keys replaced, validated, hashed. Every
seed of a cell shares its identity. Leaves out: the store (`plan.py`).
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness import config
from harness.config import ConfigError
from harness.sweep import checks, contents, effects
from harness.sweep.axes import Axis, Level, Setting, label_of, same
from harness.sweep.compose import compose, is_live, look_up, put, resolve
from harness.sweep.compose import ready as ready_sections
from harness.sweep.design import assignments
from harness.sweep.expression import Expression, ExpressionError
from harness.sweep.grid import Cell, Expansion
from harness.sweep.keys import groups
from harness.sweep.spec import Spec
from harness.sweep.yaml12 import Mark, Problem, SpecError

Pick = Callable[[Axis], Level]  # asked in order for each axis that is there
Make = Callable[[Pick], Cell | None]  # the cell of what is picked; None where there is none

MAX_PROBLEMS = 40  # distinct ones; a fault of one arm repeats in every cell


def expand(spec: Spec) -> Expansion:
    """Raises SpecError with every distinct fault: of values, of combinations, of a grid that shows nothing."""
    enabled = gc.isenabled()
    gc.disable()  # 10^5 cells are all kept: collecting while they are made finds nothing and doubles the time
    try:
        return Expander(spec).run()
    finally:
        if enabled:
            gc.freeze()  # nor do later collections look at them again
            gc.enable()


class _View(dict[str, Any]):
    """Names in an expression: axes and choices, else config keys of a tree."""

    tree: dict[str, Any]

    def __missing__(self, key: str) -> Any:
        return look_up(self.tree, key)


@dataclass(frozen=True)
class _Point:
    """A cell before its tree: choices, keys in order, labels and the values that expressions see."""

    choices: dict[str, str]
    settings: list[Setting]
    labels: dict[str, str]
    values: dict[str, Any]
    included: bool = False  # asked for by itself: no exclusion takes it away


def _picks(levels: Mapping[str, Level]) -> Pick:
    return lambda axis: levels[axis.name]


class Expander:
    """One spec's cells, all of a grid or one at a time; what cells share is made once."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.problems: dict[Problem, None] = {}
        self.starts: dict[tuple[str, ...], dict[str, Any] | None] = {}
        self.ready: dict[tuple[str, ...], dict[str, Any]] = {}
        self.missing: dict[str, None] = {}
        written = [s.value for s in (*spec.base, *spec.last, *(s for rule in spec.rules for s in rule.settings))]
        written += [s.value for axis in spec.axes for level in axis.levels for s in level.settings]
        self.live = any(map(is_live, written))

    def cell(self, pick: Pick) -> Cell | None:
        """The cell of the levels that are picked; None where it is excluded, or where no run can have them."""
        try:
            point = self._walk(self.spec.axes, pick)
            tree = self._tree(point)
            return None if tree is None or self._is_excluded(tree, point) else self._cell(tree, point)
        except (ConfigError, ExpressionError):
            return None

    def run(self) -> Expansion:
        excluded = merged = 0
        cells: dict[str, Cell] = {}
        twins: list[tuple[Cell, Cell]] = []  # equal ids under different labels
        seen: set[tuple[tuple[str, str], ...]] = set()
        for point in self._points():
            key = tuple(point.labels.items())
            if key in seen:  # an axis that is absent here makes the same cell once per level
                merged += 1
                continue
            seen.add(key)
            try:
                tree = self._tree(point)
                if tree is None:
                    continue
                if not point.included and self._is_excluded(tree, point):
                    excluded += 1
                    continue
                cell = self._cell(tree, point)
            except ConfigError as error:
                self._explain(error, point)
            except ExpressionError as error:
                self._add(Problem(str(error), None, self.spec.path))
            else:
                twin = cells.setdefault(cell.id, cell)
                if twin is not cell:
                    merged += 1
                    twins.append((twin, cell))
            if len(self.problems) >= MAX_PROBLEMS:
                break
        found = tuple(cells.values())
        if not self.problems:
            pairs = [(first.labels, second.labels) for first, second in twins]
            self.problems |= dict.fromkeys(checks.check(self.spec, found, pairs, excluded))
        if self.problems:
            raise SpecError(self.spec.document, self.problems)
        if self.spec.design.search:
            return Expansion(self.spec, (), 0, 0, (), tuple(self.missing), probes=found)
        aliases = tuple((cell.id, cell.labels) for _, cell in twins)
        return Expansion(self.spec, found, excluded, merged, aliases, tuple(self.missing))

    def _points(self) -> Iterator[_Point]:
        axes = self.spec.axes
        for levels in assignments(self.spec.design, axes, self.spec.baseline):
            yield self._walk(axes, _picks({axis.name: level for axis, level in zip(axes, levels, strict=True)}))
        for inclusion in self.spec.include:
            named = [axis for axis in axes if axis.name in inclusion.levels]
            point = self._walk(named, _picks(inclusion.levels))
            self._apply(inclusion.settings, point)
            point.labels.update({setting.key: label_of(setting.value) for setting in inclusion.settings})
            yield replace(point, included=True)

    def _walk(self, axes: Iterable[Axis], pick: Pick) -> _Point:
        """Each axis in order, where its condition holds, at the level that is picked when it is reached."""
        point = _Point(dict(self.spec.choices), [], {}, dict.fromkeys(axis.name for axis in self.spec.axes))
        for axis in axes:
            if axis.when and not self._holds(axis.when, point, self._partial(axis.when, point)):
                continue
            level = pick(axis)
            point.labels[axis.name] = level.label
            point.values[axis.name] = level.value
            self._apply(level.settings, point)
        return point

    def _apply(self, settings: tuple[Setting, ...], point: _Point) -> None:
        for setting in settings:
            if setting.key in groups():
                point.choices[setting.key] = setting.value
            else:
                point.settings.append(setting)

    def _partial(self, when: Expression, point: _Point) -> dict[str, Any]:
        """The tree as far as the axes before a `when` have set it; composed only if the condition reads a key."""
        known = {*point.values, *point.choices}
        if all(name in known for name, _ in when.names):
            return {}
        tree = dict(self._start(point.choices) or {})
        for setting in point.settings:
            put(tree, setting.key, setting.value)
        return tree

    def _holds(self, expression: Expression, point: _Point, tree: dict[str, Any]) -> bool:
        view = _View(point.choices | point.values)
        view.tree = tree
        return expression(view)

    def _start(self, choices: dict[str, str]) -> dict[str, Any] | None:
        """The composed tree with `base` set, one per tuple of choices; None when it has a fault, noted once."""
        key = tuple(choices.values())
        if key not in self.starts:
            self.starts[key] = None
            try:
                tree = compose(choices)
                for setting in self.spec.base:
                    put(tree, setting.key, setting.value)
                self.live = self.live or is_live(tree)
                self.starts[key] = tree
            except ConfigError as error:
                self._explain(error, _Point(choices, list(self.spec.base), {}, {}))
        return self.starts[key]

    def _tree(self, point: _Point) -> dict[str, Any] | None:
        start = self._start(point.choices)
        if start is None:
            return None
        tree = dict(start)
        for setting in point.settings:
            put(tree, setting.key, setting.value)
        for rule in self.spec.rules:
            if rule.when is None or self._holds(rule.when, point, tree):
                for setting in rule.settings:
                    put(tree, setting.key, setting.value)
        for setting in self.spec.last:
            put(tree, setting.key, setting.value)
        return resolve(tree) if self.live else tree

    def _is_excluded(self, tree: dict[str, Any], point: _Point) -> bool:
        for exclusion in self.spec.exclude:
            if exclusion.expression:
                if self._holds(exclusion.expression, point, tree):
                    return True
            elif all(self._matches(name, values, tree, point) for name, values in exclusion.partial.items()):
                return True
        return False

    def _matches(self, name: str, values: tuple[Any, ...], tree: dict[str, Any], point: _Point) -> bool:
        if name in point.values:
            label = point.labels.get(name)
            return label is not None and any(same(point.values[name], v) or label == label_of(v) for v in values)
        actual = point.choices[name] if name in point.choices else look_up(tree, name)
        return any(same(actual, value) for value in values)

    def _cell(self, tree: dict[str, Any], point: _Point) -> Cell:
        key = tuple(point.choices.values())
        start = self.starts[key]
        if self.live or start is None:
            self._fill_contents(tree)
        else:
            self._share(tree, start, key)
        identity, runtime, launcher, hardware = config.build(tree)
        if problems := effects.silent(identity):
            raise ConfigError(problems)
        return Cell(config.cell_id(identity), point.labels, identity, runtime, launcher, hardware)

    def _share(self, tree: dict[str, Any], start: dict[str, Any], key: tuple[str, ...]) -> None:
        """Sections that this cell leaves as composed are validated and hashed once for all cells."""
        if key not in self.ready:
            filled = dict(start)
            self._fill_contents(filled)
            self.ready[key] = ready_sections(filled)
        ready = self.ready[key]
        changed = {name for name, section in tree.items() if section is not start.get(name)}
        if changed & {"model", "data", "evaluate"}:
            self._fill_contents(tree)
        for name in tree.keys() - changed:
            tree[name] = ready[name]
        if "tricks" in changed:
            slots = {n: ready["tricks"][n] if c is start["tricks"].get(n) else c for n, c in tree["tricks"].items()}
            tree["tricks"] = slots

    def _fill_contents(self, tree: dict[str, Any]) -> None:
        if isinstance(path := tree["model"].get("path"), str):
            where, content = contents.model(path)
            tree["model"] = tree["model"] | {"path": where, "content": content}
        tree["data"] = self._with_content(tree["data"])
        benchmarks = tree["evaluate"].get("benchmarks")
        if isinstance(benchmarks, dict) and any("path" in b for b in benchmarks.values() if isinstance(b, dict)):
            filled = {name: self._with_content(b) for name, b in benchmarks.items()}
            tree["evaluate"] = tree["evaluate"] | {"benchmarks": filled}

    def _with_content(self, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("task") != "jsonl" or not isinstance(data.get("path"), str):
            return data
        path, content = contents.data(data["path"])
        if content.startswith("missing:"):
            self.missing[path] = None
        return data | {"path": path, "content": content}

    def _add(self, problem: Problem) -> None:
        self.problems[problem] = None

    def _explain(self, error: ConfigError, point: _Point) -> None:
        """Each fault at the setting that is to blame: the last one that set the key or a part of it."""
        rules = [s for rule in self.spec.rules for s in rule.settings]
        settings = [*self.spec.base, *point.settings, *rules, *self.spec.last]
        for key, message in error.problems:
            to_blame: Setting | None = None
            for setting in settings:
                if f"{key}.".startswith(f"{setting.key}.") or (key and f"{setting.key}.".startswith(f"{key}.")):
                    to_blame = setting
            text = f"{key}: {message}" if key else message
            if to_blame:
                self._add(Problem(text, to_blame.mark, to_blame.where))
            else:
                self._add(Problem(text, self._blamed_choice(key, point), ""))

    def _blamed_choice(self, key: str, point: _Point) -> Mark | None:
        """The mark of the axis level or the base choice whose file holds the key."""
        group = {"tricks": "recipe", "critic": "recipe", "model": "model", "data": "data"}.get(key.split(".")[0])
        for axis in self.spec.axes:
            for level in axis.levels:
                if point.labels.get(axis.name) == level.label:
                    for setting in level.settings:
                        if setting.key == group:
                            return setting.mark
        return self.spec.document.keys.get(("base", group)) if group else None
