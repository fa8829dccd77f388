"""The disk's own speed: nothing but the system calls."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

_BLOCK_BYTES = 64 << 20
_PAGE_BYTES = 4096
_MADV_HUGEPAGE = 14


def warm_memory(size_bytes: int) -> memoryview:
    """Memory that begins on a page, in huge pages where there are any, every one of them written to."""
    size_bytes = -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
    mapping = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapping.madvise(_MADV_HUGEPAGE)
    memory = memoryview(mapping)
    memory[::_PAGE_BYTES] = b"\1" * (size_bytes // _PAGE_BYTES)
    return memory


def write_raw(memory: memoryview, folder: Path) -> None:
    """Durable when it returns. Past the page cache, in blocks of 64 MiB, into a file whose room is allocated before."""
    descriptor = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
    os.posix_fallocate(descriptor, 0, len(memory))
    for start in range(0, len(memory), _BLOCK_BYTES):
        block = memory[start : start + _BLOCK_BYTES]
        if os.pwrite(descriptor, block, start) != len(block):
            raise OSError("a write came short")
    os.fsync(descriptor)
    os.close(descriptor)
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def read_raw(path: Path, memory: memoryview, *, directly: bool) -> None:
    """Into memory that is warm already."""
    descriptor = os.open(path / "raw", os.O_RDONLY | (os.O_DIRECT if directly else 0))
    at = 0
    while at < len(memory) and (got := os.preadv(descriptor, [memory[at : at + _BLOCK_BYTES]], at)):
        at += got
    os.close(descriptor)
    if at < len(memory):
        raise OSError("the file is shorter than expected")
