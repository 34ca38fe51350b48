"""Conditions in a spec (`when`, `exclude`): one Python expression, checked before anything is evaluated.

Allowed: names (also dotted config keys), literals, lists, comparisons, `and`, `or`, `not`, `in`. No calls, no
subscripts, no arithmetic. `true`, `false`, `null` mean what they mean in YAML. Leaves out: what a name stands for.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


class ExpressionError(ValueError):
    """What is not allowed, or which comparison makes no sense; `column` counts from 0 within the expression."""

    def __init__(self, message: str, column: int = 0) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True)
class Expression:
    """A checked condition; `names` are (name, column from 0) in order of appearance."""

    text: str
    names: tuple[tuple[str, int], ...]
    run: Callable[[Mapping[str, Any]], Any]

    def __call__(self, lookup: Mapping[str, Any]) -> bool:
        """Raises ExpressionError where two values cannot be compared."""
        try:
            return bool(self.run(lookup))
        except TypeError as error:
            raise ExpressionError(f"'{self.text}': {error}") from None


def compile_expression(text: str) -> Expression:
    """Raises ExpressionError for anything beyond the small language above."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        column = getattr(error, "offset", None) or 1
        raise ExpressionError(f"bad expression: {_say(error)}; compare with == and quote strings", column - 1) from None
    names: list[tuple[str, int]] = []
    body = _check(tree.body, names)
    # Only nodes built by _check reach compile: comparisons, boolean operators, literals and lookups.
    checked = ast.fix_missing_locations(
        ast.Expression(
            ast.Lambda(ast.arguments([], [ast.arg("lookup")], kwonlyargs=[], kw_defaults=[], defaults=[]), body)
        )
    )
    run = eval(compile(checked, "<expression>", "eval"), {"__builtins__": {}})
    return Expression(text.strip(), tuple(names), run)


def _say(error: Exception) -> str:
    return getattr(error, "msg", None) or str(error)


def _check(node: ast.expr, names: list[tuple[str, int]]) -> ast.expr:
    """The node rebuilt with every name replaced by a lookup."""
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(node.op, [_check(value, names) for value in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ast.UnaryOp(node.op, _check(node.operand, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        if isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float):
            return ast.UnaryOp(node.op, ast.Constant(node.operand.value))
        raise ExpressionError("bad expression: a sign only before a number", node.col_offset)
    if isinstance(node, ast.Compare):
        if any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            raise ExpressionError("bad expression: write == instead of `is`", node.col_offset)
        return ast.Compare(_check(node.left, names), node.ops, [_check(c, names) for c in node.comparators])
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return ast.Tuple([_check(item, names) for item in node.elts], ast.Load())
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
        return ast.Constant(node.value)
    if isinstance(node, ast.Name | ast.Attribute):
        return _name(node, names)
    kind = type(node).__name__
    hint = "; compare with ==" if kind == "NamedExpr" else ""
    raise ExpressionError(f"bad expression: {kind} is not allowed in an expression{hint}", node.col_offset)


def _name(node: ast.expr, names: list[tuple[str, int]]) -> ast.expr:
    parts: list[str] = []
    start = node.col_offset
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise ExpressionError("bad expression: only names like train.steps have dots", start)
    name = ".".join([node.id, *reversed(parts)])
    if name in _LITERALS:
        return ast.Constant(_LITERALS[name])
    names.append((name, start))
    return ast.Subscript(ast.Name("lookup", ast.Load()), ast.Constant(name), ast.Load())
