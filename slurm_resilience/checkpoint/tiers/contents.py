"""What the bytes of a file have to be, said so that they can be checked while they pass by.

A receipt vouches for the head, the head for the tensors: a file is a list of spans, each with its checksum. So a copy
is proven while it is made, and what a broken-off copy has left is proven before it is trusted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from slurm_resilience.checkpoint.format.checksum import Checksum, checksum_of

FORMAT = 1


class NotAsVouched(Exception):
    """The message goes on after the file's name."""

    def __init__(self, name: str, found: bytes, expected: bytes) -> None:
        super().__init__(f"{name} has the checksum xxh3-128:{found.hex()}, xxh3-128:{expected.hex()} was written")
        self.name = name


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    """`its head`, or `tensor model/0.weight`: how a complaint begins."""
    offset: int
    size_bytes: int
    checksum: bytes

    @property
    def end(self) -> int:
        return self.offset + self.size_bytes


@dataclass(frozen=True, slots=True)
class Contents:
    """A file of `size_bytes` bytes. What no span covers is padding: carried along, not vouched for."""

    size_bytes: int
    spans: tuple[Span, ...]
    """By offset. They may overlap."""

    @classmethod
    def of(cls, size_bytes: int, spans: Iterable[Span]) -> Contents:
        """Raises ValueError for a span that doesn't lie in the file."""
        ordered = tuple(
            sorted((span for span in spans if span.size_bytes), key=lambda span: (span.offset, span.size_bytes))
        )
        for span in ordered:
            if span.offset < 0 or span.end > size_bytes:
                raise ValueError(f"{span.name} lies at {span.offset} to {span.end} of a file of {size_bytes} bytes")
        return cls(size_bytes, ordered)

    @property
    def identity(self) -> str:
        """32 hex digits. Two files of one identity are the same as far as any reader can tell."""
        words = [(span.offset, span.size_bytes, span.checksum.hex()) for span in self.spans]
        return checksum_of(json.dumps([self.size_bytes, words]).encode()).hex()

    def encode(self) -> bytes:
        rows = [[span.name, span.offset, span.size_bytes, span.checksum.hex()] for span in self.spans]
        return json.dumps({"format": FORMAT, "bytes": self.size_bytes, "spans": rows}).encode("ascii")

    @classmethod
    def decode(cls, raw: bytes) -> Contents:
        """Raises ValueError for anything that `encode` didn't make."""
        try:
            value: dict[str, Any] = json.loads(raw)
            if value["format"] != FORMAT:
                raise ValueError(f"format {value['format']!r}, this version knows {FORMAT}")
            spans = [
                Span(str(name), int(at), int(count), bytes.fromhex(sum_)) for name, at, count, sum_ in value["spans"]
            ]
            return cls.of(int(value["bytes"]), spans)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no list of spans: {error!r}") from error


@dataclass(slots=True)
class Watch:
    """Sees the bytes of a file pass, in order, from `start` on (the end of what was proven before)."""

    contents: Contents
    start: int = 0
    proven: int = 0
    """Up to here every span has been seen whole and right."""
    _at: int = 0
    _next: int = 0
    _open: list[tuple[Span, Checksum]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._at = self.proven = self.start
        spans = self.contents.spans
        while self._next < len(spans) and spans[self._next].end <= self.start:
            self._next += 1

    def see(self, piece: memoryview) -> None:
        """Raises NotAsVouched at the first span that isn't what was written."""
        begin, end = self._at, self._at + len(piece)
        while self._next < len(self.contents.spans) and self.contents.spans[self._next].offset < end:
            span = self.contents.spans[self._next]
            self._next += 1
            if span.offset >= self.start:
                self._open.append((span, Checksum()))
        still = []
        for span, checksum in self._open:
            checksum.update(piece[max(span.offset, begin) - begin : min(span.end, end) - begin])
            if span.end > end:
                still.append((span, checksum))
            elif checksum.digest() != span.checksum:
                raise NotAsVouched(span.name, checksum.digest(), span.checksum)
        self._open, self._at = still, end
        self.proven = min((span.offset for span, _ in still), default=end)
