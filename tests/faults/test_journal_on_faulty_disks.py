"""The file system says no to the journal, at every call of an append."""

from __future__ import annotations

import contextlib
import errno
import secrets
from pathlib import Path

import pytest

from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import ManifestDamaged, ManifestUnavailable
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Record, SaveFailed
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.faulty_fs.disk import FaultyDisk
from tests.faulty_fs.fixture import disk as disk  # noqa: PLC0414 fixtures are found by their names here
from tests.faulty_fs.fixture import faulty_disk as faulty_disk  # noqa: PLC0414
from tests.faulty_fs.fixture import need_faulty_disks

A = SaveFailed(1, 10, "first")
B = SaveFailed(1, 20, "second")
C = SaveFailed(1, 30, "third")


def records(run: Path) -> list[Record]:
    return [line.record for line in Journal(RunDirectory(run)).read()][1:]


@pytest.fixture
def run(disk: FaultyDisk) -> Path:
    run = disk.path / f"run-{secrets.token_hex(4)}"
    Journal(RunDirectory(run)).create("test")
    Journal(RunDirectory(run)).append(A)
    return run


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE], ids=errno.errorcode.get)
@pytest.mark.parametrize("operation", ["open", "write", "fsync", "lock", "flush"])
def test_an_append_that_is_refused_at_any_call_is_not_there_and_the_rest_stays_readable(
    disk: FaultyDisk, run: Path, operation: str, error: int
) -> None:
    failed = 0
    nth = 1
    while True:
        before = records(run)
        fault = disk.fail(operation, nth=nth, errno=error, times=2 if error == errno.ESTALE else 1)
        try:
            Journal(RunDirectory(run), patience_s=2).append(B)
            added = True
        except ManifestUnavailable:
            added = False
            failed += 1
        fired = disk.fired(fault)
        disk.heal()
        assert records(run) == [*before, B] if added else records(run) == before
        if not fired:
            break
        nth += 1
    assert added
    assert failed or operation in ("lock", "flush"), "behind the fsync nothing of ours is left to lose"
    Journal(RunDirectory(run)).append(C)
    assert records(run)[-1] == C


def test_an_append_that_can_not_be_taken_back_either_is_there_twice_at_most(disk: FaultyDisk, run: Path) -> None:
    disk.fail("fsync", times=0, errno=errno.EIO)
    disk.fail("truncate", times=0, errno=errno.EIO)
    with pytest.raises(ManifestUnavailable):
        Journal(RunDirectory(run)).append(B)
    disk.heal()
    Journal(RunDirectory(run)).append(B)
    assert records(run) in ([A, B], [A, B, B])


def test_a_lock_that_can_not_be_taken_off_is_gone_with_its_file(disk: FaultyDisk, run: Path) -> None:
    disk.fail("lock", nth=2, times=0, errno=errno.EIO)
    with contextlib.suppress(ManifestUnavailable):
        Journal(RunDirectory(run)).append(B)
    disk.heal()
    Journal(RunDirectory(run), patience_s=60).append(C)  # the kernel tells of a closed file when it has time for that
    assert records(run)[-1] == C


@pytest.mark.parametrize("stuck", [False, True], ids=["and is cut off", "and can't be cut off"])
@pytest.mark.parametrize("short_bytes", [1, 17, 40])
def test_an_append_of_which_only_a_part_was_taken_is_no_line(
    disk: FaultyDisk, run: Path, short_bytes: int, stuck: bool
) -> None:
    disk.fail("write", short_bytes=short_bytes)
    if stuck:
        disk.fail("truncate", times=0, errno=errno.EIO)
    with pytest.raises(ManifestUnavailable):
        Journal(RunDirectory(run)).append(B)
    assert records(run) == [A]
    disk.heal()
    Journal(RunDirectory(run)).append(C)
    assert records(run) == [A, C]
    assert bool(list(run.glob("manifest.jsonl.torn-*"))) == stuck


class Hasty(SystemClock):
    """Nobody on another host has to be waited for."""

    def sleep(self, seconds: float) -> None:
        super().sleep(min(seconds, 0.01))


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS], ids=errno.errorcode.get)
def test_where_locks_are_refused_links_are_used_and_it_is_said(disk: FaultyDisk, run: Path, error: int) -> None:
    said: list[str] = []
    disk.fail("lock", times=0, errno=error)
    Journal(RunDirectory(run), clock=Hasty(), say=said.append).append(B)
    assert records(run) == [A, B]
    assert len(said) == 1
    assert "refuses flock" in said[0]


def test_where_neither_locks_nor_links_work_nothing_is_written(disk: FaultyDisk, run: Path) -> None:
    disk.fail("lock", times=0, errno=errno.ENOLCK)
    disk.fail("link", times=0, errno=errno.EIO)
    before = (run / "manifest.jsonl").read_bytes()
    with pytest.raises(ManifestUnavailable):
        Journal(RunDirectory(run), clock=Hasty(), patience_s=0.2, say=lambda _: None).append(B)
    disk.heal()
    assert (run / "manifest.jsonl").read_bytes() == before


def test_a_lock_held_by_another_node_keeps_this_one_waiting(disk: FaultyDisk, run: Path) -> None:
    there = RunDirectory(disk.view(f"node-{secrets.token_hex(4)}", cache_s=0.0) / run.name)
    with Journal(RunDirectory(run)).writing() as writer:
        with pytest.raises(ManifestUnavailable, match="held by"):
            Journal(there, patience_s=0.2).append(B)
        writer.append(C)
    Journal(there).append(B)
    assert records(run) == [A, C, B]


def test_two_nodes_whose_locks_are_not_shared_are_found_out_and_lose_no_line(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """As Lustre mounted with localflock: each node has the lock for itself."""
    need_faulty_disks(request)
    with FaultyDisk(tmp_path, shared_locks=False) as disk:
        here = RunDirectory(disk.path / "run")
        there = RunDirectory(disk.view("there", cache_s=0.0) / "run")
        Journal(here).create("test")
        with Journal(here).writing() as writer:
            Journal(there).append(B)
            with pytest.raises(ManifestDamaged, match="flock is not shared between hosts"):
                writer.append(A)
        # The two lines have one number now: that is for a person to look at, and nothing is guessed at.
        raw = (disk.folder / "run" / "manifest.jsonl").read_bytes()
        assert raw.count(b'"first"') == raw.count(b'"second"') == 1
