"""Where the bytes of a file come from: this file system, or a depot far away."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Protocol

from slurm_resilience.checkpoint.disk.kernel import read_some


class Source(Protocol):
    """Opened by `with`. All verbs raise OSError."""

    @property
    def name(self) -> str:
        """As messages call it."""

    def __enter__(self) -> object: ...

    def size_bytes(self) -> int: ...

    def read_into(self, offset: int, piece: memoryview) -> int:
        """How many bytes of `piece` were filled; 0 behind the end."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class FileSource:
    """A file that is open stays readable when retention unlinks it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    @property
    def name(self) -> str:
        return str(self._path)

    def __enter__(self) -> FileSource:  # noqa: PYI034 typing.Self is not in Python 3.10
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return self

    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_into(self, offset: int, piece: memoryview) -> int:
        return read_some(self._descriptor, piece, offset)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
