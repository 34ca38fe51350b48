"""A sweep in rounds on a real Slurm: typed once, it goes on to its verdict; `cancel` ends what would go on.

Leaves out: hand-typed commands in between, failures, sites that forbid it (tests/sweep/test_slurm_rounds.py).
"""

from collections import Counter
from pathlib import Path

import pytest

from harness import store
from tests.slurm.cluster import Cluster
from tests.slurm.site import Site

pytestmark = pytest.mark.slurm
SPEC = """\
question: does the learning rate matter?
base: {{model: hub_folder, model.path: {model}, train.steps: 2, evaluate.every: 2}}
axes: {{train.lr: [1e-4, 2e-4, 3e-4]}}
seeds: 3
stop: {{when: decided, max_seeds: 4, futility: null}}
baseline: {{train.lr: 1e-4}}
"""


def test_rounds_go_on_by_themselves_until_the_verdict(cluster: Cluster, tiny_model: Path, tmp_path: Path) -> None:
    spec = tmp_path / "staged.yaml"
    spec.write_text(SPEC.format(model=tiny_model))
    site = Site(tmp_path / "root", spec, cluster)
    site.environment["HARNESS_TRAIN"] = "tests.sweep.staged_train:train"
    cluster.run("scontrol", "update", "PartitionName=low", "State=DOWN")  # nothing starts yet
    try:
        site.submit(tasks=1)
        array, following = sorted({job["array"] for job in cluster.jobs()}, key=int)
        assert cluster.run("squeue", "-h", "-j", following, "-o", "%E").startswith(f"afterany:{array}")
        assert f"next round: job {following} waits for {array}" in " ".join(site("status", "staged")[1].split())
        assert site("cancel", "staged")[0] == 0
        assert not cluster.jobs()
    finally:
        cluster.run("scontrol", "update", "PartitionName=low", "State=UP")
    site.submit(tasks=1)
    cluster.wait_empty(120)
    logs = site.logs()
    assert site.states() == ["done"] * 11, logs
    manifest = store.read_json(site.root / "sweeps/staged/manifest.json")
    assert Counter(run["labels"]["train.lr"] for run in manifest["runs"]) == {"1e-4": 4, "2e-4": 3, "3e-4": 4}
    verdict = store.read_json(site.root / "sweeps/staged/verdict.json")
    assert {c["arm"]: c["effect"]["n"] for c in verdict["contrasts"] if c["read"] == "last"} == {"2e-4": 3, "3e-4": 4}
    assert "Sequential design (2 rounds so far" in " ".join(logs.split())
