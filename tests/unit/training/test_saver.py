"""A checkpoint comes into being when every part is durable and the manifest says so, and not otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.errors import CheckpointUnavailable, CheckpointUnsupported, Fenced
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptStarted, SaveReason
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.ranks import Ranks
from slurm_resilience.training.saver import NotSaved, NotWritten, Saved, Saver, Written
from tests.unit.training.fakes import FakeClock, MemoryStore, TwoRanks


def receipt_of_rank_1(said: Any) -> Any:
    if isinstance(said, Written):
        return Written(replace(said.receipt, rank=1, file=said.receipt.file.replace("rank-0", "rank-1")))
    return said


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(RunDirectory(tmp_path / "run"))
    journal.create("test")
    journal.append(AttemptStarted(1, "local", (), "host"))
    return journal


def make_saver(
    journal: Journal, store: MemoryStore, ranks: Ranks | None = None, committed: Callable[[], None] = lambda: None
) -> Saver:
    return Saver(
        ranks=ranks or TwoRanks(receipt_of_rank_1),
        store=store,
        journal=journal,
        attempt=1,
        clock=FakeClock(),
        after_commit=committed,
    )


def failing(times: int) -> Callable[[], None]:
    left = [times]

    def refuse() -> None:
        if left[0] > 0:
            left[0] -= 1
            raise CheckpointUnavailable("no space left on device")

    return refuse


def test_a_saved_checkpoint_is_in_the_manifest_with_every_rank_s_part(journal: Journal) -> None:
    told: list[int] = []
    saved = make_saver(journal, MemoryStore(), committed=lambda: told.append(1)).save(7, SaveReason.STOP, {"a": 1})
    assert isinstance(saved, Saved)
    committed = Chain.of(journal.read()).loadable()[0].committed
    assert (committed.step, committed.reason, committed.world_size) == (7, SaveReason.STOP, 2)
    assert [part.rank for part in committed.parts] == [0, 1]
    assert told == [1]


def test_when_one_rank_could_not_write_there_is_no_checkpoint_and_nothing_is_left_of_it(journal: Journal) -> None:
    store = MemoryStore()
    ranks = TwoRanks(lambda said: NotWritten(1, "rank 1: disk full", "unavailable"))
    outcome = make_saver(journal, store, ranks).save(7, SaveReason.PERIODIC, {})
    assert outcome == NotSaved("rank 1: disk full")
    chain = Chain.of(journal.read())
    assert not chain.checkpoints
    assert [failed.step for failed in chain.attempts[0].saves_failed] == [7]
    assert not store.parts


def test_a_value_that_can_not_be_kept_is_an_error_on_all_ranks(journal: Journal) -> None:
    ranks = TwoRanks(lambda said: NotWritten(1, "rank 1: objects/x is a generator", "unsupported"))
    with pytest.raises(CheckpointUnsupported, match="rank 1: objects/x"):
        make_saver(journal, MemoryStore(), ranks).save(7, SaveReason.PERIODIC, {})


def test_an_attempt_that_has_a_successor_commits_nothing(journal: Journal) -> None:
    journal.append(AttemptStarted(2, "local", (), "host"))
    store = MemoryStore()
    with pytest.raises(Fenced) as fenced:
        make_saver(journal, store).save(7, SaveReason.PERIODIC, {})
    assert (fenced.value.mine, fenced.value.newest) == (1, 2)
    assert not store.parts


@pytest.mark.parametrize(
    ("failures", "seconds", "saved"),
    [(0, 0, True), (1, 60, True), (4, 60, True), (1, 1, False), (10**6, 60, False), (10**6, 10**9, False)],
)
def test_before_a_deadline_saving_is_tried_again_as_long_as_it_fits(
    journal: Journal, failures: int, seconds: float, saved: bool
) -> None:
    saver = make_saver(journal, MemoryStore(failing(failures)))
    outcome = saver.save_until(7, SaveReason.STOP, {}, deadline_s=1000.0 + seconds)
    assert isinstance(outcome, Saved) is saved


def test_a_manifest_that_is_not_available_for_now_fails_the_save_and_leaves_the_parts(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    saver = make_saver(journal, store)
    lock = journal.run.lock
    lock.unlink(missing_ok=True)
    lock.mkdir()  # nobody can open it for locking
    outcome = saver.save(7, SaveReason.PERIODIC, {})
    assert isinstance(outcome, NotSaved)
    assert store.parts, "nobody can say that the line isn't there, so the parts stay"


def test_what_an_earlier_try_has_committed_stays_when_a_later_one_fails(journal: Journal) -> None:
    store = MemoryStore()
    saver = make_saver(journal, store)
    saver.save(7, SaveReason.PERIODIC, {"a": 1})
    store.refuse = failing(1)
    assert isinstance(saver.save(7, SaveReason.STOP, {"a": 1}), NotSaved)
    assert len(store.parts) == 1
    assert not store.deleted
