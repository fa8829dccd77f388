"""What goes, and in which order, when a save meets a full disk; and what is said before it does."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.retention import Policy
from slurm_resilience.errors import CheckpointUnavailable
from slurm_resilience.manifest.records import (
    AttemptStarted,
    CheckpointForgotten,
    CheckpointId,
    CheckpointPinned,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.training.shortage import Needs
from tests.unit.training.small_disk import PART_BYTES, SAVE_BYTES, SmallDisk


def full_disk(folder: Path, *steps: int, keep_last: int = 3, keep_every: int | None = None) -> SmallDisk:
    disk = SmallDisk(folder, size_bytes=0, policy=Policy(keep_last, keep_every))
    for step in steps:
        disk.save(step)
    disk.size_bytes = len(steps) * PART_BYTES
    return disk


def test_what_a_dead_attempt_left_goes_first_and_then_no_checkpoint_needs_to(tmp_path: Path) -> None:
    disk = full_disk(tmp_path, 10, 20, 30)
    disk.write(checkpoint_id(40, 1), SAVE_BYTES)
    disk.write(checkpoint_id(40, 2))  # a save of ours in progress
    disk.size_bytes += SAVE_BYTES + PART_BYTES
    assert disk.maker.make_room(errno.ENOSPC)
    assert disk.deleted == [checkpoint_id(40, 1)]
    assert disk.live_steps() == [10, 20, 30]
    assert len(disk.said) == 1


def test_old_checkpoints_go_oldest_first_and_no_more_than_needed(tmp_path: Path) -> None:
    disk = full_disk(tmp_path, 10, 20, 30, 40)
    assert disk.maker.make_room(errno.ENOSPC, Needs(PART_BYTES, 1))
    assert disk.live_steps() == [20, 30, 40]


def test_the_manifest_has_forgotten_what_is_deleted_before_it_is(tmp_path: Path) -> None:
    class Watched(SmallDisk):
        def delete(self, checkpoint: str) -> None:
            assert checkpoint not in [checkpoint_id(step, 2) for step in self.live_steps()]
            super().delete(checkpoint)

    disk = Watched(tmp_path, size_bytes=0, policy=Policy(3))
    for step in (10, 20, 30):
        disk.save(step)
    assert not disk.maker.make_room(errno.ENOSPC)
    assert disk.live_steps() == [30]
    assert "nothing is left that may go" in disk.said[-1]


def test_milestones_and_pinned_ones_stay_whatever_the_disk_says(tmp_path: Path) -> None:
    disk = full_disk(tmp_path, 10, 20, 30, 40, 50, keep_every=20)
    disk.journal.append(CheckpointPinned(checkpoint_id(10, 2), "mine"))
    disk.size_bytes = 0
    assert not disk.maker.make_room(errno.ENOSPC)
    assert disk.live_steps() == [10, 20, 40, 50]


def test_a_pin_that_comes_meanwhile_is_heeded(tmp_path: Path) -> None:
    disk = full_disk(tmp_path, 10, 20, 30)
    disk.write(checkpoint_id(5, 1), 1)

    sweep = disk.delete

    def delete(checkpoint: str) -> None:
        if checkpoint == checkpoint_id(5, 1):
            disk.journal.append(CheckpointPinned(checkpoint_id(10, 2), "mine"))
        sweep(checkpoint)

    disk.delete = delete  # type: ignore[method-assign]
    assert disk.maker.make_room(errno.ENOSPC, Needs(PART_BYTES, 1))
    assert disk.live_steps() == [10, 30]


def test_what_was_forgotten_and_is_still_being_deleted_is_not_paid_for_twice(tmp_path: Path) -> None:
    disk = full_disk(tmp_path, 10, 20, 30)
    disk.journal.append(CheckpointForgotten(checkpoint_id(10, 2), "old"))
    assert disk.maker.make_room(errno.ENOSPC, Needs(PART_BYTES, 1))
    assert disk.live_steps() == [20, 30]


def test_the_ballast_goes_last_and_is_back_when_there_is_room_again(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, size_bytes=9 * PART_BYTES, policy=Policy(1), cap_bytes=1 << 30)
    disk.save(10)
    disk.ahead.after_commit()
    disk.ballast.wait()
    assert disk.ballast.held_bytes() == PART_BYTES
    disk.size_bytes = 2 * PART_BYTES
    assert disk.maker.make_room(errno.ENOSPC, Needs(PART_BYTES, 1))
    assert disk.ballast.held_bytes() == 0
    assert disk.live_steps() == [10]
    disk.ahead.after_commit()
    disk.ballast.wait()
    assert disk.ballast.held_bytes() == 0, "the next save comes first"
    disk.size_bytes = 9 * PART_BYTES
    disk.ahead.after_commit()
    disk.ballast.wait()
    assert disk.ballast.held_bytes() == PART_BYTES
    disk.save(20, SaveReason.FINAL)
    disk.ahead.after_commit()
    assert disk.ballast.held_bytes() == 0, "nothing will be saved any more"


def test_a_ballast_that_nobody_wants_any_more_is_given_back(tmp_path: Path) -> None:
    for cap_bytes, held_bytes in ((1 << 30, PART_BYTES), (0, 0)):
        disk = SmallDisk(tmp_path, size_bytes=9 * PART_BYTES, policy=Policy(1), cap_bytes=cap_bytes)
        disk.save(10)
        disk.ahead.begin(None)
        disk.ahead.after_commit()
        disk.ballast.wait()
        assert disk.ballast.held_bytes() == held_bytes


def test_a_checkpoint_that_could_not_be_forgotten_is_asked_for_again_when_something_else_has_gone(
    tmp_path: Path,
) -> None:
    disk = SmallDisk(tmp_path, size_bytes=9 * PART_BYTES, policy=Policy(3), cap_bytes=PART_BYTES // 2)
    for step in (10, 20):
        disk.save(step)
    disk.ahead.after_commit()
    disk.ballast.wait()
    disk.size_bytes = 2 * PART_BYTES + PART_BYTES // 2
    disk.run.lock.unlink()
    disk.run.lock.mkdir()  # the manifest can be read, and not written
    release = disk.ballast.release

    def released() -> None:
        disk.run.lock.rmdir()
        release()

    disk.ballast.release = released  # type: ignore[method-assign]
    assert disk.maker.make_room(errno.ENOSPC, Needs(PART_BYTES, 1))
    assert disk.live_steps() == [20]


@pytest.mark.parametrize("number", [None, errno.EIO, errno.ESTALE])
def test_other_refusals_cost_nothing(tmp_path: Path, number: int | None) -> None:
    disk = full_disk(tmp_path, 10, 20, 30)
    assert not disk.maker.make_room(number)
    assert disk.live_steps() == [10, 20, 30]
    assert disk.said == []


def test_a_ghost_makes_no_room(tmp_path: Path) -> None:
    disk = full_disk(tmp_path, 10, 20, 30)
    disk.journal.append(AttemptStarted(3, "local", (), "host"))
    assert not disk.maker.make_room(errno.ENOSPC)
    assert disk.live_steps() == [10, 20, 30]


def test_a_quota_that_nobody_can_ask_for_is_given_one_checkpoint_a_try(tmp_path: Path) -> None:
    disk = full_disk(tmp_path, 10, 20, 30)
    disk.size_bytes = 1 << 40
    assert disk.maker.make_room(errno.EDQUOT)
    assert disk.live_steps() == [20, 30]
    assert disk.maker.make_room(errno.EDQUOT)
    assert disk.live_steps() == [30]


def test_a_disk_that_has_room_again_is_believed_once(tmp_path: Path) -> None:
    disk = full_disk(tmp_path, 10, 20, 30)
    disk.size_bytes = 1 << 40
    assert disk.maker.make_room(errno.ENOSPC)
    assert disk.live_steps() == [10, 20, 30]
    assert disk.maker.make_room(errno.ENOSPC)
    assert disk.live_steps() == [20, 30]


def test_what_cannot_be_deleted_costs_its_own_step_only(tmp_path: Path) -> None:
    class Stubborn(SmallDisk):
        def delete(self, checkpoint: str) -> None:
            if checkpoint == checkpoint_id(5, 1):
                raise CheckpointUnavailable("stale file handle")
            super().delete(checkpoint)

    disk = Stubborn(tmp_path, size_bytes=0, policy=Policy(3))
    disk.write(CheckpointId(checkpoint_id(5, 1)))
    for step in (10, 20):
        disk.save(step)
    disk.size_bytes = 3 * PART_BYTES
    assert disk.maker.make_room(errno.ENOSPC, Needs(PART_BYTES, 1))
    assert disk.said[0].endswith("failed: stale file handle")
    assert disk.live_steps() == [20]


def test_a_warning_comes_when_the_outlook_changes_and_not_again_before_that(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, size_bytes=0, policy=Policy(2))
    disk.size_bytes = 3 * SAVE_BYTES  # what keep_last=2 needs
    disk.ahead.begin(Needs(PART_BYTES, 2))
    assert disk.said == []
    disk.save(10)
    disk.ahead.after_commit()
    assert disk.said == []
    disk.size_bytes = 2 * SAVE_BYTES
    for _ in range(2):
        disk.ahead.after_commit()
    assert [("the next checkpoint fits, not 2" in sentence) for sentence in disk.said] == [True]
    disk.size_bytes = SAVE_BYTES
    for _ in range(2):
        disk.ahead.after_commit()
    assert "the next checkpoint doesn't fit" in disk.said[-1]
    assert len(disk.said) == 2


def test_what_retention_is_about_to_free_is_no_reason_to_warn(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, size_bytes=0, policy=Policy(2))
    for step in (10, 20, 30):  # the first is forgotten after this look
        disk.save(step)
    disk.size_bytes = 3 * SAVE_BYTES
    disk.ahead.after_commit()
    assert disk.said == []


def test_before_anything_is_known_of_its_size_nothing_is_said(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, size_bytes=0, policy=Policy(2))
    disk.ahead.begin(None)
    assert disk.said == []
    disk.ahead.begin(Needs(1, 1))
    assert "doesn't fit" in disk.said[0]
