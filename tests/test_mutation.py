"""The generator of mutants, on sources small enough to list every mutant by hand."""

import ast

import pytest

from bench import mutation
from bench.mutants import Mutant, mutants

SAMPLE = '''"""At 0 < 1 it is 2."""
def f(x: Float[Tensor, "P 3"], *, low: float = 0.2) -> Int[Tensor, "4"]:
    """Ref: 1 + 1 == 2, π."""
    y = x.amax(-1, keepdim=True)  # π < 1
    return (x > low) & ~torch.where(y, 0.0, x.exp())
'''

EXPECTED = [
    (2, "low: float = 0.2", "low: float = 0.3"),
    (4, "amax", "amin"),
    (4, "(-1", "(-2"),
    (4, "True", "False"),
    (5, ">", ">="),
    (5, ">", "<"),
    (5, "&", "|"),
    (5, "~", ""),
    (5, "0.0, x.exp()", "x.exp(), 0.0"),
    (5, "0.0", "1.0"),
    (5, ".exp()", ""),
]


def _changes(source: str) -> list[str]:
    return [mutant.mutated for mutant in mutants("f.py", source)]


def test_every_mutant_of_the_sample() -> None:
    found = mutants("f.py", SAMPLE)
    lines = SAMPLE.splitlines()
    assert {(m.line, m.mutated) for m in found} == {
        (line, lines[line - 1].strip().replace(old, new, 1)) for line, old, new in EXPECTED
    }
    assert len(found) == len(EXPECTED)
    assert [m.function for m in found] == [""] + ["f"] * 10  # a default is made on import
    assert all(m.original == lines[m.line - 1].strip() for m in found)


def test_a_mutant_is_the_source_with_one_line_changed() -> None:
    for mutant in mutants("f.py", SAMPLE):
        pairs = list(zip(SAMPLE.splitlines(), mutant.source.splitlines(), strict=True))
        assert [(a.strip(), b.strip()) for a, b in pairs if a != b] == [(mutant.original, mutant.mutated)]


def test_docstrings_and_annotations_stay() -> None:
    def declared(source: str) -> list[str]:
        tree = ast.parse(source)
        function = tree.body[-1]
        assert isinstance(function, ast.FunctionDef) and function.returns
        arguments = [*function.args.args, *function.args.kwonlyargs]
        texts = [ast.get_docstring(tree), ast.get_docstring(function), ast.unparse(function.returns)]
        return [str(text) for text in texts] + [ast.unparse(a.annotation) for a in arguments if a.annotation]

    assert all(declared(mutant.source) == declared(SAMPLE) for mutant in mutants("f.py", SAMPLE))


@pytest.mark.parametrize(
    "source",
    [
        "x: Shape[3, -1]",
        "Knob = float | int | None",
        "@decorated(1 < 2)\ndef f() -> None: ...",
        "raise ValueError(f'{1 + 1}', 2)",
        "x = f'{y[0]}'",
        "x = '1 < 2'",
        "if TYPE_CHECKING:\n    x = 1",
        "import a.max",
        "x = torch.where(y, z, z)",  # exchanged branches are the same text
        "x = z if y else z",
    ],
)
def test_what_has_no_mutant(source: str) -> None:
    assert _changes(source) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = b <= c < d", ["a = b < c < d", "a = b >= c < d", "a = b <= c <= d", "a = b <= c > d"]),
        ("a = (b) == (c)", ["a = (b) != (c)"]),
        ("a = b not in c", ["a = b in c"]),
        ("a = b and not c", ["a = b or not c", "a = b and c"]),
        ("a = b - c / d ** e", ["a = b + c / d ** e", "a = b - c * d ** e", "a = b - c / d * e"]),
        ("a += b", ["a -= b"]),
        ("a = 0", ["a = 1"]),
        ("a = 1", ["a = 0", "a = 2"]),
        ("a = 7", ["a = 8"]),
        ("a = -1", ["a = -2"]),
        ("a = -2.0", ["a = 2.0", "a = -3.0"]),
        ("a = 3e-4", ["a = 0.00045"]),
        ("a = x.f(dim=-1)", ["a = x.f(dim=-2)", "a = x.f(dim=0)"]),
        ("a = (b * c).clamp(min=d)", ["a = (b / c).clamp(min=d)", "a = (b * c)"]),
        ("a = torch.sqrt(b)", ["a = (b)"]),
        ("a = b.any() if c else max(d, e)", ["a = b.all() if c else max(d, e)"]),
        ("a = b if c else d", ["a = d if c else b"]),
        ("a = torch.minimum(b, c.mean())", ["a = torch.maximum(b, c.mean())", "a = torch.minimum(b, c.sum())"]),
    ],
)
def test_operators(source: str, expected: list[str]) -> None:
    assert set(expected) <= set(_changes(source))
    assert len(set(_changes(source))) == len(_changes(source))


def test_an_operator_is_found_among_brackets_and_comments() -> None:
    source = "a = (\n    (b)  # + or -\n    + c\n)\n"
    assert [mutant.source for mutant in mutants("f.py", source)] == [source.replace("+ c", "- c")]


def test_an_excuse_fits_one_edit_of_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    key = ("f.py", "sum(0).clamp(min=1)", "sum(0)")
    monkeypatch.setattr(mutation, "EQUIVALENT", {key: "never below 1"})
    source = "a = x.sum(0).clamp(min=1)"

    def excused(path: str) -> list[Mutant]:
        return [mutant for mutant in mutants(path, source) if mutation.excuse(mutant)]

    assert [mutant.mutated for mutant in excused("f.py")] == ["a = x.sum(0)"]
    assert excused("g.py") == []
