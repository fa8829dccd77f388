"""The node's runtime folder: where the node agent and the ranks of one node meet, in memory.

`stop` is one page that the node agent writes and every rank reads; `rank-<local rank>` is one page that a rank writes
and the node agent reads. A page is written by exactly one process and carries a checksum: a reader that meets a page
in the middle of being written reads it again. The first byte of the stop page is the reason, 0 for none, so that a
rank's look at a step boundary is one read of memory.
"""

from __future__ import annotations

import enum
import mmap
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from slurm_resilience.signals.stop_request import StopReason, StopRequest

PAGE_BYTES = 4096
FORMAT = 1
_STOP = struct.Struct("<BBHI d d 208s")  # reason, format, length, crc32 of what follows, times, because
_RANK = struct.Struct("<BBHI IIIi qqq d")
_READ_TRIES = 100
_AnyPage = TypeVar("_AnyPage", bound="_Page")


class RankPhase(enum.IntEnum):
    """What a rank says it is doing. UNKNOWN: it never wrote its page (it may not use our library)."""

    UNKNOWN = 0
    STARTING = 1
    STEPPING = 2
    SAVING = 3
    STOPPED = 4
    FINISHED = 5
    FAILED = 6


@dataclass(frozen=True, slots=True)
class RankPage:
    phase: RankPhase
    rank: int
    local_rank: int
    pid: int
    step: int
    """Steps completed since the start of the run."""
    stopped_after_step: int
    """The step after which it stopped, saved and left; -1 otherwise."""
    saved_step: int
    """The step of the newest checkpoint this rank saw committed; -1 for none."""
    beat_s: float
    """When this page was written, on the node's monotonic clock."""


class _Page:
    """One page of memory shared through a file. `with` opens it."""

    def __init__(self, path: Path, *, write: bool) -> None:
        self.path = path
        self._write = write
        self._memory: mmap.mmap | None = None

    def open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC if self._write else os.O_RDONLY | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        try:
            if self._write:
                os.ftruncate(descriptor, PAGE_BYTES)
            access = mmap.ACCESS_WRITE if self._write else mmap.ACCESS_READ
            self._memory = mmap.mmap(descriptor, PAGE_BYTES, access=access)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    @property
    def memory(self) -> mmap.mmap:
        if self._memory is None:
            raise ValueError(f"page {self.path} is not open")
        return self._memory

    def __enter__(self: _AnyPage) -> _AnyPage:  # noqa: PYI019  # Self is new in 3.11
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class StopPageWriter(_Page):
    """The node agent's side of the stop page."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "stop", write=True)

    def write(self, request: StopRequest) -> None:
        because = request.because.encode(errors="replace")[:208]
        body = struct.pack("<d d 208s", request.requested_s, request.deadline_s, because)
        self.memory[1 : _STOP.size] = struct.pack("<BHI", FORMAT, len(because), zlib.crc32(body)) + body
        self.memory[0] = int(request.reason)  # last: who sees the reason finds the rest


class StopPageReader(_Page):
    """A rank's side of the stop page."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "stop", write=False)

    def asked(self) -> bool:
        return self.memory[0] != 0

    def read(self) -> StopRequest | None:
        for _ in range(_READ_TRIES):
            raw = self.memory[: _STOP.size]
            if raw[0] == 0:
                return None
            _, version, length, crc, requested_s, deadline_s, because = _STOP.unpack(raw)
            if version == FORMAT and zlib.crc32(raw[8:]) == crc:
                text = because[:length].decode(errors="replace")
                return StopRequest(StopReason(raw[0]), text, requested_s, deadline_s)
        return None


class RankPageWriter(_Page):
    """A rank's side of its own page."""

    def __init__(self, folder: Path, local_rank: int) -> None:
        super().__init__(folder / f"rank-{local_rank}", write=True)

    def write(self, page: RankPage) -> None:
        body = struct.pack(
            "<IIIi qqq d",
            page.rank,
            page.local_rank,
            page.pid,
            0,
            page.step,
            page.stopped_after_step,
            page.saved_step,
            page.beat_s,
        )
        self.memory[: _RANK.size] = struct.pack("<BBHI", int(page.phase), FORMAT, 0, zlib.crc32(body)) + body


class RankPageReader(_Page):
    """The node agent's side of a rank's page."""

    def __init__(self, folder: Path, local_rank: int) -> None:
        super().__init__(folder / f"rank-{local_rank}", write=False)

    def read(self) -> RankPage | None:
        """None where the page was never written, or is being written over and over."""
        for _ in range(_READ_TRIES):
            raw = self.memory[: _RANK.size]
            phase, version, _, crc, rank, local_rank, pid, _, step, stopped, saved, beat_s = _RANK.unpack(raw)
            if phase and version == FORMAT and zlib.crc32(raw[8:]) == crc:
                return RankPage(RankPhase(phase), rank, local_rank, pid, step, stopped, saved, beat_s)
            if not any(raw):
                return None
        return None


def rank_pages(folder: Path) -> list[RankPage]:
    """The pages of all ranks that ever wrote one, by local rank."""
    pages = []
    for path in folder.glob("rank-*"):
        with RankPageReader(folder, int(path.name.removeprefix("rank-"))) as reader:
            page = reader.read()
        if page is not None:
            pages.append(page)
    return sorted(pages, key=lambda page: page.local_rank)
