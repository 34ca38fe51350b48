"""The probe of a weight sync, on the engine hf: it sees what differs, and says what to do."""

from pathlib import Path

import pytest
import torch

from harness.config import Model
from harness.core import probe
from harness.core.engines.hf import HfEngine
from harness.core.policy import Policy
from tests.core.conftest import MakeRun


def test_an_engine_of_the_same_weights_has_no_gap_and_one_of_others_is_refused(
    tiny_model: Path, make_run: MakeRun
) -> None:
    config, engine = make_run().config(), HfEngine()
    mine, other = (Policy.load(Model(role="", path=str(tiny_model))) for _ in range(2))
    engine.sync(mine)
    assert probe.check(engine, other, config) <= 1e-5
    with torch.no_grad():
        other.parameters()[0][5] += 1e-3  # one token's embedding and its row of the tied head
    found = probe.gap(engine, other)
    assert found > 1e-4
    with pytest.raises(RuntimeError, match=rf"are {found:.3g} nats .* than 0\.0001: .*raise runtime\.probe_tolerance"):
        probe.check(engine, other, config)
    lenient = config.model_copy(update={"runtime": config.runtime.model_copy(update={"probe_tolerance": 2 * found})})
    assert probe.check(engine, other, lenient) == found


def test_weights_that_are_not_numbers_are_refused(tiny_model: Path, make_run: MakeRun) -> None:
    engine, policy = HfEngine(), Policy.load(Model(role="", path=str(tiny_model)))
    engine.sync(policy)
    broken = Policy.load(Model(role="", path=str(tiny_model)))
    with torch.no_grad():
        broken.parameters()[0].fill_(torch.nan)
    with pytest.raises(RuntimeError, match="are nan nats"):
        probe.check(engine, broken, make_run().config())
