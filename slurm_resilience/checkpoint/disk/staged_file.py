"""A file on its way: written past the page cache where the file system lets us. All errors are plain OSErrors."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Literal

from slurm_resilience.checkpoint.disk import kernel
from slurm_resilience.checkpoint.disk.image import PAGE_BYTES, whole_pages
from slurm_resilience.durable_file import sync_directory

_STAGING_SUFFIX = ".tmp"

_CACHED_CHUNK_BYTES = 8 << 20
_CACHED_UNWRITTEN_BYTES = 64 << 20
"""How much of the page cache may be ours and not yet on the disk, where there is no way past it."""

Way = Literal["direct", "dontcache", "buffered"]


def staging_path(final: Path, owner: str) -> Path:
    """A name of its own beside `final`. It says whose it is, is never a name that a manifest holds, and is inert."""
    return final.with_name(f".{final.name}.{owner}.{secrets.token_hex(8)}{_STAGING_SUFFIX}")


def is_staging(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(_STAGING_SUFFIX)


class StagedFile:
    """A file that nobody finds before `publish`, and that is gone again if we leave without.

    Blocks go to it directly (O_DIRECT); where that is refused, even in the middle of the file, through the page cache
    without staying there. Blocks may come from one thread, and the rest from another, one after the other.
    """

    def __init__(self, final: Path, *, owner: str, file_bytes: int) -> None:
        self._final = final
        self._staging = staging_path(final, owner)
        self._file_bytes = file_bytes
        self._descriptor: int | None = None
        self._direct: int | None = None
        self._way: Way = "direct"
        self._unwritten: deque[tuple[int, int]] = deque()
        self._published = False

    @property
    def way(self) -> Way:
        """How the last block went."""
        return self._way

    def __enter__(self) -> StagedFile:  # noqa: PYI034 typing.Self is not in Python 3.10
        flags = os.O_WRONLY | os.O_CLOEXEC
        self._descriptor = os.open(self._staging, flags | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            try:
                self._direct = os.open(self._staging, flags | os.O_DIRECT)
            except OSError as error:
                if not kernel.unknown_here(error):
                    raise
                self._way = "dontcache"
            # Whole pages, so that no block makes the file longer: that would have writers wait for each other.
            kernel.allocate(self._descriptor, whole_pages(self._file_bytes))
        except BaseException:
            self._abandon()
            raise
        return self

    def write_block(self, offset: int, block: memoryview) -> None:
        """`block` and `offset` are whole pages; what lies behind the file's end is cut off."""
        if offset % PAGE_BYTES or len(block) % PAGE_BYTES:
            raise ValueError(f"{len(block)} bytes at {offset} are not whole pages")
        self._opened()
        while block and self._direct is not None:
            written = self._write_directly(self._direct, offset, block)
            offset += written
            block = block[written:]
        self.write_at(offset, block)

    def write_at(self, offset: int, piece: memoryview) -> None:
        """Anything, anywhere, through the page cache."""
        descriptor = self._opened()
        while piece:
            written = self._write_cached(descriptor, offset, piece[:_CACHED_CHUNK_BYTES])
            offset += written
            piece = piece[written:]

    def publish(self) -> None:
        """Bytes, then name, then folder: when this returns, the file is durable under its final name."""
        descriptor = self._opened()
        os.ftruncate(descriptor, self._file_bytes)
        os.fsync(descriptor)
        self._close()
        self._staging.replace(self._final)
        self._published = True
        sync_directory(self._final.parent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._published:
            self._abandon()

    def _write_directly(self, direct: int, offset: int, block: memoryview) -> int:
        """How many bytes went directly. 0: none do from now on."""
        try:
            # If it comes short in the middle of a page, most file systems refuse the rest.
            return kernel.write_some(direct, block, offset)
        except OSError as error:
            if not kernel.unknown_here(error):
                raise
        self._way = "dontcache"
        self._direct = None
        os.close(direct)
        return 0

    def _write_cached(self, descriptor: int, offset: int, piece: memoryview) -> int:
        if self._way == "dontcache":
            try:
                return kernel.write_some(descriptor, piece, offset, uncached=True)
            except OSError as error:
                if not kernel.unknown_here(error):
                    raise
                self._way = "buffered"
        written = kernel.write_some(descriptor, piece, offset)
        if self._way == "buffered":
            self._write_back_early(descriptor, offset, written)
        return written

    def _write_back_early(self, descriptor: int, offset: int, written: int) -> None:
        kernel.start_write_back(descriptor, offset, written)
        self._unwritten.append((offset, written))
        while sum(size for _, size in self._unwritten) > _CACHED_UNWRITTEN_BYTES:
            kernel.finish_write_back(descriptor, *self._unwritten.popleft())

    def _opened(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"{self._staging} is not open")
        return self._descriptor

    def _close(self) -> None:
        """On NFS the last refusal comes here."""
        descriptors = [one for one in (self._direct, self._descriptor) if one is not None]
        self._direct = self._descriptor = None
        with contextlib.ExitStack() as closing:
            for descriptor in descriptors:
                closing.callback(os.close, descriptor)

    def _abandon(self) -> None:
        # The error that brought us here is the one to report; what can't be removed is inert.
        with contextlib.suppress(OSError):
            self._close()
        with contextlib.suppress(OSError):
            self._staging.unlink(missing_ok=True)
