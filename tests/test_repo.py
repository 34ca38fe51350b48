"""The repository itself: layers, torch-free commands, file sizes, links, specs' words."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(p for folder in ("harness", "analysis") for p in (ROOT / folder).rglob("*.py"))

# package -> what it may import of ours; lazily inside functions counts as well, except where noted
ALLOWED = {
    "harness.tricks": {"harness.tricks"},
    "harness.config": {"harness.tricks"},
    "harness.scheduler": set(),
    "harness.store": {"harness.config", "harness.scheduler"},
    "harness.tasks": {"harness.tasks", "harness.config", "harness.tricks"},
    "harness.data": {"harness.data", "harness.tasks", "harness.store", "harness.config", "harness.tricks"},
    "harness.core": {"harness.core", "harness.tasks", "harness.tricks", "harness.config", "harness.store"},
    "harness.lab": {"harness.lab", "harness.core", "harness.tasks", "harness.config", "harness.tricks"},
    "harness.sweep": {"harness.sweep", "harness.config", "harness.store", "harness.scheduler", "harness.tricks"},
    "analysis": {"analysis", "harness.config", "harness.store"},
}
LAZY = {"harness.sweep": {"harness.core", "harness.lab", "harness.tasks", "harness.data", "analysis"}}  # in functions
HEAVY = {"torch", "transformers", "pandas", "mlflow", "matplotlib", "hydra", "scipy", "statsmodels"}


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _package(module: str) -> str:
    return next((p for p in sorted(ALLOWED, key=len, reverse=True) if module == p or module.startswith(p + ".")), "")


def _imports(tree: ast.AST, top: bool) -> set[str]:
    """Modules imported at the top level (top) or anywhere."""
    nodes = tree.body if top and isinstance(tree, ast.Module) else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=_module)
def test_layers(path: Path) -> None:
    module, tree = _module(path), ast.parse(path.read_text())
    package = _package(module)
    if not package:
        return
    lazy = LAZY.get(package, set())
    for top in (True, False):
        allowed = ALLOWED[package] | (set() if top else lazy)
        for name in _imports(tree, top):
            ours = _package(name)
            if ours and ours != package:
                assert ours in allowed, f"{module} imports {name}"


@pytest.mark.parametrize(
    "path",
    [p for p in SOURCES if _package(_module(p)) in ("harness.sweep", "harness.config", "harness.store", "analysis")],
    ids=_module,
)
def test_nothing_heavy_at_the_top_of_what_plan_and_status_load(path: Path) -> None:
    tops = {name.split(".")[0] for name in _imports(ast.parse(path.read_text()), top=True)}
    assert not tops & HEAVY


@pytest.mark.parametrize("path", SOURCES, ids=_module)
def test_every_file_says_what_it_does_and_is_one_job(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), "no opening docstring"
    assert len(text.splitlines()) <= 320


def test_help_loads_no_heavy_module() -> None:
    code = """
import runpy, sys
sys.argv = ["harness", "--help"]
try:
    runpy.run_module("harness", run_name="__main__")
except SystemExit as end:
    assert not end.code
print(sorted({name.split(".")[0] for name in sys.modules}), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    loaded = set(ast.literal_eval(done.stderr.splitlines()[-1]))
    assert not loaded & (HEAVY | {"numpy", "rich"})


@pytest.mark.parametrize(
    "path", sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]), ids=lambda p: p.name
)
def test_relative_links_resolve(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_readme_commands_exist() -> None:
    text = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make (\w+)", text):
        assert re.search(rf"^{target}:", makefile, re.M), target
    for spec in re.findall(r"grid_specs/\w+\.yaml", text):
        assert (ROOT / spec).exists(), spec
