"""What a refusal for want of room means, held against what the file system says. Pure."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Union

from slurm_resilience.checkpoint.space.room import Room


@dataclass(frozen=True, slots=True)
class Needs:
    """Of one save, all ranks together."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Missing:
    """So much more has to be free."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class RoomAgain:
    """The save would fit now."""


@dataclass(frozen=True, slots=True)
class NobodyKnows:
    """A limit that can't be asked for: only another try tells whether it is enough."""


Shortage = Union[Missing, RoomAgain, NobodyKnows]


def shortage(number: int, needs: Needs | None, room: Room | None, *, fooled: bool) -> Shortage:
    """A save that takes `needs` was refused with errno `number`, and now there is `room`. None: not known.

    `fooled`: a save was refused before although there was room, by the same reckoning.
    """
    if needs is None or room is None or (number == errno.EDQUOT and room.quota_left_bytes is None):
        return NobodyKnows()
    free_files = needs.files if room.free_inodes is None else room.free_inodes
    missing = Missing(max(0, needs.bytes - room.bytes), max(0, needs.files - free_files))
    if missing.bytes or missing.files:
        return missing
    return NobodyKnows() if fooled else RoomAgain()
