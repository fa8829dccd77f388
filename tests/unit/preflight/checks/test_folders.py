"""/dev/shm and TMPDIR: their room, and what earlier jobs left in them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.preflight.checks.node.left_behind import leftovers
from slurm_resilience.preflight.checks.node.space import judge_shared_memory, judge_temporary, shared_memory, temporary
from slurm_resilience.preflight.result import Outcome, Problem
from slurm_resilience.process_identity import Identity, Liveness
from tests.unit.preflight.checks.scene import (
    GIB,
    MIB,
    context,
    findings,
    only,
    outcomes,
    process,
    tree,
)


@pytest.mark.parametrize(
    ("free", "total", "own", "expected"),
    [
        (10 * GIB, 20 * GIB, 0, None),
        (64 * MIB, 20 * GIB, 0, None),
        (63 * MIB, 20 * GIB, 0, ("fail", Problem.NODE)),
        (63 * MIB, 20 * GIB, 15 * GIB, ("fail", Problem.USER)),
        (64 * MIB, 64 * MIB, 0, ("warn", Problem.USER)),  # what a container has when nobody asks
        (60 * MIB, 64 * MIB, 0, ("fail", Problem.USER)),
    ],
)
def test_shared_memory(free: int, total: int, own: int, expected: tuple[str, Problem] | None):
    found = judge_shared_memory(free, total, own)
    assert [(each.outcome.value, each.problem) for each in found] == ([] if expected is None else [expected])


def test_shared_memory_is_asked_for_where_it_is(tmp_path: Path):
    assert only(shared_memory, context(tmp_path)).outcome is Outcome.SKIPPED
    found = only(shared_memory, context(tree(tmp_path, {"dev/shm/x": "y" * 5000})))
    assert found.measured["own_bytes"] >= 5000
    assert found.measured["free_bytes"] > 0


@pytest.mark.parametrize(
    ("room", "outcome"),
    [
        (Room(50 * GIB, 10**6), []),
        (Room(50 * GIB, None), []),
        (Room(4 * GIB, 10**6), ["warn"]),
        (Room(63 * MIB, 10**6), ["fail"]),
        (Room(50 * GIB, 999), ["fail"]),
        (Room(50 * GIB, 10**6, 10 * MIB), ["fail"]),
    ],
)
def test_room_for_temporary_files(room: Room, outcome: list[str]):
    assert outcomes(judge_temporary("TMPDIR=/t", room, 100 * GIB)) == outcome


def test_a_temporary_folder_is_written_to_and_left_clean(tmp_path: Path):
    found = only(temporary, context(tmp_path, {"TMPDIR": str(tmp_path)}))
    assert found.outcome in (Outcome.OK, Outcome.WARN)
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_that_is_not_there(tmp_path: Path):
    named = only(temporary, context(tmp_path, {"TMPDIR": str(tmp_path / "no")}))
    assert (named.outcome, named.problem) == (Outcome.WARN, Problem.USER)  # Python takes /tmp then
    usual = only(temporary, context(tmp_path))
    assert (usual.outcome, usual.problem) == (Outcome.FAIL, Problem.NODE)


def owned(pid: int = 4711) -> str:
    return json.dumps(asdict(Identity("n1", "boot", pid, 5)))


def test_nothing_left_is_fine(tmp_path: Path):
    assert only(leftovers, context(tree(tmp_path, {"dev/shm/x": "y", "tmp/x": ""}))).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("torch_4711_1_2", "warn"), ("torch_7_1_2", "ok"), ("nccl-abc", "ok")],  # 7 lives; of the last nobody knows
)
def test_memory_that_dead_processes_left(tmp_path: Path, name: str, outcome: str):
    root = tree(tmp_path, process(7, "python", "S"))
    path = tree(root, {f"dev/shm/{name}": ""}) / "dev" / "shm" / name
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.posix_fallocate(descriptor, 0, 65 * MIB)
    finally:
        os.close(descriptor)

    found = only(leftovers, context(root))

    assert found.outcome.value == outcome
    assert outcome == "ok" or name in found.sentence


@pytest.mark.parametrize(
    ("liveness", "outcome"), [(Liveness.GONE, "warn"), (Liveness.ALIVE, "ok"), (Liveness.UNKNOWN, "ok")]
)
def test_a_runtime_folder_of_a_dead_agent(tmp_path: Path, liveness: Liveness, outcome: str):
    folder = f"dev/shm/slurm-resilience-{os.getuid()}-run-a0001-n0"
    root = tree(tmp_path, {f"{folder}/owner.json": owned(), f"{folder}/rank-0": "x" * (65 * MIB)})
    assert only(leftovers, context(root), alive=lambda _: liveness).outcome.value == outcome


def test_an_own_process_of_another_job_with_a_gpu_open_or_on_the_port(tmp_path: Path):
    listening = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 00000000:7148 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 99887 1 0\n"
    )
    files = {**process(7, "python", "S", job="12"), **process(8, "python", "S", job="13"), "proc/net/tcp": listening}
    root = tree(tmp_path, files)
    for pid in (7, 8):
        (root / f"proc/{pid}/fd").mkdir()
        (root / f"proc/{pid}/fd/3").symlink_to("/dev/nvidia0")
        (root / f"proc/{pid}/fd/4").symlink_to("/dev/nvidiactl")
        (root / f"proc/{pid}/fd/5").symlink_to("socket:[99887]")

    environment = {"SLURM_JOB_ID": "13", "MASTER_PORT": str(0x7148)}
    gpu_, port = findings(leftovers, context(root, environment))

    assert (gpu_.outcome, gpu_.problem) == (Outcome.WARN, Problem.USER)
    assert "process 7 (python) of yours, of job 12, has /dev/nvidia0 open" in gpu_.sentence
    assert "listens on MASTER_PORT, 29000" in port.sentence
    assert only(leftovers, context(root)).outcome is Outcome.OK  # without Slurm there is no other job


def test_old_logs_of_torchrun_are_told_and_no_problem(tmp_path: Path):
    folder = tmp_path / "tmp" / "torchelastic_x"
    folder.mkdir(parents=True)
    os.utime(folder, (0, 0))
    root = tree(tmp_path, process(os.getpid(), "python", "S"))
    found = only(leftovers, context(root))
    assert found.outcome is Outcome.OK
    assert "1 old torchelastic_ folder" in found.sentence
