"""Which checkpoints a running attempt lets go, and what it does when that can't be written down."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.retention import Policy
from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptResumed,
    AttemptStarted,
    CheckpointCommitted,
    CheckpointPinned,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.sweeper import QUIET_S, Sweeper
from tests.unit.training.fakes import MemoryStore


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(RunDirectory(tmp_path / "run"))
    made.create("night shift")
    made.append(AttemptStarted(1, "bare", (), "host"))
    return made


def save(journal: Journal, step: int, metric: float | None = None) -> None:
    name = checkpoint_id(step, 1)
    journal.append(CheckpointCommitted(name, step, 1, SaveReason.STOP, 1, (), 1.0, metric))


def live(journal: Journal) -> list[int]:
    chain = Chain.of(journal.read())
    return [each.committed.step for each in chain.checkpoints if each.state is CheckpointState.LIVE]


def finish(sweeper: Sweeper) -> None:
    if sweeper._thread is not None:
        sweeper._thread.join()


def test_forgotten_ones_are_deleted_after_the_manifest_knows(journal: Journal) -> None:
    store = MemoryStore()
    for step in (10, 20, 30):
        save(journal, step)
    sweeper = Sweeper(journal, store, attempt=1, policy=Policy(2))
    sweeper.after_commit()
    finish(sweeper)
    assert live(journal) == [20, 30]
    assert store.deleted == [checkpoint_id(10, 1)]


def test_best_milestone_pinned_and_verified_ones_stay(journal: Journal) -> None:
    for step, metric in ((10, 0.1), (20, 0.5), (30, 0.4), (40, 0.3), (50, 0.2), (60, 0.9), (70, None)):
        save(journal, step, metric)
    journal.append(CheckpointPinned(checkpoint_id(30, 1), "for the paper"))
    journal.append(AttemptResumed(1, checkpoint_id(40, 1), 40, 1))
    sweeper = Sweeper(journal, MemoryStore(), attempt=1, policy=Policy(1, 50, 1, "min"))
    sweeper.after_commit()
    finish(sweeper)
    assert live(journal) == [10, 30, 40, 50, 70]


def test_an_attempt_that_is_fenced_forgets_and_deletes_nothing(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    store = MemoryStore()
    save(journal, 10)
    save(journal, 20)
    journal.append(AttemptStarted(2, "bare", (), "host"))
    sweeper = Sweeper(journal, store, attempt=1, policy=Policy(1))
    sweeper.after_commit()
    finish(sweeper)
    assert live(journal) == [10, 20]
    assert store.deleted == []
    assert "stay for now" in capsys.readouterr().err


def test_nothing_to_forget_writes_nothing(journal: Journal) -> None:
    save(journal, 10)
    before = journal.run.journal.read_bytes()
    Sweeper(journal, MemoryStore(), attempt=1, policy=Policy(3)).after_commit()
    assert journal.run.journal.read_bytes() == before


def test_what_a_dead_attempt_forgot_is_deleted_by_the_next(journal: Journal) -> None:
    for step in (10, 20):
        save(journal, step)
    dead = Sweeper(journal, MemoryStore(), attempt=1, policy=Policy(1))
    dead.after_commit()
    store = MemoryStore()
    for step in (10, 20):
        store.write_part(checkpoint_id(step, 1), rank=0, state={}, attributes={})
    next_one = Sweeper(journal, store, attempt=1, policy=Policy(1))
    next_one.sweep_leftovers()
    finish(next_one)
    assert store.deleted == [checkpoint_id(10, 1)]


def test_what_a_dead_attempt_wrote_and_nobody_committed_is_deleted_once_it_is_quiet(journal: Journal) -> None:
    save(journal, 10)
    store = Hdf5Store(journal.run.path)
    for checkpoint in (checkpoint_id(10, 1), checkpoint_id(20, 1), checkpoint_id(30, 1), checkpoint_id(40, 3)):
        store.write_part(checkpoint, rank=0, state={}, attributes={})
        long_ago_s = time.time() - 2 * QUIET_S
        os.utime(journal.run.checkpoints / checkpoint, (long_ago_s, long_ago_s))
    os.utime(journal.run.checkpoints / checkpoint_id(30, 1))
    journal.append(AttemptStarted(3, "local", (), "host"))
    sweeper = Sweeper(journal, store, attempt=3, policy=Policy(1))
    sweeper.sweep_leftovers()
    finish(sweeper)
    assert store.found_on_disk() == [checkpoint_id(10, 1), checkpoint_id(30, 1), checkpoint_id(40, 3)]


def test_where_no_more_threads_are_allowed_forgotten_ones_are_deleted_all_the_same(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store = MemoryStore()
    for step in (10, 20):
        save(journal, step)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    Sweeper(journal, store, attempt=1, policy=Policy(1)).after_commit()
    assert store.deleted == [checkpoint_id(10, 1)]
