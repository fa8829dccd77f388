from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.space import reservation
from slurm_resilience.checkpoint.space.ballast import Ballast, NotRestored, Restored
from slurm_resilience.checkpoint.space.ballast_keeper import BallastKeeper
from slurm_resilience.checkpoint.space.leftovers import Found
from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.checkpoint.space.survey import folders_of

MIB = 1 << 20


def plenty() -> Room:
    return Room(1 << 40, None)


def test_the_keeper_restores_beside_and_releases_at_once(tmp_path: Path) -> None:
    keeper = BallastKeeper(Ballast(tmp_path), room=plenty)
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    keeper.keep(2 * MIB, spare_bytes=0)
    keeper.wait()
    assert keeper.outcome == Restored(2 * MIB)
    assert os.getpriority(os.PRIO_PROCESS, 0) == priority
    assert keeper.release() == 2 * MIB
    keeper.keep(MIB, spare_bytes=0)
    keeper.wait()
    assert Ballast(tmp_path).held_bytes() == MIB


def test_a_release_stops_a_restoring_that_is_still_going_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation, "allocate", lambda *_: None)
    keeper = BallastKeeper(Ballast(tmp_path), room=plenty)
    keeper.keep(1 << 40, spare_bytes=-(1 << 40))  # it would take hours
    keeper.keep(1 << 40, spare_bytes=0)  # and is going on already
    keeper.release()
    assert list(tmp_path.iterdir()) == []
    assert isinstance(keeper.outcome, NotRestored)


def test_where_nobody_knows_the_room_nothing_is_taken(tmp_path: Path) -> None:
    def stale() -> Room:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    keeper = BallastKeeper(Ballast(tmp_path), room=stale)
    keeper.keep(MIB, spare_bytes=0)
    keeper.wait()
    assert isinstance(keeper.outcome, NotRestored)
    assert list(tmp_path.iterdir()) == []


def test_folders_are_found_with_the_bytes_in_them(tmp_path: Path) -> None:
    assert folders_of(tmp_path / "none") == []
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "deeper").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(bytes(10))
    (tmp_path / "a" / ".two.tmp").write_bytes(bytes(5))
    (tmp_path / "a" / "link").symlink_to("one")
    (tmp_path / "file").write_bytes(b"x")
    assert folders_of(tmp_path) == [Found("a", 15), Found("b", 0)]
