"""A sweep's life on a real Slurm. Whatever happens to it, each run ends once, and as if nothing had happened.

Leaves out: the scheduling of thousands of runs (tests/sweep/test_slurm.py, on a fake Slurm).
"""

import os
import random
import sqlite3
import time
from pathlib import Path

import pytest

from harness import store
from tests.slurm.cluster import Cluster
from tests.slurm.site import STEPS, Site, kill
from tests.sweep.mlflow_side import Server, wait_until

pytestmark = pytest.mark.slurm


def test_submitted_trained_and_nothing_left_to_submit(
    site: Site, cluster: Cluster, undisturbed: dict[str, str]
) -> None:
    started = time.monotonic()
    output = site.submit()
    assert time.monotonic() - started < 10  # nobody waits
    assert "3 tasks wanted, 0 in the queue, 3 to submit" in output
    assert len(cluster.jobs()) == 3
    site.wait_done()
    site.check(undisturbed)
    cluster.wait_empty(30)
    output = site.submit()
    assert "12 done, 0 to do" in output
    assert "needs to stay open" not in output
    assert "rates against" in output or "train.lr against" in output  # the verdict
    assert not cluster.jobs()


def test_two_sweeps_of_one_spec_at_once(site: Site, cluster: Cluster, undisturbed: dict[str, str]) -> None:
    site.slow(0.1)
    words = ("sweep", str(site.spec), "--no-mirror", "launcher=slurm", "launcher.max_concurrent=3")
    both = [site.start(*words) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum("3 to submit" in output for output in outputs) == 1, outputs
    assert len(cluster.jobs()) == 3
    site.wait_done()
    site.check(undisturbed)


@pytest.mark.parametrize("partition", ["low", "low0"])
def test_preempted(site: Site, cluster: Cluster, undisturbed: dict[str, str], partition: str) -> None:
    """low: ten seconds between the warning and the end; low0: none."""
    site.slow(0.3)
    site.submit(f"launcher.partition={partition}")
    site.wait(lambda: site.steps() > 10)
    job = cluster.occupy("high", cluster.names, 600)  # takes every node
    cluster.wait_state(job, "RUNNING", 40)
    before = site.steps()
    site.slow(0.05)
    assert "running" not in site.states()
    assert site.states().count("stopped") == 3  # each saved where it stood
    assert site.steps() >= before
    cluster.cancel(job)
    site.wait_done()
    site.check(undisturbed)
    assert max(len(run.notes()) for run in site.runs()) >= 4  # begin, end, begin, end


def test_the_time_limit(site: Site, cluster: Cluster, undisturbed: dict[str, str]) -> None:
    site.slow(0.1)
    # The warning comes 100 to 160 seconds after the start. In a task of one minute it would come after 16, in which a
    # crowded machine hardly imports torch, and a run without a step would be failed for standing still.
    site.submit("launcher.minutes=3", "launcher.warning=20")
    site.wait(lambda: sum(run.reached() >= 1 for run in site.runs()) >= 3)
    site.slow(5.0)  # four runs of twelve steps a task: more than it has time for
    site.wait(lambda: any(job["restarts"] == "1" for job in cluster.jobs()), 300)
    site.slow(0.0)
    site.wait_done()
    site.check(undisturbed)
    assert any("queued again" in log.read_text() for log in (site.root / "sweeps/rates/slurm").glob("*.out"))


def test_a_task_too_short_for_one_step_fails_its_runs_and_says_why(site: Site, cluster: Cluster) -> None:
    site.slow(150)
    site.submit("launcher.minutes=2", "launcher.warning=20", tasks=1)
    site.wait(lambda: "failed" in site.states(), 400)
    error = next(run.status()["error"] for run in site.runs() if run.state() == "failed")
    assert error.startswith("no checkpoint in a task of 2 minutes: raise launcher.minutes")


def test_workers_killed_at_random_instants(site: Site, cluster: Cluster, undisturbed: dict[str, str]) -> None:
    site.slow(0.1)
    site.submit()
    dice, killed = random.Random(0), 0
    end = time.monotonic() + 120
    while killed < 8 and time.monotonic() < end and site.states() != ["done"] * 12:
        time.sleep(dice.uniform(0.3, 1.5))
        if workers := site.workers():
            killed += kill(dice.choice(workers))
    assert killed >= 5
    site.slow(0.0)
    site.wait_done()
    site.check(undisturbed)


def test_a_node_that_loses_its_power(site: Site, cluster: Cluster, undisturbed: dict[str, str]) -> None:
    site.slow(0.5)
    site.submit()
    site.wait(lambda: len(site.workers()) == 3 and site.steps() > 6)
    node = next(job["node"] for job in cluster.jobs() if job["state"] == "RUNNING")
    cluster.kill_node(node, with_jobs=True)
    site.slow(0.1)
    site.wait_done()
    site.check(undisturbed)


def test_a_split_brain_writes_no_run_twice(site: Site, cluster: Cluster, undisturbed: dict[str, str]) -> None:
    """Only slurmd dies: its jobs work on, Slurm believes them lost and starts them again elsewhere."""
    site.slow(2.0)
    site.submit()
    site.wait(lambda: len(site.workers()) == 3 and site.steps() > 3)
    node = next(job["node"] for job in cluster.jobs() if job["state"] == "RUNNING")
    cluster.kill_node(node, with_jobs=False)
    site.wait(lambda: any(job["restarts"] == "1" and job["state"] == "RUNNING" for job in cluster.jobs()), 90)
    site.slow(0.3)
    site.wait_done()
    site.check(undisturbed)
    logs = site.logs()
    assert "taken over" in logs  # the ghost noticed


def test_a_cancelled_task_does_not_come_back_and_the_same_command_goes_on(
    site: Site, cluster: Cluster, undisturbed: dict[str, str]
) -> None:
    site.slow(0.3)
    site.submit(tasks=2)
    site.wait(lambda: len(site.workers()) == 2 and site.steps() > 4)
    site.slow(0.05)
    first = cluster.jobs()[0]["id"]
    cluster.cancel(first)
    site.wait(lambda: first not in {job["id"] for job in cluster.jobs()}, 30)
    code, output = site("cancel", "rates")
    assert code == 0
    assert "1 tasks cancelled" in output or "nothing of 'rates'" in output
    cluster.wait_empty(30)
    assert "running" not in site.states()
    site.submit(tasks=2)
    site.wait_done()
    site.check(undisturbed)


def test_a_full_disk_costs_nothing_that_was_made(
    site: Site, cluster: Cluster, undisturbed: dict[str, str], tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    if os.spawnvp(os.P_WAIT, "mount", mount):
        pytest.skip("this user may not mount a small disk")
    full = Site(disk, site.spec, cluster)
    try:
        full.slow(0.3)
        full.submit()
        full.wait(lambda: full.steps() > 10)
        room = os.statvfs(disk)
        with open(disk / "filler", "wb", buffering=0) as filler, pytest.raises(OSError):
            while True:
                filler.write(bytes(min(1 << 16, max(1, room.f_bavail * room.f_frsize))))
        cluster.wait_empty(60)
        assert "No space left on device" in full.logs()
        assert "failed" not in full.states()
        (disk / "filler").unlink()
        full.slow(0.0)
        full.submit()
        full.wait_done()
        full.check(undisturbed)
    finally:
        cluster.cancel_all()
        cluster.wait_empty(30)
        os.spawnvp(os.P_WAIT, "umount", ["umount", "-l", str(disk)])


def test_a_node_on_which_nothing_starts_is_avoided(site: Site, cluster: Cluster, undisturbed: dict[str, str]) -> None:
    site.submit(tasks=2, BAD_NODE="n0")  # where Slurm puts the first tasks
    site.wait_done()
    site.check(undisturbed)
    said = "\n".join(log.read_text() for log in (site.root / "sweeps/rates/slurm").glob("*.out"))
    assert "queued again without node n0" in said
    assert (site.root / "sweeps/rates/slurm/bad_nodes.txt").read_text().split()[0] == "n0"
    code, output = site("sweep", str(site.spec), "seeds=4", "--name", "rates", "--dry-run", "launcher=slurm")
    assert code == 0
    assert "#SBATCH --exclude=n0" in output


def test_a_tracking_server_that_goes_and_comes(
    site: Site, cluster: Cluster, undisturbed: dict[str, str], tmp_path: Path
) -> None:
    server = Server(tmp_path)
    server.start()
    try:
        wait_until(server.answers, 90)
        site.slow(0.5)
        words = ("launcher=slurm", "launcher.max_concurrent=3")
        code, output = site("sweep", str(site.spec), *words, MLFLOW_TRACKING_URI=server.uri)
        assert code == 0, output
        site.wait((site.root / "sweeps/rates/mirror.json").exists, 120)  # something has arrived
        server.stop()
        before = site.steps()
        site.wait(lambda: site.steps() > before + 10)  # they train on without it
        server.start()
        site.slow(0.0)
        site.wait_done()
        cluster.wait_empty(120)
        site.check(undisturbed)
        code, output = site("mirror", "rates", MLFLOW_TRACKING_URI=server.uri)
        assert code == 0, output
    finally:
        server.stop()
    query = (
        "select t.value, m.step, count(*) from metrics m join tags t on t.run_uuid = m.run_uuid "
        "where t.key = 'run_id' and m.key = 'policy/entropy' group by t.value, m.step"
    )
    with sqlite3.connect(tmp_path / "server.db") as connection:
        rows = connection.execute(query).fetchall()
        assert sorted(rows) == sorted((run.id, step, 1) for run in site.runs() for step in range(STEPS))
        ended = connection.execute("select status, count(*) from runs group by status").fetchall()
        assert ended == [("FINISHED", 12)]


def test_a_run_on_two_gpus(site: Site, cluster: Cluster) -> None:
    """The task asks for two and starts two ranks; the GPUs are fake, so the ranks meet over gloo."""
    site.submit("train.lr=[1e-3]", "seeds=1", "runtime.gpus=2")
    cluster_sees = cluster.run("squeue", "-h", "-r", "-o", "%b").split()
    assert cluster_sees == ["gres:gpu:2"]
    site.wait(lambda: site.states() == ["done"])
    for run in site.runs():
        assert [record["step"] for record in run.read("metrics")] == list(range(STEPS + 1))
        assert run.config().runtime.gpus == 2


def test_jobs_run_the_code_that_was_submitted(site: Site, cluster: Cluster, undisturbed: dict[str, str]) -> None:
    cluster.run("scontrol", "update", "PartitionName=low", "State=DOWN")  # nothing starts yet
    try:
        site.submit()
        code = next((site.root / "sweeps/rates/code").iterdir())
        told = store.read_json(code / store.SNAPSHOT)
        assert told["commit"] == store.code()["commit"]
        marker = code / "harness/core/marker.txt"  # what a job sees is this folder, not the checkout
        marker.write_text("seen")
        (code / "harness/core/train.py").write_text(
            (code / "harness/core/train.py").read_text() + '\nprint("the snapshot", __file__, flush=True)\n'
        )
    finally:
        cluster.run("scontrol", "update", "PartitionName=low", "State=UP")
    site.wait_done()
    site.check(undisturbed)
    logs = "\n".join(log.read_text() for log in (site.root / "sweeps/rates").glob("worker-*.log"))
    assert f"the snapshot {code}/harness/core/train.py" in logs
