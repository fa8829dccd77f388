"""Opening a log file without ever waiting for it, and reading it up to the size it had then."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

CHUNK_BYTES = 1 << 20
_ZSTD = b"\x28\xb5\x2f\xfd"
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)


class NotReadable(Exception):
    """With one sentence that names the file. Only for this folder: readers report it, and go on."""


@dataclass(slots=True)
class Source:
    """One open file. Use as a context manager."""

    path: Path
    since_bytes: int = 0
    changed_s: float = 0.0
    size_bytes: int = 0
    """On the disk, when it was opened."""
    skipped_lines: int | None = None
    """Newlines before `since_bytes`; None: they have to be counted, so everything is read."""
    note: str | None = None
    _file: BinaryIO | None = None
    _on_disk: io.FileIO | None = None
    _packed: bool = False

    def __enter__(self) -> Source:  # noqa: PYI034  # Self is new in 3.11
        try:
            # A pipe would wait for its other end, and opening a tape rewinds it: asked before it is opened.
            _refuse_all_but_files(self.path, self.path.stat().st_mode)
            number = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise NotReadable(f"{self.path} can't be read: {why}") from error
        file = self._on_disk = io.FileIO(number, "rb")
        try:
            status = os.fstat(number)
            _refuse_all_but_files(self.path, status.st_mode)
            self.changed_s, self.size_bytes = status.st_mtime, status.st_size
            self._file = self._unpacked(file)
        except BaseException:
            file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        if self._on_disk is not None:  # an unpacker leaves it open
            self._on_disk.close()

    def _unpacked(self, file: io.FileIO) -> BinaryIO:
        try:
            head = os.pread(file.fileno(), 6, 0)
        except OSError as error:
            raise NotReadable(f"{self.path} can't be read: {error.strerror}") from error
        self._packed = True
        if head.startswith(b"\x1f\x8b"):
            return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
        if head.startswith(b"BZh"):
            return bz2.BZ2File(file)  # type: ignore[return-value]
        if head.startswith(b"\xfd7zXZ"):
            return lzma.LZMAFile(file)  # type: ignore[return-value]
        if head.startswith(_ZSTD):
            return _zstd(self.path, file)
        self._packed = False
        return file

    def chunks(self) -> Iterator[bytes]:
        """What is in it, unpacked, from `since_bytes` on; says in `note` what came in between."""
        assert self._file is not None
        left = None if self._packed else max(0, self.size_bytes)
        begin = self.since_bytes if left is None or self.since_bytes <= left else 0  # cut since: everything is new
        at = 0
        if left is not None and begin and self.skipped_lines is not None:
            at = self._file.seek(begin)
            left -= begin
        else:
            self.skipped_lines = 0
        try:
            while left is None or left > 0:
                wanted = CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)
                data = self._file.read(wanted)
                if not data:
                    break
                left = None if left is None else left - len(data)
                skip = min(max(0, begin - at), len(data))
                at += len(data)
                if skip:
                    self.skipped_lines += data.count(b"\n", 0, skip)
                    data = data[skip:]
                if data:
                    yield data
        except _DAMAGED as error:
            what = "is damaged" if self._packed else "can't be read on"
            self.note = f"{self.path} {what} after {at} bytes: {getattr(error, 'strerror', None) or error}"
            return
        self._compare(at)

    def _compare(self, read_bytes: int) -> None:
        if self._packed:
            return
        if read_bytes < self.size_bytes:
            self.note = f"{self.path} was cut to {read_bytes} bytes while it was read"
            return
        try:
            now = self.path.stat().st_size
        except OSError:
            return
        if now > self.size_bytes:
            self.note = f"{self.path} is still growing: what came after byte {self.size_bytes} was not read"
        elif now < self.size_bytes:
            self.note = f"{self.path} was cut to {now} bytes while it was read"


def _refuse_all_but_files(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((name for test, name in _KINDS if test(mode)), "no file")
    raise NotReadable(f"{path} is {kind}, not a log file")


def _zstd(path: Path, file: io.FileIO) -> BinaryIO:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # Python 3.14
    except ImportError as error:
        raise NotReadable(f"{path} is packed with zstd, which this Python can't unpack: run zstd -d on it") from error
    opened: BinaryIO = zstd.ZstdFile(file)
    return opened
