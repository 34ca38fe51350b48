"""One real Slurm for all tests of this folder, and a clean one for each. Skipped only where it cannot be installed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.site import SPEC, STEPS, Site


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := Cluster.install():
        print(f"no Slurm: {reason}")
        pytest.skip(f"no Slurm: {reason}")
    with Cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def clean(cluster: Cluster) -> Iterator[None]:
    """No leftover job and no dead node reaches the next test."""
    yield
    cluster.reset()


@pytest.fixture(scope="session")
def spec(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four learning rates, three seeds, on forty sums."""
    folder = tmp_path_factory.mktemp("spec")
    rows = [{"question": f"Q {i % 10} + {i % 7} = ? A", "answer": str(i % 10 + i % 7)} for i in range(40)]
    data = folder / "sums.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = folder / "rates.yaml"
    path.write_text(SPEC.format(model=tiny_model, data=data, steps=STEPS))
    return path


@pytest.fixture(scope="session")
def undisturbed(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The curves of the same sweep on this machine, without Slurm and without anything in its way."""
    local = Site(tmp_path_factory.mktemp("undisturbed"), spec, None)
    code, output = local("sweep", str(spec), "--no-mirror", "--workers", "2")
    assert code == 0, output
    curves = local.curves()
    assert len(curves) == 12
    local.check(curves)
    return curves


@pytest.fixture
def site(cluster: Cluster, spec: Path, tmp_path: Path) -> Site:
    return Site(tmp_path, spec, cluster)
