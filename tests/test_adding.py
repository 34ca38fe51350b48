"""docs/adding.md as a stranger follows it, in a copy of the repository: its function, its worked example, no more."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import tricks

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = (REPOSITORY / "docs/adding.md").read_text()
FUNCTION, EXAMPLE = re.findall(r"```python\n(.*?)```", PAGE, re.S)
WRONG = '''

def wrong_shape(mask: Bool[Tensor, "P G T"]) -> Float[Tensor, "P G T"]:
    """w = Σ_t mask, a weight per sequence in place of one per token.

    Ref: arXiv:0000.00000.
    """
    return mask.double().sum(-1)
'''
SPEC = """question: Does the bound matter?
base: {tricks.surrogate: two_sided_clip, model: hub_folder, model.path: %s}
axes: {tricks.surrogate.delta: [2.0, 4.0]}
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with the page's function and example appended, and a trick that breaks its slot's contract."""
    root = tmp_path_factory.mktemp("adding")
    ignored = shutil.ignore_patterns("__pycache__", "weights")
    for name in ("harness", "experiments", "grid_specs", "docs", "tests/tricks"):
        shutil.copytree(REPOSITORY / name, root / name, ignore=ignored)
    for name in ("pyproject.toml", "tests/__init__.py"):
        shutil.copy(REPOSITORY / name, root / name)
    for name, text in {
        "harness/tricks/surrogate.py": f"\n\n{FUNCTION}",
        "tests/tricks/test_surrogate.py": f"\n\n{EXAMPLE}",
        "harness/tricks/weight.py": WRONG,
    }.items():
        with (root / name).open("a") as file:
            file.write(text)
    (root / "bare").mkdir()
    (root / "bare/config.json").write_text("{}")
    (root / "grid_specs/bound.yaml").write_text(SPEC % (root / "bare"))
    return root


def python(root: Path, *words: str) -> tuple[int, str]:
    environment = os.environ | {"COLUMNS": "120", "PYTHONPATH": str(root), "HARNESS_ROOT": str(root)}
    done = subprocess.run([sys.executable, "-m", *words], cwd=root, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_it_is_listed(copy: Path) -> None:
    code, text = python(copy, "harness", "tricks", "two_sided_clip")
    assert code == 0, text
    assert text.startswith("tricks.surrogate: two_sided_clip\nS = min(min(ρ, delta) A, ")
    assert "tricks.surrogate.delta = 4\n" in text
    assert "The field disagrees on delta: 4 (INTELLECT-2), off (TRL).\n" in text
    assert "arXiv:2505.07291" in text


def test_its_knob_is_an_axis(copy: Path) -> None:
    code, text = python(copy, "harness", "plan", "grid_specs/bound.yaml")
    assert code == 0, text
    assert "2 cells x 1 seed = 2 runs" in text
    code, text = python(copy, "harness", "plan", "grid_specs/bound.yaml", "tricks.surrogate.dleta=3")
    assert code == 2
    assert "did you mean 'tricks.surrogate.delta'?" in text


def test_the_contract_finds_it_and_a_wrong_shape_does_not_pass(copy: Path) -> None:
    named = ("-k", "two_sided_clip or wrong_shape", "-p", "no:cacheprovider", "-rA", "--tb=no")
    files = ("tests/tricks/test_conformance.py", "tests/tricks/test_surrogate.py")
    code, text = python(copy, "pytest", *files, *named)
    assert code == 1, text
    failed = re.findall(r"^FAILED \S+::(\S+)", text, re.M)
    passed = re.findall(r"^PASSED \S+::(\S+)", text, re.M)
    assert "test_shape_is_the_slots[weight-wrong_shape]" in failed
    assert not [name for name in failed if "two_sided_clip" in name]
    assert "test_two_sided_clip_bounds_wrong_answers_too" in passed
    assert len([name for name in passed if "surrogate-two_sided_clip" in name]) >= 5


def test_the_page_says_what_each_slot_offers() -> None:
    rows = dict(re.findall(r"^  \| `(\w+)` \| (.*) \| .* \|$", PAGE, re.M))
    assert tuple(rows) == tricks.SLOTS
    for slot, found in tricks.registry().items():
        offered = set(re.findall(r"`(\w+)(?:\[[\w,]+\])?`", rows[slot]))
        assert {name for trick in found.values() for name in trick.inputs} <= offered, slot
        assert all(re.search(rf"\b{name}\b", tricks.contract(slot)) for name in offered), slot
