"""For how many more saves the room will do. Pure: numbers in, a verdict that says why out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.size import size_text


@dataclass(frozen=True, slots=True)
class Coming:
    """A save to come, of all ranks together, and what retention deletes once it is committed (not before)."""

    bytes: int
    files: int
    freed_bytes: int = 0
    freed_files: int = 0


@dataclass(frozen=True, slots=True)
class Fine:
    saves: int
    """As many as were asked about."""


@dataclass(frozen=True, slots=True)
class Tight:
    saves: int
    """How many fit, at least one."""
    why: str


@dataclass(frozen=True, slots=True)
class TooSmall:
    """Not even the next save fits."""

    why: str


Outlook = Union[Fine, Tight, TooSmall]


def saves_ahead(live_bytes: Sequence[int], *, next_bytes: int, files: int, keep_last: int, count: int) -> list[Coming]:
    """The next `count` saves of a run that keeps the last `keep_last`. `live_bytes`: what may go, the oldest first.

    Checkpoints that are pinned, or stay for another reason, are left out of `live_bytes`.
    """
    if keep_last < 1 or count < 1:
        raise ValueError(f"keep_last is {keep_last} and count {count}: both are at least 1")
    sizes = list(live_bytes)
    coming = []
    for _ in range(count):
        sizes.append(next_bytes)
        going, sizes = sizes[:-keep_last], sizes[-keep_last:]
        coming.append(Coming(next_bytes, files, sum(going), files * len(going)))
    return coming


def outlook(room: Room, coming: Sequence[Coming], *, reserve_bytes: int = 0) -> Outlook:
    """How many of `coming`, in this order, fit while `reserve_bytes` stay free for others (logs, the manifest)."""
    left_bytes, left_files = room.bytes - reserve_bytes, room.free_inodes
    for number, save in enumerate(coming):
        short = _short_of(save, left_bytes, left_files)
        if short is not None:
            return _verdict(number, short, room, reserve_bytes)
        left_bytes += save.freed_bytes - save.bytes
        if left_files is not None:
            left_files += save.freed_files - save.files
    return Fine(len(coming))


def _short_of(save: Coming, left_bytes: int, left_files: int | None) -> str | None:
    if save.bytes > left_bytes:
        return f"it takes {size_text(save.bytes)} and finds {size_text(max(0, left_bytes))}"
    if left_files is not None and save.files > left_files:
        return f"it takes {save.files} files, and the file system has {max(0, left_files)} left"
    return None


def _verdict(fitting: int, short: str, room: Room, reserve_bytes: int) -> Tight | TooSmall:
    quota = room.quota_left_bytes is not None and room.quota_left_bytes < room.free_bytes
    facts = f"{size_text(room.bytes)} {'left of the quota' if quota else 'free'}"
    if reserve_bytes:
        facts += f", {size_text(reserve_bytes)} of them kept in reserve"
    if fitting == 0:
        return TooSmall(f"the next checkpoint doesn't fit: {short} ({facts})")
    fit = "checkpoint fits" if fitting == 1 else f"{fitting} checkpoints fit"
    return Tight(fitting, f"the next {fit}, not {fitting + 1}: {short} ({facts})")
