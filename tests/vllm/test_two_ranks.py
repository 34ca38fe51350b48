"""A run of two ranks with engine=vllm: sharded weights reach both engines, and everything ends in order."""

import pytest

from harness.core import ranks
from tests.core.conftest import MakeRun
from tests.core.test_sharded import PAYING

pytestmark = pytest.mark.vllm


def test_two_ranks_sample_with_an_engine_each(make_run: MakeRun, capfd: pytest.CaptureFixture[str]) -> None:
    run = make_run(
        sampling__engine="vllm", runtime__gpus=2, runtime__engine_cpu_mb=64, train__steps=2, evaluate__every=2, **PAYING
    )
    ranks.train(run)
    assert run.state() == "done"
    rows = [record["m"] for record in run.read("metrics")]
    assert len(rows) == 3 and all(row["engine/probe_gap"] <= 1e-4 for row in rows)
    assert all(row["ratio/first_update"] <= 1e-4 and row["grad/norm"] > 0 for row in rows[:2])
    assert "Traceback" not in capfd.readouterr().err
