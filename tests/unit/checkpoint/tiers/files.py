"""Files with known contents, and sources of them that misbehave."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from slurm_resilience.checkpoint.format.checksum import checksum_of
from slurm_resilience.checkpoint.tiers.contents import Contents, Span


def some_bytes(size_bytes: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


def contents_of(data: bytes, span_bytes: int, gap_bytes: int = 0) -> Contents:
    """Spans of `span_bytes`, one after the other, with gaps between them."""
    spans = []
    for number, offset in enumerate(range(0, len(data), span_bytes + gap_bytes)):
        piece = data[offset : offset + span_bytes]
        spans.append(Span(f"tensor t{number}", offset, len(piece), checksum_of(piece)))
    return Contents.of(len(data), spans)


class MemorySource:
    """`before` is told each offset that is about to be read; what it raises comes out."""

    def __init__(self, data: bytes, before: Callable[[int], None] = lambda _: None, piece_bytes: int = 1000) -> None:
        self.data = data
        self._before = before
        self._piece_bytes = piece_bytes
        self.reads: list[int] = []

    @property
    def name(self) -> str:
        return "/memory/rank-00000.h5"

    def __enter__(self) -> object:
        return self

    def size_bytes(self) -> int:
        return len(self.data)

    def read_into(self, offset: int, piece: memoryview) -> int:
        self._before(offset)
        self.reads.append(offset)
        data = self.data[offset : offset + min(len(piece), self._piece_bytes)]
        piece[: len(data)] = data
        return len(data)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class NoTime:
    """Passes only by sleeping."""

    def __init__(self) -> None:
        self.time_s = 1000.0

    def now_s(self) -> float:
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds


def files_below(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
