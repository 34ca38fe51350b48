"""Our losses against TRL 1.16's values, which `python -m bench.against_trl` printed; it runs both side by side."""

import pytest

from bench.against_trl import CASES, ours

# case: (TRL's loss, its gradient's 2-norm over the log-probabilities); cispo's value is left out, for TRL multiplies
# log π where we multiply log ρ: the same gradient, another constant
TRL = {
    "dapo": (0.023775, 0.297604),
    "grpo": (0.689537, 0.988427),
    "bnpo": (0.084416, 0.286820),
    "dr_grpo": (0.042208, 0.143410),
    "delta": (0.351267, 0.136372),
    "gspo": (0.620183, 0.982735),
    "cispo": (None, 0.228684),
    "sapo": (0.687600, 0.793509),
    "k3": (0.690760, 0.988240),
}


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient_are_trls(case: str) -> None:
    loss, gradient = ours(CASES[case][1])
    theirs, norm = TRL[case]
    assert theirs is None or loss == pytest.approx(theirs, abs=1e-6)
    assert float(gradient.norm()) == pytest.approx(norm, abs=1e-6)
