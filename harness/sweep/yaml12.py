"""YAML 1.2 with the place of every key and value, for errors that point into the file.

Only `true` and `false` are booleans (`off` is a string), `1e-4` is a float, `1_000` and `12:30` are strings;
duplicate keys, NaN, infinities, recursive aliases and foreign tags are refused. Leaves out: what the keys mean.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Place = tuple[str | int, ...]  # where a node sits: ("axes", "eps_high", "values", 0)

MAX_NODES = 50_000  # aliases can make a small file expand without end


@dataclass(frozen=True)
class Mark:
    """A place in a text; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Document:
    """A parsed text: plain values, the mark of every key and every value, and scalars as they were written."""

    name: str
    text: str
    value: Any
    keys: dict[Place, Mark] = field(default_factory=dict)
    values: dict[Place, Mark] = field(default_factory=dict)
    texts: dict[Place, str] = field(default_factory=dict)

    def mark(self, *place: str | int) -> Mark | None:
        """The key's mark, else the value's, else that of the nearest enclosing place."""
        for end in range(len(place), -1, -1):
            found = self.keys.get(place[:end]) or self.values.get(place[:end])
            if found:
                return found
        return None

    def value_mark(self, *place: str | int) -> Mark | None:
        return self.values.get(place) or self.mark(*place)


@dataclass(frozen=True)
class Problem:
    """One fault. Without a mark it lies outside the file (`where`, such as the command line)."""

    message: str
    mark: Mark | None = None
    where: str = ""


class SpecError(ValueError):
    """Every fault of a spec at once; the text is ready to print."""

    def __init__(self, document: Document | None, problems: Iterable[Problem]) -> None:
        self.problems = sorted(
            dict.fromkeys(problems), key=lambda p: (p.mark is None, p.mark and (p.mark.line, p.mark.column))
        )
        super().__init__("\n".join(_render(document, problem) for problem in self.problems))


def _render(document: Document | None, problem: Problem) -> str:
    name = problem.where or (document.name if document else "")
    if problem.mark is None or document is None:
        return f"{name}: {problem.message}" if name else problem.message
    lines = document.text.splitlines()
    source = lines[problem.mark.line - 1] if problem.mark.line <= len(lines) else ""
    source = source.replace("\t", " ")
    caret = " " * (problem.mark.column - 1) + "^"
    return f"{name}:{problem.mark.line}:{problem.mark.column}: {problem.message}\n    {source}\n    {caret}"


class _Composer(yaml.SafeLoader):
    """PyYAML's parser with the scalars of YAML 1.2's core schema."""


_Composer.yaml_implicit_resolvers = {}  # of its own: add_implicit_resolver would copy those of YAML 1.1


_SCALARS = {
    "null": (r"~|null|Null|NULL|", "~nN\0"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
}
for _name, (_pattern, _first) in _SCALARS.items():
    _letters = ["" if letter == "\0" else letter for letter in _first]
    _Composer.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), _letters)


def load(path: Path) -> Document:
    """Raises SpecError: no such file (with those beside it), not text, or any fault of the YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SpecError(None, [Problem(f"{path}: not a text file (UTF-8)")]) from None
    except OSError as error:
        raise SpecError(None, [Problem(f"{path}: cannot be read ({error.strerror})")]) from None
    return parse(text, str(path))


def parse(text: str, name: str = "<text>") -> Document:
    """Raises SpecError with every duplicate key, bad number and foreign tag, or the first syntax error."""
    try:
        node = yaml.compose(text, Loader=_Composer)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        mark = Mark(at.line + 1, at.column + 1) if at else None
        empty = Document(name, text, None)
        raise SpecError(empty, [Problem(f"not valid YAML: {_syntax(error)}", mark)]) from None
    except yaml.YAMLError as error:
        raise SpecError(None, [Problem(f"{name}: not valid YAML: {str(error).splitlines()[0]}")]) from None
    document = Document(name, text, None)
    builder = _Builder(document)
    value = None if node is None else builder.value(node, ())
    document = Document(name, text, value, document.keys, document.values, document.texts)
    if builder.problems:
        raise SpecError(document, builder.problems)
    return document


def scalar(text: str) -> Any:
    """A value as typed on the command line: a YAML 1.2 scalar or flow collection. Raises SpecError."""
    return parse(text, repr(text)).value


def _syntax(error: yaml.MarkedYAMLError) -> str:
    problem = (error.problem or error.context or "cannot be parsed").strip()
    cures = {
        "'\\t'": "indent with spaces, not tabs",
        "expected ',' or ']'": "a [ is not closed, or a comma is missing",
        "expected ',' or '}'": "a { is not closed, or a comma is missing",
        "could not find expected ':'": "a key needs a colon and a space after it (key: value)",
        "mapping values are not allowed here": "quote a value that holds ': ', or check the indentation",
        "expected <block end>": "check the indentation: keys of one level start in one column",
        "found unexpected end of stream": "a quote is not closed",
        "expected the node content": "a value is missing here, or a stray character",
        "undefined alias": "quote a value that begins with *",
        "cannot start any token": "quote a value that begins with % @ or `",
    }
    cure = next((text for sign, text in cures.items() if sign in problem), "")
    return f"{problem}; {cure}" if cure else problem


class _Builder:
    """Nodes to plain values, noting marks and faults on the way."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.open: set[int] = set()
        self.count = 0

    def value(self, node: yaml.Node, place: Place) -> Any:
        mark = _mark(node)
        self.document.values[place] = mark
        self.count += 1
        if id(node) in self.open or self.count > MAX_NODES:
            problem = Problem("an alias (*name) that contains itself, or far too many of them", mark)
            raise SpecError(self.document, [problem])
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, place)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*place, index)) for index, item in enumerate(node.value)]
            self.document.texts[place] = node.value
            return self._scalar(node, mark)
        finally:
            self.open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            mark = _mark(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem("a key must be a plain word", mark))
                continue
            key = key_node.value  # as written: a key `0.20` or `off` stays the text a reader sees
            if key == "<<":
                self.problems.append(Problem("merge keys (<<) are not YAML 1.2; write the keys out", mark))
            elif key in out:
                first = self.document.keys[(*place, key)]
                self.problems.append(Problem(f"duplicate key '{key}' (first in line {first.line})", mark))
            else:
                self.document.keys[(*place, key)] = mark
                out[key] = self.value(value_node, (*place, key))
        return out

    def _scalar(self, node: yaml.Node, mark: Mark) -> Any:
        kind, text = node.tag.removeprefix("tag:yaml.org,2002:"), node.value
        if kind == "str" or node.tag == "!":
            return text
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            if kind == "int":
                return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
            if kind == "float":
                number = math.nan if text[-1].isalpha() else float(text)
                if math.isfinite(number):
                    return number
                self.problems.append(Problem(f"{text}: a number must be finite", mark))
                return None
        except ValueError:
            pass
        self.problems.append(Problem(f"cannot read {text!r} as {node.tag}; quote it, or drop the tag", mark))
        return None


def _mark(node: yaml.Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)
