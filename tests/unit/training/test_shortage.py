"""What a full disk is said to lack."""

from __future__ import annotations

import errno

import pytest

from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.training.shortage import Missing, Needs, NobodyKnows, RoomAgain, Shortage, shortage

NEEDS = Needs(100, 4)


@pytest.mark.parametrize(
    ("number", "needs", "room", "fooled", "expected"),
    [
        pytest.param(errno.ENOSPC, NEEDS, Room(30, None), False, Missing(70, 0), id="bytes"),
        pytest.param(errno.ENOSPC, NEEDS, Room(130, 1), False, Missing(0, 3), id="inodes"),
        pytest.param(
            errno.EDQUOT, NEEDS, Room(500, None, 60), False, Missing(40, 0), id="a quota that the kernel knows"
        ),
        pytest.param(errno.EDQUOT, NEEDS, Room(500, None), False, NobodyKnows(), id="a quota that nobody can ask for"),
        pytest.param(errno.ENOSPC, NEEDS, Room(100, 4), False, RoomAgain(), id="somebody else has made room"),
        pytest.param(errno.ENOSPC, NEEDS, Room(100, 4), True, NobodyKnows(), id="there was room the last time, too"),
        pytest.param(errno.ENOSPC, None, Room(100, 4), False, NobodyKnows(), id="nothing was ever saved"),
        pytest.param(errno.ENOSPC, NEEDS, None, False, NobodyKnows(), id="the file system doesn't answer"),
    ],
)
def test_what_is_missing_is_what_the_file_system_says_unless_that_has_been_wrong(
    number: int, needs: Needs | None, room: Room | None, fooled: bool, expected: Shortage
) -> None:
    assert shortage(number, needs, room, fooled=fooled) == expected
