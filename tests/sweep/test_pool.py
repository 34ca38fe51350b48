"""How GPUs are shared out between workers, and what a death for memory means."""

from pathlib import Path

import pytest

from harness import store
from harness.sweep import pool, worker
from harness.sweep.pool import slots


def gpus(found: list[dict[str, str]]) -> list[str]:
    return [slot.get("CUDA_VISIBLE_DEVICES", "all") for slot in found]


def test_each_run_has_its_gpus_and_small_ones_share() -> None:
    visible = ["0", "1", "2", "3"]
    assert gpus(slots(0, 1, 1, visible)) == ["0", "1", "2", "3"]
    assert gpus(slots(0, 2, 1, visible)) == ["0,1", "2,3"]
    assert gpus(slots(0, 3, 1, visible)) == ["0,1,2"]  # the fourth stays idle
    assert gpus(slots(0, 1, 2, ["5"])) == ["5", "5"]
    assert gpus(slots(3, 1, 1, visible)) == ["0", "1", "2"]
    assert gpus(slots(3, 0, 1, visible)) == ["all"] * 3  # runs without a GPU see what there is
    assert gpus(slots(0, 0, 1, [])) == ["all"]


def test_too_few_gpus_are_named_with_the_cure() -> None:
    with pytest.raises(
        ValueError, match=r"asks for 8, but 2 are visible here; choose launcher=slurm, or runtime.gpus=0"
    ):
        slots(0, 8, 1, ["0", "1"])


def test_visible_gpus_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-ab12")
    assert pool.visible_gpus() == ["2", "GPU-ab12"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert pool.visible_gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho 'GPU 0: H (UUID: a)'\necho 'GPU 1: H (UUID: b)'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert pool.visible_gpus() == ["0", "1"]


def test_a_kill_for_memory_fails_the_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = store.Run(tmp_path / "runs" / "r")
    (tmp_path / "sweeps" / "s").mkdir(parents=True)
    run.path.mkdir(parents=True)
    (run.path / "claim").write_text('{"host": "", "pid": 4000000, "token": "x"}')
    kills = iter([3, 4])  # the kernel's counter before, and after the death
    monkeypatch.setattr(pool, "_killed_for_memory", lambda: next(kills))
    monkeypatch.setattr(store.claims, "is_live", lambda file: False)
    of = pool.Pool(pool.Duty(tmp_path, "s"), [{}], 1, lambda line: None)
    (Path(of.notes.name) / "0").write_text("r x")
    run.note("begin", pid=4000000)
    assert of._count(0, 4000000, -9) == "killed by signal 9"
    assert run.status()["error"].startswith("killed for memory: ask for more with runtime.mem_gb")


@pytest.mark.parametrize(
    "error, says",
    [
        (MemoryError("no"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: 8 bytes"), True),
        (type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("shape mismatch"), False),
    ],
)
def test_errors_of_memory_come_with_a_cure(tmp_path: Path, error: Exception, says: bool) -> None:
    run = store.Run(tmp_path / "r")
    run.path.mkdir()
    mine = run.claim()
    assert mine

    def train(run: store.Run, stop: object) -> None:
        raise error

    worker.attend(mine, train, lambda: False, worker.Heartbeat())
    assert run.state() == "failed"
    assert run.status()["error"].startswith("out of memory: ") is says
    assert ("runtime.micro_batch_rows" in run.status()["error"]) is says
