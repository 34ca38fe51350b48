"""A real, throw-away Slurm on loopback: munged, slurmctld and a few slurmd, all below one folder.

Every node is this machine, so a job's limits are Slurm's book-keeping, not the kernel's. Not here: accounting (`sacct`
always fails), node names that resolve, more running jobs than a small machine can take.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.slurm import packages, processes
from tests.slurm.settings import free_ports, gres_conf, slurm_conf

COLUMNS = ("id", "array", "task", "raw", "state", "node", "restarts", "reason")
FIELDS = "JobArrayID:30,ArrayJobID:20,ArrayTaskID:20,JobID:20,State:20,NodeList:60,RestartCnt:10,Reason:60"
KILL_WAIT = 5  # seconds from a cancelled job's SIGTERM to its SIGKILL, as in slurm.conf


class Cluster:
    """Nodes n0, n1, ...; partitions low (default; preempted after 10 s), low0 (at once) and high (preempts)."""

    @staticmethod
    def install() -> str | None:
        """None where Slurm is installed in the end, else why not, in one line."""
        return packages.install()

    def __init__(
        self,
        folder: Path,
        nodes: int = 4,
        cpus: int = 8,
        mem: int = 8000,
        gpus: int = 4,
        first_port: int | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.conf = self.folder / "slurm.conf"
        self.names = [f"n{i}" for i in range(nodes)]
        self.environment = {"SLURM_CONF": str(self.conf)}
        self._shape = {"nodes": nodes, "cpus": cpus, "mem": mem, "gpus": gpus}
        self._first_port = first_port
        self._sockets: Path | None = None
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._release_requeued, name="fast-requeue", daemon=True)

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when every node is idle."""
        try:
            sockets = self._write()
            munged = ["munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key"]
            munged += [f"--socket={sockets}/munge/socket", f"--pid-file={self.folder}/munged.pid"]
            munged += [f"--log-file={self.folder}/log/munged.log", f"--seed-file={self.folder}/munged.seed"]
            self._daemon("munged", *munged)
            _wait(10, lambda: (sockets / "munge" / "socket").exists(), "no munge socket")
            self._daemon("slurmctld", self._link("slurmctld"), "-D", "-f", str(self.conf))
            for name in self.names:
                self.start_node(name)
            self.wait_idle(30)
        except BaseException as error:
            error.add_note(self._logs())
            self.stop()
            raise
        self._thread.start()

    def stop(self) -> None:
        """Cancels the jobs, ends the daemons, then kills whatever is left of either."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)
        for name in self._dead_nodes():
            processes.kill_all_of(self.conf, name)
        if "slurmctld" in self._daemons:
            with suppress(OSError, RuntimeError, subprocess.SubprocessError):
                self.cancel_all()
                # not until the queue is empty: a dead node's jobs stay in it
                _wait(KILL_WAIT + 3, lambda: not self._busy(), "jobs do not end")
        for name in ("slurmctld", *self.names, "munged"):
            if name in self._daemons:
                self._daemons[name].terminate()
        for daemon in self._daemons.values():
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(5)
        processes.kill_all_of(self.conf)
        for daemon in self._daemons.values():
            daemon.wait(5)
        self._daemons.clear()
        if self._sockets:
            shutil.rmtree(self._sockets, ignore_errors=True)

    def run(self, *command: str, timeout: float = 30) -> str:
        """What a Slurm command prints; its complaint as an error. A surrounding job's variables do not reach it."""
        surrounding = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH", "SRUN", "SQUEUE"))}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=surrounding | self.environment
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def jobs(self) -> list[dict[str, str]]:
        """Everything pending, running or ending, array tasks one by one.

        id: what commands take (12 or 12_3); array: 12; task: 3 or N/A; raw: the number Slurm gave the task itself.
        """
        lines = self.run("squeue", "-h", "-r", "-O", FIELDS).splitlines()
        widths = [int(field.split(":")[1]) for field in FIELDS.split(",")]
        return [dict(zip(COLUMNS, _cut(line, widths), strict=True)) for line in lines if line.strip()]

    def job(self, job: str) -> dict[str, str] | None:
        return next((found for found in self.jobs() if found["id"] == job), None)

    def nodes(self) -> dict[str, str]:
        """Name -> idle, mixed, allocated, completing, down ..., without marks such as `*`."""
        lines = self.run("sinfo", "-h", "-N", "-p", "low", "-o", "%N %T").splitlines()
        return {name: state.rstrip("*~#!%$@^-") for name, state in map(str.split, lines)}

    def wait_empty(self, seconds: float) -> None:
        _wait(seconds, lambda: not self.jobs(), lambda: f"still in the queue: {self.jobs()}")

    def wait_state(self, job: str, state: str, seconds: float) -> dict[str, str]:
        def reached() -> bool:
            found.update(self.job(job) or {"state": "gone"})
            return found["state"] == state

        found: dict[str, str] = {}
        _wait(seconds, reached, lambda: f"{job} is not {state}: {found}")
        return found

    def wait_idle(self, seconds: float) -> None:
        _wait(seconds, self._idle, lambda: f"nodes: {self.nodes()}")

    def submit(self, *words: str) -> str:
        """The job id of an sbatch call."""
        return self.run("sbatch", "--parsable", *words).strip()

    def occupy(self, partition: str, nodes: Sequence[str], seconds: int) -> str:
        """A job that takes these nodes whole; in `high`, from whoever runs there."""
        where = ["-p", partition, "-N", str(len(nodes)), "-w", ",".join(nodes), "--exclusive"]
        return self.submit(*where, "-J", "occupy", "-o", "/dev/null", "--wrap", f"exec sleep {seconds}")

    def cancel(self, job: str) -> None:
        self.run("scancel", job)

    def cancel_all(self) -> None:
        if jobs := {job["array"] for job in self.jobs()}:
            self.run("scancel", *sorted(jobs))

    def kill_node(self, name: str, with_jobs: bool) -> None:
        """slurmd dies; with_jobs, everything that runs on the node too, as when its power is lost."""
        daemon = self._daemons[name]
        daemon.kill()
        daemon.wait()
        if with_jobs:
            processes.kill_all_of(self.conf, name)

    def start_node(self, name: str) -> None:
        """Nothing happens to a node whose slurmd is running."""
        if name not in self._daemons or self._daemons[name].poll() is not None:
            words = ["-D", "-N", name, "-f", str(self.conf), "-d", self._link("slurmstepd")]
            self._daemon(name, self._link("slurmd"), *words)

    def reset(self) -> None:
        """No jobs, every node idle: what a test may rely on when it starts."""
        self.cancel_all()
        for name in self._dead_nodes():
            # its orphans would run on beside the next test's jobs
            processes.kill_all_of(self.conf, name)
            self.start_node(name)
        self.wait_empty(30)
        # what a task leaves behind when it ends by itself outlives its job
        for name in self.names:
            processes.kill_all_of(self.conf, name)
        self.wait_idle(30)

    def processes(self) -> set[int]:
        """Daemons and jobs' processes that are alive."""
        return processes.of_cluster(self.conf)

    def _write(self) -> Path:
        # a socket's path has at most 107 characters, and munge wants its folder open to everybody
        self._sockets = sockets = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        sockets.chmod(0o755)
        for folder in (self.folder / "bin", self.folder / "log", self.folder / "state", sockets / "munge"):
            folder.mkdir(parents=True, exist_ok=True)
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        for i in range(self._shape["gpus"]):
            # any device node does for a GPU that is only counted: this one is /dev/null
            os.mknod(self.folder / f"gpu{i}", 0o20666, os.makedev(1, 3))
        first = self._first_port or free_ports(1 + len(self.names))
        self.conf.write_text(slurm_conf(self.folder, sockets, first_port=first, **self._shape))
        (self.folder / "gres.conf").write_text(gres_conf(self.folder, self._shape["gpus"]))
        return sockets

    def _link(self, name: str) -> str:
        """Slurm's daemons know their part by the name they are called by, and Debian's may be the emulator's."""
        link = self.folder / "bin" / name
        if not link.is_symlink():
            link.symlink_to(f"/usr/sbin/{name}-wlm")
        return str(link)

    def _daemon(self, name: str, *command: str) -> None:
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **self.environment}
        with open(self.folder / "log" / f"{name}.out", "ab") as log:
            self._daemons[name] = subprocess.Popen(
                # ends with the thread that started it, so with the tests even where these are killed
                ["setpriv", "--pdeathsig", "TERM", "--", *command],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _busy(self) -> bool:
        return any(processes.of_cluster(self.conf, name) for name in self.names)

    def _dead_nodes(self) -> list[str]:
        return [name for name in self.names if name in self._daemons and self._daemons[name].poll() is not None]

    def _idle(self) -> bool:
        dead = [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
        if dead:
            raise RuntimeError(f"ended: {', '.join(dead)}")
        with suppress(RuntimeError):  # slurmctld does not answer yet
            return self.nodes() == dict.fromkeys(self.names, "idle")
        return False

    def _logs(self) -> str:
        logs = sorted((self.folder / "log").glob("*.*"))
        return "\n".join(f"{log.name}: {line}" for log in logs for line in log.read_text().splitlines()[-5:])

    def _release_requeued(self) -> None:
        """Slurm 22.05 holds every requeued job for 120 s, and no setting changes that.

        Not lifted at once: a job that starts again in the second in which it ended there is refused by its node
        ("Job credential revoked"), and FAILED.
        """
        released: set[tuple[str, str]] = set()
        while not self._stopping.wait(1):
            with suppress(OSError, RuntimeError, subprocess.SubprocessError):
                for job in self.jobs():
                    life = (job["id"], job["restarts"])
                    held = job["state"] == "PENDING" and job["reason"] == "BeginTime" and job["restarts"] != "0"
                    if held and life not in released:
                        self.run("scontrol", "update", f"JobId={job['id']}", "StartTime=now+2", timeout=5)
                        released.add(life)


def _cut(line: str, widths: Sequence[int]) -> list[str]:
    cells = []
    for width in widths:
        cells.append(line[:width].strip())
        line = line[width:]
    return cells


def _wait(seconds: float, condition: Callable[[], bool], message: str | Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(message if isinstance(message, str) else message())
        time.sleep(0.1)
