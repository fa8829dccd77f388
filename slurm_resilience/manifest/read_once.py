"""The lines of a file that grows, each parsed once: a run of many ranks has megabytes of parts in its journal."""

from __future__ import annotations

import hashlib
from pathlib import Path

from slurm_resilience.manifest.records import Line
from slurm_resilience.manifest.text import parse


class ReadOnce:
    """A line follows from its bytes alone: where they are the same, so is the line.

    The bytes are compared each time, because what a reader saw may be taken back by a writer that could not sync it.
    """

    def __init__(self) -> None:
        self._bytes = 0
        self._sum = b""
        self._lines: tuple[Line, ...] = ()

    def lines(self, path: Path, raw: bytes) -> list[Line]:
        """As `parse` has them of `raw`, the whole file. Raises what that raises."""
        known, begin = self._lines, self._bytes
        if not known or _sum(raw, begin) != self._sum:
            known, begin = (), 0
        text = parse(path, raw[begin:], first_seq=len(known) + 1)
        found, end = (*known, *text.lines), begin + text.whole_bytes
        self._lines, self._bytes, self._sum = found, end, _sum(raw, end)
        return list(found)


def _sum(raw: bytes, size: int) -> bytes:
    return hashlib.blake2b(memoryview(raw)[:size]).digest()
