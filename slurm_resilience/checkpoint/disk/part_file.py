"""A part as bytes on the file system. Knows nothing of what they mean. All errors are plain OSErrors."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from types import TracebackType

from slurm_resilience.durable_file import sync_directory

_STAGING_SUFFIX = ".tmp"


def staging_path(final: Path, owner: str) -> Path:
    """A name of its own beside `final`. It says whose it is, is never a name that a manifest holds, and is inert."""
    return final.with_name(f".{final.name}.{owner}.{secrets.token_hex(8)}{_STAGING_SUFFIX}")


def is_staging(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(_STAGING_SUFFIX)


class StagedFile:
    """A file that nobody finds before `publish`, and that is gone again if we leave without."""

    def __init__(self, final: Path, *, owner: str, file_bytes: int) -> None:
        self._final = final
        self._staging = staging_path(final, owner)
        self._file_bytes = file_bytes
        self._descriptor: int | None = None
        self._published = False

    def __enter__(self) -> StagedFile:  # noqa: PYI034 typing.Self is not in Python 3.10
        self._descriptor = os.open(self._staging, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        try:
            os.ftruncate(self._descriptor, self._file_bytes)
        except BaseException:
            self._abandon()
            raise
        return self

    def write_at(self, offset: int, piece: memoryview) -> None:
        descriptor = self._opened()
        while piece:
            written = os.pwrite(descriptor, piece, offset)
            offset += written
            piece = piece[written:]

    def publish(self) -> None:
        """Bytes, then name, then folder: when this returns, the file is durable under its final name."""
        descriptor = self._opened()
        os.fsync(descriptor)
        self._descriptor = None
        os.close(descriptor)  # on NFS the last refusal comes here
        self._staging.replace(self._final)
        self._published = True
        sync_directory(self._final.parent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._published:
            self._abandon()

    def _opened(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"{self._staging} is not open")
        return self._descriptor

    def _abandon(self) -> None:
        # The error that brought us here is the one to report; what can't be removed is inert.
        with contextlib.suppress(OSError):
            if self._descriptor is not None:
                os.close(self._descriptor)
        self._descriptor = None
        with contextlib.suppress(OSError):
            self._staging.unlink(missing_ok=True)


class OpenPart:
    """A part to read from, at any place, in any order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def __enter__(self) -> OpenPart:  # noqa: PYI034 typing.Self is not in Python 3.10
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return self

    def size_bytes(self) -> int:
        return os.fstat(self._opened()).st_size

    def read_into(self, offset: int, piece: memoryview) -> bool:
        """Fill `piece`; False if the file ends before it is full."""
        descriptor = self._opened()
        while piece:
            got = os.preadv(descriptor, [piece], offset)
            if got == 0:
                return False
            offset += got
            piece = piece[got:]
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"{self._path} is not open")
        return self._descriptor
