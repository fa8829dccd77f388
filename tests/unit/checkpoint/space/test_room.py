from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.space.quota import QuotaLeft, quota_left
from slurm_resilience.checkpoint.space.room import Room, room

USER, GROUP = 0, 1
NOWHERE = Path("/proc/self/no/such/folder")


def answer(*, hard: int = 0, soft: int = 0, used: int = 0, inodes_hard: int = 0, inodes_used: int = 0) -> bytes:
    """A struct if_dqblk: block limits in KiB, usage in bytes."""
    return struct.pack("=8QI4x", hard, soft, used, inodes_hard, 0, inodes_used, 0, 0, 63)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param({}, QuotaLeft(None, None), id="nobody answers"),
        pytest.param({USER: answer(used=5000)}, QuotaLeft(None, None), id="usage without a limit limits nothing"),
        pytest.param(
            {USER: answer(hard=10, used=240)}, QuotaLeft(10_000, None), id="limits are in KiB, usage in bytes"
        ),
        pytest.param({USER: answer(soft=10)}, QuotaLeft(10_240, None), id="a soft limit alone counts"),
        pytest.param(
            {USER: answer(soft=10, hard=20)}, QuotaLeft(20_480, None), id="beyond the soft one, up to the hard"
        ),
        pytest.param({USER: answer(hard=1, used=5000)}, QuotaLeft(0, None), id="never less than nothing"),
        pytest.param({USER: answer(hard=9), GROUP: answer(hard=8)}, QuotaLeft(8192, None), id="the narrower of two"),
        pytest.param({GROUP: answer(inodes_hard=10, inodes_used=8)}, QuotaLeft(None, 2), id="files are counted, too"),
    ],
)
def test_what_a_quota_leaves(answers: dict[int, bytes], expected: QuotaLeft, tmp_path: Path) -> None:
    assert quota_left(tmp_path, lambda _, kind, __: answers.get(kind)) == expected


def test_new_files_in_a_setgid_folder_count_for_the_group_of_the_folder(tmp_path: Path) -> None:
    asked = {}

    def ask(_: int, kind: int, id_: int) -> None:
        asked[kind] = id_

    quota_left(tmp_path, ask)
    assert asked == {USER: os.geteuid(), GROUP: os.getegid()}
    if os.geteuid() == 0:
        os.chown(tmp_path, -1, 54321)
        tmp_path.chmod(0o2755)
        quota_left(tmp_path, ask)
        assert asked[GROUP] == 54321


def test_a_quota_that_cannot_be_asked_for_is_no_error() -> None:
    assert quota_left(NOWHERE) == QuotaLeft(None, None)
    assert isinstance(quota_left(Path("/tmp")), QuotaLeft)


def test_the_room_is_that_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    here = room(tmp_path)
    there = room(tmp_path / "not" / "yet")
    assert here.free_bytes > 0
    assert abs(there.free_bytes - here.free_bytes) < 1 << 30
    assert room(Path("/proc")).free_inodes is None or room(Path("/proc")).free_inodes == 0


def test_the_narrower_of_space_and_quota_counts() -> None:
    assert Room(100, None, None).bytes == 100
    assert Room(100, None, 40).bytes == 40
    assert Room(100, None, 400).bytes == 100
