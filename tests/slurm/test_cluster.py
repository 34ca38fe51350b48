"""The throw-away Slurm itself: GPUs are dealt out, preempted and lost jobs come back, nothing outlives it.

Not here: the launcher, whose tests use it.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm


def until(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.1)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_all_nodes_are_idle(cluster: Cluster) -> None:
    assert cluster.nodes() == {"n0": "idle", "n1": "idle", "n2": "idle", "n3": "idle"}
    assert cluster.jobs() == []


def test_tasks_of_an_array_on_one_node_get_a_gpu_each(cluster: Cluster, tmp_path: Path) -> None:
    # each waits until all four have started: they run at the same time
    work = f"echo $CUDA_VISIBLE_DEVICES > {tmp_path}/$SLURM_ARRAY_TASK_ID; "
    work += f"for i in $(seq 150); do [ $(ls {tmp_path} | wc -l) -ge 4 ] && break; sleep 0.2; done"
    job = cluster.submit("--array=0-3", "-w", "n0", "--gres=gpu:1", "-c", "1", "-o", "/dev/null", "--wrap", work)
    assert {found["id"] for found in cluster.jobs()} <= {f"{job}_{task}" for task in range(4)}
    cluster.wait_empty(30)
    assert sorted(path.read_text().strip() for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]


def test_a_preempted_job_is_requeued_and_starts_again(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "starts"
    work = f"echo restart ${{SLURM_RESTART_COUNT:-0}} >> {log}; exec sleep 60"
    job = cluster.submit("-p", "low0", "-w", "n1", "--requeue", "-o", "/dev/null", "--wrap", work)
    until(lambda: lines(log), 10)
    occupier = cluster.occupy("high", ["n1"], 60)
    cluster.wait_state(occupier, "RUNNING", 15)
    assert cluster.wait_state(job, "PENDING", 10)["restarts"] == "1"
    cluster.cancel(occupier)
    until(lambda: len(lines(log)) > 1, 20)
    assert lines(log) == ["restart 0", "restart 1"]


def test_a_node_without_power_gives_its_job_to_another(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "starts"
    work = f"echo $SLURMD_NODENAME $$ >> {log}; exec sleep 120"
    job = cluster.submit("-x", "n0,n1", "--requeue", "-o", "/dev/null", "--wrap", work)
    until(lambda: lines(log), 10)
    node, pid = lines(log)[0].split()
    assert int(pid) in cluster.processes()
    cluster.kill_node(node, with_jobs=True)
    assert int(pid) not in cluster.processes()
    until(lambda: len(lines(log)) > 1, 60)
    assert {node, lines(log)[1].split()[0]} == {"n2", "n3"}
    assert cluster.nodes()[node] == "down"
    assert cluster.wait_state(job, "RUNNING", 5)["restarts"] == "1"


def test_nothing_outlives_stop_not_even_on_a_node_without_slurmd(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "pids"
    # one that has left its session and one that ignores the request to end
    work = f"setsid sleep 120 & trap '' TERM; echo $! $$ >> {log}; while :; do sleep 1; done"
    with Cluster(tmp_path / "other", nodes=2) as other:
        for node in other.names:
            other.submit("-w", node, "-o", "/dev/null", "--wrap", work)
        until(lambda: len(lines(log)) == 2, 15)
        pids = {int(pid) for line in lines(log) for pid in line.split()}
        assert pids <= other.processes()
        other.kill_node("n0", with_jobs=False)
        assert pids <= other.processes()
    assert other.processes() == set()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert set(cluster.nodes().values()) == {"idle"}
