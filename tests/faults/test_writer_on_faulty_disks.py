"""The file system says no to the checkpoint writer, or nothing at all: the rank hears of it and goes on."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot
from slurm_resilience.checkpoint.writer import client
from slurm_resilience.checkpoint.writer.client import WriterProcess
from slurm_resilience.checkpoint.writer.outcome import Gone, Refused, Written
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.faulty_fs.disk import REPOSITORY, FaultyDisk
from tests.faulty_fs.fixture import disk as disk  # noqa: PLC0414 fixtures are found by their names here
from tests.faulty_fs.fixture import faulty_disk as faulty_disk  # noqa: PLC0414

LONG_S = 200.0
REFUSALS = [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE]


def state(value: float) -> dict[str, Any]:
    return {"w": torch.full((600_000,), value), "step": int(value)}


class Rank:
    """A rank with its writer, on a faulty disk."""

    def __init__(self, run: Path) -> None:
        self.run = run
        Journal(RunDirectory(run)).create("test")
        self.snapshot = Snapshot(rank=0, threads=1)
        self.writer = WriterProcess(run, [sys.executable, "-m", "tests.faults.kill_writer", str(run), "hasty"])
        self.writer.start()

    def submit(self, step: int) -> None:
        checkpoint = f"step-{step:010d}.a1"
        self.writer.submit(self.snapshot.take(checkpoint, state(step), {}, context={"step": step}))

    def save(self, step: int) -> Written | Refused | Gone | None:
        self.submit(step)
        return self.writer.wait(LONG_S)

    def names(self, step: int) -> list[str]:
        folder = self.run / "checkpoints" / f"step-{step:010d}.a1"
        return [path.name for path in folder.iterdir()] if folder.is_dir() else []

    def close(self) -> None:
        self.writer.close()
        self.snapshot.close()


@pytest.fixture
def rank(disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rank]:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setattr(client, "_REAPED_S", LONG_S)
    rank = Rank(disk.path / f"run-{secrets.token_hex(4)}")
    yield rank
    disk.heal()
    rank.close()


@pytest.mark.parametrize("operation", ["open", "write", "truncate", "fsync", "rename"])
def test_a_refusal_that_passes_is_no_refusal(disk: FaultyDisk, rank: Rank, operation: str) -> None:
    for step, error in enumerate(REFUSALS, 1):
        fault = disk.fail(operation, errno=error, times=2 if error == errno.ESTALE else 1, where="rank-00000")
        outcome = rank.save(step)
        assert isinstance(outcome, Written)
        assert disk.fired(fault)
        disk.heal()
        assert compare_states(Hdf5Store(rank.run).read_part(outcome.receipt), state(step)) == []
        assert rank.names(step) == ["rank-00000.h5"]


@pytest.mark.parametrize("operation", ["open", "write", "fsync", "rename"])
def test_a_refusal_that_lasts_is_told_with_its_number_and_the_next_save_works(
    disk: FaultyDisk, rank: Rank, operation: str
) -> None:
    for step, error in enumerate(REFUSALS, 1):
        disk.fail(operation, errno=error, times=0, where="rank-00000")
        outcome = rank.save(step)
        assert isinstance(outcome, Refused)
        assert outcome.errno == error
        disk.heal()
        assert rank.names(step) == []
    assert isinstance(rank.save(len(REFUSALS) + 1), Written)


@pytest.mark.parametrize("killed", [False, True], ids=["until it answers", "and is killed there"])
def test_a_writer_that_hangs_keeps_the_rank_from_nothing_but_the_next_save(
    disk: FaultyDisk, rank: Rank, killed: bool
) -> None:
    fault = disk.fail("write", hang=True, where="rank-00000")
    rank.submit(1)
    until_s = time.monotonic() + LONG_S
    while not disk.fired(fault):
        assert time.monotonic() < until_s
        time.sleep(0.01)
    assert rank.writer.poll() is None
    with pytest.raises(ValueError, match="still being written"):
        rank.submit(2)
    if killed:
        os.kill(rank.writer.pid, signal.SIGKILL)
        assert isinstance(rank.writer.wait(LONG_S), Gone)
        disk.heal()
        assert "rank-00000.h5" not in rank.names(1)
        rank.writer.start()
    else:
        disk.heal()
        assert isinstance(rank.writer.wait(LONG_S), Written)
    outcome = rank.save(3)
    assert isinstance(outcome, Written)
    assert compare_states(Hdf5Store(rank.run).read_part(outcome.receipt), state(3)) == []
