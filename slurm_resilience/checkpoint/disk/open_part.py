"""A part to read from. All errors are plain OSErrors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from slurm_resilience.checkpoint.disk import kernel


class OpenPart:
    """A part to read from, at any place, in any order, from any thread."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        """`shared`: other processes of this node read it too, so that it is best read through the page cache."""
        self._path = path
        self.shared = shared
        self._descriptor: int | None = None
        self._direct: int | None = None
        self._goes_directly = True

    def __enter__(self) -> OpenPart:  # noqa: PYI034 typing.Self is not in Python 3.10
        flags = os.O_RDONLY | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags)
        with contextlib.suppress(OSError):  # then nothing goes directly
            self._direct = os.open(self._path, flags | os.O_DIRECT)
        return self

    def size_bytes(self) -> int:
        return os.fstat(self._opened()).st_size

    def read_into(self, offset: int, piece: memoryview) -> bool:
        """Fill `piece`; False if the file ends before it is full."""
        return self.read_up_to(offset, piece) == len(piece)

    def read_up_to(self, offset: int, piece: memoryview) -> int:
        """How many bytes came: fewer than `piece` has room for at the file's end only."""
        return _read(self._opened(), offset, piece)

    def read_pages(self, offset: int, pages: memoryview) -> int:
        """As `read_up_to`, past the page cache where the file system lets us. Memory and `offset` are whole pages."""
        descriptor = self._opened()
        if self._direct is not None and self._goes_directly:
            try:
                got = kernel.read_some(self._direct, pages, offset)
            except OSError as error:
                if not kernel.unknown_here(error):
                    raise
                self._goes_directly = False
                got = 0
            offset += got
            pages = pages[got:]
            return got + _read(descriptor, offset, pages)  # the file's end, or what came short
        return _read(descriptor, offset, pages)

    def is_cached(self, offsets: Sequence[int]) -> bool:
        """Whether most of these bytes come from memory: then the page cache is the faster way."""
        descriptor = self._opened()
        if self.shared:
            return True
        return 2 * sum(kernel.is_cached(descriptor, offset) for offset in offsets) > len(offsets)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (self._direct, self._descriptor):
            if descriptor is not None:
                os.close(descriptor)
        self._direct = self._descriptor = None

    def _opened(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"{self._path} is not open")
        return self._descriptor


def _read(descriptor: int, offset: int, piece: memoryview) -> int:
    wanted = len(piece)
    while piece:
        got = kernel.read_some(descriptor, piece, offset)
        if got == 0:
            break
        offset += got
        piece = piece[got:]
    return wanted - len(piece)
