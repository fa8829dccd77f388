from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.disk.kernel import allocate
from slurm_resilience.checkpoint.space import reservation
from slurm_resilience.checkpoint.space.ballast import (
    BALLAST,
    Ballast,
    NotRestored,
    Restored,
    ballast_bytes,
)
from slurm_resilience.checkpoint.space.room import Room

MIB = 1 << 20
PLENTY = Room(1 << 40, None)


def no_fallocate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation, "allocate", lambda *_: None)


@pytest.mark.parametrize("written", [False, True], ids=["allocated", "written"])
def test_the_ballast_consists_of_real_blocks(written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if written:
        no_fallocate(monkeypatch)
    ballast = Ballast(tmp_path / "checkpoints")
    assert ballast.held_bytes() == 0
    assert ballast.restore(3 * MIB, PLENTY, spare_bytes=0) == Restored(3 * MIB)
    status = (tmp_path / "checkpoints" / BALLAST).stat()
    assert status.st_blocks * 512 >= 3 * MIB
    assert ballast.restore(2 * MIB, PLENTY, spare_bytes=0) == Restored(3 * MIB)  # enough is enough


def test_releasing_gives_all_back_and_twice_is_harmless(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path)
    ballast.restore(2 * MIB, PLENTY, spare_bytes=0)
    assert ballast.release() == 2 * MIB
    assert list(tmp_path.iterdir()) == []
    assert ballast.release() == 0


def test_blocks_come_back_even_where_somebody_holds_the_file_open(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path)
    ballast.restore(2 * MIB, PLENTY, spare_bytes=0)
    with (tmp_path / BALLAST).open("rb") as file:
        ballast.release()
        assert os.fstat(file.fileno()).st_blocks == 0


def test_a_ballast_never_takes_the_room_of_the_next_save(tmp_path: Path) -> None:
    outcome = Ballast(tmp_path).restore(2 * MIB, Room(5 * MIB, None), spare_bytes=4 * MIB)
    assert isinstance(outcome, NotRestored)
    assert "the next save takes 4194304" in outcome.why
    assert list(tmp_path.iterdir()) == []


def test_a_length_without_blocks_is_no_ballast(tmp_path: Path) -> None:
    with (tmp_path / BALLAST).open("wb") as file:
        file.truncate(4 * MIB)
    ballast = Ballast(tmp_path)
    assert ballast.held_bytes() == 0
    assert ballast.restore(4 * MIB, PLENTY, spare_bytes=0) == Restored(4 * MIB)


def test_a_full_disk_half_way_releases_what_was_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_fallocate(monkeypatch)
    real = os.pwrite

    def refuse(descriptor: int, piece: memoryview, offset: int) -> int:
        if offset >= MIB:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, piece, offset)

    monkeypatch.setattr(os, "pwrite", refuse)
    outcome = Ballast(tmp_path).restore(3 * MIB, PLENTY, spare_bytes=0)
    assert isinstance(outcome, NotRestored)
    assert "No space left" in outcome.why
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_is_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_fallocate(monkeypatch)
    answers = iter([False, True])
    ballast = Ballast(tmp_path)
    outcome = ballast.restore(3 * MIB, PLENTY, spare_bytes=0, stop=lambda: next(answers))
    assert outcome == NotRestored(f"{MIB} of {3 * MIB} bytes are real so far")
    offsets: list[int] = []
    real = os.pwrite

    def note(descriptor: int, piece: memoryview, offset: int) -> int:
        offsets.append(offset)
        return real(descriptor, piece, offset)

    monkeypatch.setattr(os, "pwrite", note)
    assert ballast.restore(3 * MIB, PLENTY, spare_bytes=0) == Restored(3 * MIB)
    assert offsets == [MIB, 2 * MIB]


def test_the_ballast_is_one_checkpoint_up_to_a_cap() -> None:
    assert ballast_bytes(3 * MIB) == 3 * MIB
    assert ballast_bytes(1 << 40) == 4 << 30
    assert ballast_bytes(3 * MIB, cap_bytes=0) == 0


def test_a_ballast_of_nothing_touches_nothing(tmp_path: Path) -> None:
    assert Ballast(tmp_path / "none").restore(0, PLENTY, spare_bytes=0) == Restored(0)
    assert list(tmp_path.iterdir()) == []


def test_where_the_file_system_allocates_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "probe").open("wb") as file:
        allocate(file.fileno(), MIB)
        if os.fstat(file.fileno()).st_blocks * 512 < MIB:
            pytest.skip("this file system can't allocate")
    monkeypatch.setattr(os, "pwrite", lambda *_: pytest.fail("it was written"))
    assert Ballast(tmp_path).restore(2 * MIB, PLENTY, spare_bytes=0) == Restored(2 * MIB)
