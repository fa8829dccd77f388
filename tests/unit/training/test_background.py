"""Saves in flight, as the boundaries see them, with a writer that does what the test says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.commit.part_word import PartRefused, Terms, hear
from slurm_resilience.errors import CheckpointUnavailable, Fenced
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptStarted,
    CheckpointCommitted,
    CheckpointId,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.stop_request import StopReason
from slurm_resilience.training.background import BackgroundSaver, PartDone, PartFailed
from slurm_resilience.training.outcome import NotSaved, Saved
from slurm_resilience.training.ranks import AloneRank
from slurm_resilience.training.savers import Savers
from slurm_resilience.training.stop_source import Stopped
from tests.unit.training.fakes import FakeClock
from tests.unit.training.test_boundary import Bench
from tests.unit.training.thread_ranks import ThreadRanks, on_ranks


class Writer:
    """Commits by itself when it is done, as rank 0's does."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.outcome: PartDone | PartFailed | None = None
        self.refuses: CheckpointUnavailable | None = None
        self.begun: list[Terms] = []
        self.settled_as: list[bool] = []

    def begin(self, checkpoint: CheckpointId, state: Mapping[str, Any], terms: Terms, *, began_s: float) -> float:
        if self.refuses is not None:
            raise self.refuses
        self.begun.append(terms)
        return 0.25

    def done(self) -> None:
        terms = self.begun[-1]
        record = CheckpointCommitted(terms.checkpoint, terms.step, terms.attempt, terms.reason, 1, (), 1.0)
        self.journal.append(record, fence=terms.attempt)
        self.outcome = PartDone(1.0)

    def poll(self) -> PartDone | PartFailed | None:
        return self.outcome

    def wait(self, timeout_s: float) -> PartDone | PartFailed | None:
        if self.outcome is None and math.isinf(timeout_s):
            self.done()
        return self.outcome

    def settled(self, *, saved: bool) -> None:
        self.settled_as.append(saved)
        self.outcome = None

    def close(self) -> None: ...


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, None)


def in_background(bench: Bench) -> Writer:
    writer = Writer(bench.journal)
    background = BackgroundSaver(
        ranks=AloneRank(),
        run=bench.journal.run,
        journal=bench.journal,
        attempt=1,
        clock=bench.clock,
        writing=writer,
        after_commit=lambda: None,
        remove=bench.store.delete,
    )
    bench.boundary._background = Savers(bench.boundary._saver, background).background
    return writer


def step(bench: Bench, number: int, *, save: bool = False) -> None:
    bench.cursor.step = number
    bench.boundary.save_asked = bench.boundary.save_asked or save
    bench.boundary.cross(ending=False)


def test_the_training_goes_on_while_a_save_is_in_flight_and_hears_of_its_end(bench: Bench) -> None:
    writer = in_background(bench)
    step(bench, 5, save=True)
    step(bench, 6)
    assert bench.saved_steps() == []
    writer.done()
    step(bench, 7)
    assert (bench.saved_steps(), writer.settled_as) == ([5], [True])
    assert [terms.step for terms in writer.begun] == [5]


def test_what_is_asked_for_meanwhile_comes_when_the_first_is_done(bench: Bench) -> None:
    writer = in_background(bench)
    step(bench, 5, save=True)
    step(bench, 6, save=True)
    step(bench, 7)
    assert [terms.step for terms in writer.begun] == [5]
    writer.done()
    step(bench, 8)
    assert [terms.step for terms in writer.begun] == [5, 8]


def test_a_failed_save_in_the_background_is_told_and_the_training_goes_on(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = in_background(bench)
    step(bench, 5, save=True)
    writer.outcome = PartFailed("the checkpoint writer was killed by SIGKILL")
    step(bench, 6)
    assert writer.settled_as == [False]
    assert [failed.step for failed in Chain.of(bench.journal.read()).attempts[0].saves_failed] == [5]
    assert "going on without it" in capsys.readouterr().err
    word = hear(bench.journal.run.checkpoints / checkpoint_id(5, 1), 0)
    assert isinstance(word, PartRefused)


def test_a_snapshot_that_can_not_be_taken_is_a_failed_save(bench: Bench) -> None:
    writer = in_background(bench)
    writer.refuses = CheckpointUnavailable("no memory for a snapshot")
    step(bench, 5, save=True)
    step(bench, 6)
    assert [failed.step for failed in Chain.of(bench.journal.read()).attempts[0].saves_failed] == [5]


def test_a_stop_waits_for_the_save_of_its_own_step_and_makes_no_second_one(bench: Bench) -> None:
    in_background(bench)
    step(bench, 5, save=True)
    bench.stop.reason = StopReason.WARNING
    with pytest.raises(Stopped):
        bench.boundary.cross(ending=False)
    assert bench.saved_steps() == [5]
    assert bench.store.parts == {}


def test_a_stop_at_a_later_step_saves_that_one_too(bench: Bench) -> None:
    in_background(bench)
    step(bench, 5, save=True)
    bench.stop.reason = StopReason.WARNING
    bench.cursor.step = 6
    with pytest.raises(Stopped):
        bench.boundary.cross(ending=False)
    assert bench.saved_steps() == [5, 6]


@pytest.mark.parametrize(("stopped_at", "written_by_the_rank"), [(5, 0), (6, 1)])
def test_files_that_a_late_writer_has_in_hand_are_not_written_by_another(
    bench: Bench, stopped_at: int, written_by_the_rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_background(bench)
    step(bench, 5, save=True)
    bench.stop.reason = StopReason.WARNING
    bench.cursor.step = stopped_at
    monkeypatch.setattr(bench.stop, "seconds", 3.0, raising=False)
    deadline = bench.clock.time_s + 3.0
    original = bench.stop.read

    def soon() -> Any:
        request = original()
        return None if request is None else type(request)(request.reason, request.because, 0.0, deadline)

    monkeypatch.setattr(bench.stop, "read", soon)
    with pytest.raises(Stopped):
        bench.boundary.cross(ending=False)
    assert len(bench.store.parts) == written_by_the_rank


def test_all_ranks_hear_the_same_and_the_one_that_failed_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Journal(RunDirectory(tmp_path))
    journal.create("test")
    journal.append(AttemptStarted(1, "local", (), "host"))

    def program(ranks: ThreadRanks) -> Saved | NotSaved:
        writer = Writer(journal)
        saver = BackgroundSaver(
            ranks=ranks,
            run=journal.run,
            journal=journal,
            attempt=1,
            clock=FakeClock(),
            writing=writer,
            after_commit=lambda: None,
            remove=lambda _: None,
        )
        saver.begin(5, SaveReason.PERIODIC, {})
        writer.outcome = PartFailed("no space left on device" if ranks.rank == 1 else "nobody commits it")
        return saver.finish()

    answers = on_ranks(2, program)
    assert answers[0] == answers[1] == NotSaved("rank 1: no space left on device")
    assert "rank 1: no space left on device" in capsys.readouterr().err


def test_a_ghost_learns_from_its_failed_save_that_it_is_one(bench: Bench) -> None:
    writer = in_background(bench)
    step(bench, 5, save=True)
    bench.journal.append(AttemptStarted(2, "local", (), "host"))
    writer.outcome = PartFailed("attempt 1 may not write any more")
    with pytest.raises(Fenced):
        step(bench, 6)


def test_what_a_writer_has_committed_before_it_died_is_saved(bench: Bench) -> None:
    writer = in_background(bench)
    step(bench, 5, save=True)
    writer.done()
    writer.outcome = PartFailed("the checkpoint writer was killed by SIGKILL")
    step(bench, 6)
    assert (bench.saved_steps(), writer.settled_as) == ([5], [True])
    assert not Chain.of(bench.journal.read()).attempts[0].saves_failed
