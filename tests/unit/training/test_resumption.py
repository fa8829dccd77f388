"""The newest checkpoint that every rank can read whole, or a clear word why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.checkpoint.distributed.shards import Layouts
from slurm_resilience.errors import CheckpointMismatch, CheckpointUnavailable, CheckpointUnsupported, NothingToResume
from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptStarted,
    CheckpointCommitted,
    CheckpointQuarantined,
    CheckpointReleased,
    Part,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.part_loading import PartLoading
from slurm_resilience.training.ranks import AloneRank, Ranks
from slurm_resilience.training.resumption import STATE_FORMAT, Resumption
from tests.unit.training.fakes import FakeClock, MemoryStore

NAMES = ("model",)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(RunDirectory(tmp_path / "run"))
    journal.create("test")
    journal.append(AttemptStarted(1, "local", (), "host"))
    return journal


def commit(journal: Journal, store: MemoryStore, step: int, *, world_size: int = 1, **state: Any) -> str:
    checkpoint = checkpoint_id(step, 1)
    full = {"format": STATE_FORMAT, "objects": {"model": {}}, "step": step, **state}
    receipt = store.write_part(checkpoint, rank=0, state=full, attributes={})
    part = Part(receipt.rank, receipt.file, receipt.bytes, receipt.checksum)
    journal.append(CheckpointCommitted(checkpoint, step, 1, SaveReason.PERIODIC, world_size, (part,), 0.1))
    return receipt.file


def find(journal: Journal, store: MemoryStore, *, ranks: Ranks | None = None, from_scratch: bool = False) -> Any:
    ranks = ranks or AloneRank()
    loading = PartLoading(store, rank=ranks.rank, world_size=ranks.world_size, alive=Layouts, may_change=False)
    resumption = Resumption(
        ranks=ranks,
        loading=loading,
        journal=journal,
        attempt=1,
        clock=FakeClock(),
        from_scratch=from_scratch,
    )
    return resumption.find(NAMES)


def test_a_run_without_checkpoints_starts_at_step_0_and_says_so(journal: Journal) -> None:
    assert find(journal, MemoryStore()) is None
    resumed = Chain.of(journal.read()).attempts[0].resumed
    assert resumed is not None
    assert (resumed.checkpoint, resumed.step) == (None, 0)


def test_the_newest_checkpoint_is_taken(journal: Journal) -> None:
    store = MemoryStore()
    for step in (10, 20):
        commit(journal, store, step)
    found = find(journal, store)
    assert (found.step, found.state["step"], found.finished) == (20, 20, False)


def test_damaged_ones_are_passed_over_and_the_manifest_remembers_them(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    store = MemoryStore()
    files = [commit(journal, store, step) for step in (10, 20, 30)]
    store.damaged = set(files[1:])
    assert find(journal, store).step == 10
    states = [checkpoint.state for checkpoint in Chain.of(journal.read()).checkpoints]
    assert states == [CheckpointState.LIVE, CheckpointState.DAMAGED, CheckpointState.DAMAGED]
    assert capsys.readouterr().err.count("going back to the one before") == 2


def test_when_all_are_damaged_only_a_word_from_the_user_starts_again(journal: Journal) -> None:
    store = MemoryStore()
    store.damaged = {commit(journal, store, 10)}
    with pytest.raises(NothingToResume, match="SLURM_RESILIENCE_FROM_SCRATCH=yes"):
        find(journal, store)
    assert find(journal, store, from_scratch=True) is None


def test_a_word_to_start_again_does_not_throw_away_what_can_be_loaded(journal: Journal) -> None:
    store = MemoryStore()
    commit(journal, store, 10)
    assert find(journal, store, from_scratch=True).step == 10


def test_what_is_in_quarantine_is_not_loaded_and_that_is_said(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    store = MemoryStore()
    for step in (10, 20):
        commit(journal, store, step)
    journal.append(CheckpointQuarantined(checkpoint_id(20, 1), 1, "two attempts died of it"))
    assert find(journal, store).step == 10
    assert "step-0000000020.a1 is in quarantine and not loaded: two attempts died of it" in capsys.readouterr().err


def test_a_run_whose_last_checkpoint_is_in_quarantine_needs_a_word_and_may_then_start_again(journal: Journal) -> None:
    store = MemoryStore()
    commit(journal, store, 10)
    journal.append(CheckpointQuarantined(checkpoint_id(10, 1), 1, "by a person"))
    with pytest.raises(NothingToResume, match=r"release one that is in quarantine \(step-0000000010\.a1\)"):
        find(journal, store)
    assert find(journal, store, from_scratch=True) is None
    journal.append(CheckpointReleased(checkpoint_id(10, 1)))
    assert find(journal, store).step == 10


def test_a_file_system_that_is_away_for_a_moment_is_waited_for(journal: Journal) -> None:
    store = MemoryStore()
    commit(journal, store, 10)
    store.unavailable_reads = 2
    assert find(journal, store).step == 10


def test_a_file_system_that_stays_away_is_no_damage(journal: Journal) -> None:
    store = MemoryStore()
    commit(journal, store, 10)
    store.unavailable_reads = 100
    with pytest.raises(CheckpointUnavailable, match="stale file handle"):
        find(journal, store)
    assert Chain.of(journal.read()).checkpoints[0].state is CheckpointState.LIVE


def test_other_ranks_other_objects_and_other_formats_are_refused_by_name(journal: Journal) -> None:
    store = MemoryStore()
    commit(journal, store, 10, world_size=4)
    with pytest.raises(CheckpointMismatch, match="written by 4 ranks and this attempt has 1"):
        find(journal, store)
    commit(journal, store, 20, objects={"model": {}, "ema": {}})
    with pytest.raises(CheckpointMismatch, match="in it and not registered: ema"):
        find(journal, store)
    commit(journal, store, 30, format=99)
    with pytest.raises(CheckpointUnsupported, match="format 99"):
        find(journal, store)
