"""What savers do about refusals: make room, and go elsewhere with what can't wait."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.commit.part_word import PartRefused, Terms, hear
from slurm_resilience.errors import CheckpointUnavailable
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptStarted, CheckpointId, SaveReason, checkpoint_id
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.background import BackgroundSaver, PartDone, PartFailed
from slurm_resilience.training.ranks import AloneRank
from slurm_resilience.training.rescue import Rescue
from slurm_resilience.training.saver import NotSaved, Saved, Saver
from slurm_resilience.training.second_place import SecondPlace
from tests.unit.training.fakes import FakeClock, MemoryStore


class Rooms:
    """Stands for rank 0's RoomMaker."""

    def __init__(self) -> None:
        self.asked: list[int | None] = []

    def make_room(self, number: int | None) -> bool:
        self.asked.append(number)
        return True

    def saved(self) -> None: ...


class RefusedWriting:
    """Stands for a writer process that meets a full disk, so often."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.begun: list[CheckpointId] = []

    def begin(self, checkpoint: CheckpointId, state: Mapping[str, Any], terms: Terms, *, began_s: float) -> float:
        self.begun.append(checkpoint)
        return 0.0

    def poll(self) -> PartDone | PartFailed | None:
        self.failures -= 1
        return PartDone(1.0) if self.failures < 0 else PartFailed("no space left on device", errno.ENOSPC)

    def wait(self, timeout_s: float) -> PartDone | PartFailed | None:
        return self.poll()

    def settled(self, *, saved: bool) -> None: ...

    def close(self) -> None: ...


class Scene:
    def __init__(self, folder: Path, *, second: bool = True) -> None:
        self.run = RunDirectory(folder / "run")
        self.journal = Journal(self.run)
        run_id = self.journal.create("test")
        self.journal.append(AttemptStarted(1, "local", (), "host"))
        self.clock = FakeClock()
        self.rooms = Rooms()
        ranks = AloneRank()
        self.place = folder / "second"
        self.place.mkdir()
        there = SecondPlace(self.place, run_id=run_id, ranks=ranks, journal=self.journal, attempt=1, clock=self.clock)
        self.staged_store = Hdf5Store(self.place / run_id)
        self.rescue = Rescue(ranks, self.clock, room=self.rooms, second=there if second else None)  # type: ignore[arg-type]

    def saver(self, refuse: Callable[[], None]) -> Saver:
        return Saver(
            ranks=AloneRank(),
            store=MemoryStore(refuse),
            journal=self.journal,
            attempt=1,
            clock=self.clock,
            after_commit=lambda: None,
            rescue=self.rescue,
        )

    def background(self, writing: RefusedWriting) -> BackgroundSaver:
        return BackgroundSaver(
            ranks=AloneRank(),
            run=self.run,
            journal=self.journal,
            attempt=1,
            clock=self.clock,
            writing=writing,
            after_commit=lambda: None,
            remove=lambda checkpoint: None,
            rescue=self.rescue,
        )

    def staged(self) -> list[str]:
        """What the manifest says of what isn't durable, and what is there."""
        told = [each.record.checkpoint for each in Chain.of(self.journal.read()).staged if not each.durable]
        assert self.staged_store.found_on_disk() == told
        return list(told)


def refusing(number: int, times: int = 10**6) -> Callable[[], None]:
    left = [times]

    def refuse() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise CheckpointUnavailable("no") from OSError(number, "no")

    return refuse


def test_room_is_made_before_the_next_try(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    saver = scene.saver(refusing(errno.ENOSPC, times=1))
    assert saver.save(7, SaveReason.PERIODIC, {}) == NotSaved("rank 0: no", errno.ENOSPC)
    assert scene.rooms.asked == [errno.ENOSPC]
    assert isinstance(saver.save(7, SaveReason.PERIODIC, {}), Saved)


def test_for_other_refusals_no_room_is_made(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.saver(refusing(errno.EIO)).save(7, SaveReason.PERIODIC, {})
    assert scene.rooms.asked == []


@pytest.mark.parametrize("reason", [SaveReason.STOP, SaveReason.FINAL])
@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_last_save_that_is_refused_is_staged_and_tried_here_as_long_as_there_is_time(
    tmp_path: Path, reason: SaveReason, seconds: float
) -> None:
    scene = Scene(tmp_path)
    deadline_s = scene.clock.monotonic_s() + seconds
    outcome = scene.saver(refusing(errno.EROFS)).save_until(7, reason, {"a": 1}, deadline_s=deadline_s)
    assert isinstance(outcome, NotSaved)
    assert outcome.staged == scene.place
    assert str(scene.place) in outcome.why
    assert scene.staged() == [checkpoint_id(7, 1, final=reason is SaveReason.FINAL)]
    assert scene.clock.monotonic_s() > deadline_s - 40


def test_a_last_save_that_succeeds_after_it_was_staged_is_durable_and_nothing_else(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    saver = scene.saver(refusing(errno.EIO, times=4))
    outcome = saver.save_until(7, SaveReason.STOP, {"a": 1}, deadline_s=scene.clock.monotonic_s() + 600)
    assert isinstance(outcome, Saved)
    assert scene.staged() == []


def test_without_a_second_place_a_refused_last_save_is_told_and_that_is_all(tmp_path: Path) -> None:
    scene = Scene(tmp_path, second=False)
    outcome = scene.saver(refusing(errno.EROFS)).save_until(7, SaveReason.STOP, {}, deadline_s=0)
    assert outcome == NotSaved("rank 0: no", errno.EROFS)


def test_a_periodic_save_is_staged_after_two_failures_in_a_row(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    saver = scene.saver(refusing(errno.EIO, times=3))
    outcomes = [saver.save(7, SaveReason.PERIODIC, {}) for _ in range(2)]
    assert [each.staged for each in outcomes if isinstance(each, NotSaved)] == [None, scene.place]
    assert scene.staged() == [checkpoint_id(7, 1)]
    assert isinstance(saver.save(8, SaveReason.PERIODIC, {}), NotSaved)
    assert isinstance(saver.save(8, SaveReason.PERIODIC, {}), Saved)
    assert scene.staged() == []


def test_periodic_saves_go_to_the_second_place_for_a_small_part_of_the_time_only(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    saver = scene.saver(refusing(errno.EIO))
    began_s = scene.clock.monotonic_s()
    steps = [step for step in range(100) if _is_staged(saver.save(step, SaveReason.PERIODIC, {}))]
    took_s = scene.clock.monotonic_s() - began_s
    assert 2 <= len(steps) < took_s / 0.01, "staging takes a few looks at the clock, 0.001 s each"
    assert scene.staged() == [checkpoint_id(steps[-1], 1)]


def _is_staged(outcome: Saved | NotSaved) -> bool:
    return isinstance(outcome, NotSaved) and outcome.staged is not None


def test_in_the_background_the_third_state_is_staged_and_the_writer_left_alone(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    writing = RefusedWriting(failures=2)
    saver = scene.background(writing)
    outcomes = []
    for step in (10, 20, 30, 40):
        saver.begin(step, SaveReason.PERIODIC, {"step": step})
        assert saver.done_here()
        assert saver.step == step
        outcomes.append(saver.finish())
        if step == 30:
            assert scene.staged() == [checkpoint_id(30, 1)]
    assert [_is_staged(each) for each in outcomes] == [False, False, True, False]
    assert isinstance(outcomes[-1], Saved)
    assert writing.begun == [checkpoint_id(step, 1) for step in (10, 20, 40)]
    assert scene.rooms.asked == [errno.ENOSPC, errno.ENOSPC]
    assert scene.staged() == []


def test_a_second_place_that_refuses_too_leaves_the_state_to_the_writer(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.place.rmdir()
    writing = RefusedWriting(failures=2)
    saver = scene.background(writing)
    outcomes = []
    for step in (10, 20, 30):
        saver.begin(step, SaveReason.PERIODIC, {})
        outcomes.append(saver.finish())
    assert isinstance(outcomes[-1], Saved)


def test_what_a_rank_says_of_its_refusal_carries_the_errno(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    saver = scene.background(RefusedWriting(failures=1))
    saver.begin(10, SaveReason.PERIODIC, {})
    assert saver.done_here()
    name = checkpoint_id(10, 1)
    assert hear(scene.run.checkpoints / name, 0) == PartRefused(name, 0, "no space left on device", errno.ENOSPC)
    assert saver.finish() == NotSaved("rank 0: no space left on device", errno.ENOSPC)
