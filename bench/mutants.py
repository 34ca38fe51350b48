"""Single-point mutants of a source file: edits of its text, found by AST, so that comments and layout stay.

Operators: comparisons, arithmetic, bits, and/or, not ~ -, numbers and booleans, paired functions (max, min), dropped
methods (.detach()), exchanged branches of `torch.where` and of a conditional, axes. Leaves out: strings, annotations,
decorators, `raise` and f-strings, type unions, `if TYPE_CHECKING`, whole statements; and of a negative integer all
but the next lower one (and 0 for an axis named so), for -1 is a place from the end and its sign no quantity.
"""

import ast
import builtins
import re
from collections.abc import Iterable
from dataclasses import dataclass

COMPARISONS = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",)}
COMPARISONS |= {"is": ("is not",), "is not": ("is",), "in": ("not in",), "not in": ("in",)}
OPERATORS = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "**": "*", "&": "|", "|": "&", "^": "&"}
_PAIRS = ("amax amin", "maximum minimum", "max min", "any all", "zeros_like ones_like", "zeros ones")
SWAPS = {"mean": "sum"} | {a: b for pair in _PAIRS for a, b in (pair.split(), pair.split()[::-1])}
BUILTIN_SWAPS = {name: SWAPS[name] for name in ("max", "min", "any", "all")}
DROPS = {"detach", "clamp", "exp", "log", "square", "sqrt", "rsqrt", "sigmoid", "abs", "double", "float"}
SYMBOLS: dict[type, str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
SYMBOLS |= {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.And: "and", ast.Or: "or"}
SYMBOLS |= {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"}
SYMBOLS |= {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}


@dataclass(frozen=True)
class Mutant:
    """One edit: `source` is the whole mutated file, `original` and `mutated` the lines it changes.

    `function` is the function or, of a method, the class in whose body it is, "" for code that runs on import.
    """

    path: str
    line: int
    function: str
    original: str
    mutated: str
    source: str


def mutants(path: str, source: str) -> list[Mutant]:
    """All mutants of a file in the order of its text; none twice, and none that parses to the original."""
    points = _Points(source)
    points.visit(ast.parse(source))
    seen, found = {ast.dump(ast.parse(source))}, []
    for start, end, new, function in sorted(set(points.edits)):
        mutated = points.text[:start] + new + points.text[end:]
        try:
            form = ast.dump(ast.parse(mutated))
        except SyntaxError:
            continue
        if form not in seen:
            seen.add(form)
            before, after = _lines(points.text, start, end), _lines(mutated, start, start + len(new))
            line = points.text.count(b"\n", 0, start) + 1
            found.append(Mutant(path, line, function, before, after, mutated.decode()))
    return found


def _lines(text: bytes, start: int, end: int) -> str:
    """The lines that hold a span, as one."""
    stop = text.find(b"\n", end)
    held = text[text.rfind(b"\n", 0, start) + 1 : stop if stop >= 0 else None]
    return " ".join(line.strip() for line in held.decode().splitlines())


class _Points(ast.NodeVisitor):
    """Collects edits (start, end, new text, function), in bytes."""

    def __init__(self, source: str) -> None:
        self.text = source.encode()
        self.starts = [0, *(m.end() for m in re.finditer(b"\n", self.text))]
        self.edits: list[tuple[int, int, bytes, str]] = []
        self.function = self.owner = ""

    def _start(self, node: ast.expr) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def _edit(self, start: int, end: int, new: str | bytes) -> None:
        self.edits.append((start, end, new.encode() if isinstance(new, str) else new, self.function))

    def _operator(self, left: ast.expr, right: ast.expr, symbol: str, replacements: Iterable[str]) -> None:
        """Replaces the operator that stands between two expressions, among brackets, breaks and comments."""
        start = self._end(left)
        gap = re.sub(rb"#[^\n]*", lambda m: b" " * len(m[0]), self.text[start : self._start(right)])
        found = re.search(rb"\s+".join(re.escape(word.encode()) for word in symbol.split()), gap)
        assert found, f"no {symbol} in {gap!r}"
        for new in replacements:
            self._edit(start + found.start(), start + found.end(), new)

    def _swap(self, one: ast.expr, other: ast.expr) -> None:
        a, b, c, d = self._start(one), self._end(one), self._start(other), self._end(other)
        if a > c:
            a, b, c, d = c, d, a, b
        self._edit(a, d, self.text[c:d] + self.text[b:c] + self.text[a:b])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        outer, self.function = self.function, self.function or self.owner or node.name
        for part in node.body:
            self.visit(part)
        self.function = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer, self.owner = self.owner, self.owner or node.name
        for part in node.body:
            self.visit(part)
        self.owner = outer

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if not ast.unparse(node.test).endswith("TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._swap(node.body, node.orelse)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            symbol = SYMBOLS[type(op)]
            self._operator(left, right, symbol, COMPARISONS[symbol])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        symbol = SYMBOLS[type(node.op)]
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator(left, right, symbol, ["or" if symbol == "and" else "and"])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        symbol = SYMBOLS.get(type(node.op))
        if symbol and not _is_type(node):
            self._operator(node.left, node.right, symbol, [OPERATORS[symbol]])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if symbol := SYMBOLS.get(type(node.op)):
            self._operator(node.target, node.value, f"{symbol}=", [f"{OPERATORS[symbol]}="])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start, value = self._start(node), getattr(node.operand, "value", None)
        if isinstance(node.op, ast.USub) and type(value) is int:  # one number: -1 is an axis or a place from the end
            return self._edit(start, self._end(node), f"-{value + 1}")
        width = len("not" if isinstance(node.op, ast.Not) else "~")
        self._edit(start, start + width + (self.text[start + width : start + width + 1] == b" "), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        for new in _neighbours(node.value):
            self._edit(self._start(node), self._end(node), new)

    def visit_Call(self, node: ast.Call) -> None:
        func = node.func
        if isinstance(func, ast.Name) and func.id in BUILTIN_SWAPS:
            self._edit(self._start(func), self._end(func), BUILTIN_SWAPS[func.id])
        if isinstance(func, ast.Attribute):
            name = self._end(func) - len(func.attr)
            if func.attr in SWAPS:
                self._edit(name, self._end(func), SWAPS[func.attr])
            if func.attr in DROPS:
                if ast.unparse(func.value) not in ("torch", "math"):
                    self._edit(self.text.rindex(b".", 0, name), self._end(node), "")
                elif len(node.args) == 1 and not node.keywords:
                    self._edit(self._start(func), self._end(func), "")
            if func.attr == "where" and len(node.args) == 3:
                self._swap(node.args[1], node.args[2])
        for keyword in node.keywords:
            if keyword.arg in ("dim", "axis") and isinstance(keyword.value, ast.UnaryOp):
                self._edit(self._start(keyword.value), self._end(keyword.value), "0")
        self.generic_visit(node)


def _neighbours(value: object) -> list[str]:
    if isinstance(value, bool):
        return [str(not value)]
    if not isinstance(value, int | float):
        return []
    if value in (0, 1):
        return [repr(type(value)(other)) for other in ((1,) if value == 0 else (2, 0))]
    return [repr(value + 1 if isinstance(value, int) else float(f"{1.5 * value:.6g}"))]


def _is_type(node: ast.expr) -> bool:
    """`float | int`: names of types alone."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr) and _is_type(node.left) and _is_type(node.right)
    name = ast.unparse(node)
    return name == "None" or isinstance(getattr(builtins, name, None), type)
