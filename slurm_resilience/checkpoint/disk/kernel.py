"""The one door to what the kernel does with bytes and memory and Python doesn't offer, or offers with a trap."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import time
from pathlib import Path

HUGE_PAGE_BYTES = 2 << 20

_RWF_NOWAIT = 0x8
_RWF_DONTCACHE = 0x80
_MADV_HUGEPAGE = 14
_MADV_POPULATE_READ = 22
_MADV_POPULATE_WRITE = 23
_SYNC_WAIT_BEFORE, _SYNC_WRITE, _SYNC_WAIT_AFTER = 1, 2, 4

_UNKNOWN_HERE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ESPIPE})
"""What a kernel or a file system says that doesn't know a wish. All other refusals are about the bytes."""

_AGAIN = (BlockingIOError, InterruptedError)
"""What some network file systems say for a moment, about nothing in particular."""

_AGAIN_S = 0.01
_AGAIN_TRIES = 100

_libc = ctypes.CDLL(None, use_errno=True)


def unknown_here(error: OSError) -> bool:
    """Whether the same bytes may go by another way: nobody refused them, only how they came."""
    return error.errno in _UNKNOWN_HERE


def write_some(descriptor: int, piece: memoryview, offset: int, *, uncached: bool = False) -> int:
    """How many bytes of `piece` were taken: at least one. `uncached` is unknown before Linux 6.14."""
    for _ in range(_AGAIN_TRIES):
        with contextlib.suppress(*_AGAIN):
            if uncached:
                written = os.pwritev(descriptor, [piece], offset, _RWF_DONTCACHE)
            else:
                written = os.pwrite(descriptor, piece, offset)
            if written == 0:
                raise OSError(errno.EIO, "nothing was written, and no reason given")
            return written
        time.sleep(_AGAIN_S)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def read_some(descriptor: int, piece: memoryview, offset: int) -> int:
    """How many bytes came: 0 at the file's end only."""
    for _ in range(_AGAIN_TRIES):
        with contextlib.suppress(*_AGAIN):
            return os.preadv(descriptor, [piece], offset)
        time.sleep(_AGAIN_S)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def is_cached(descriptor: int, offset: int) -> bool:
    """Whether the byte at `offset` comes from memory. False where the kernel can't say."""
    try:
        return os.preadv(descriptor, [bytearray(1)], offset, _RWF_NOWAIT) == 1
    except OSError:  # EAGAIN: it would have to be fetched. Any other refusal comes again when it is read
        return False


def allocate(descriptor: int, size_bytes: int) -> None:
    """Have room for the whole file now, or ENOSPC now. Where the file system can't promise room, only its size is set.

    Not posix_fallocate: the C library writes into every block of a file where the file system can't.
    """
    if size_bytes:
        for _ in range(3):  # a signal interrupts it; what it has allocated stays
            try:
                _checked(
                    _libc.fallocate(
                        ctypes.c_int(descriptor), ctypes.c_int(0), ctypes.c_int64(0), ctypes.c_int64(size_bytes)
                    )
                )
            except InterruptedError:
                continue
            except OSError as error:
                if not unknown_here(error):
                    raise
            break
    os.ftruncate(descriptor, size_bytes)


def start_write_back(descriptor: int, offset: int, size_bytes: int) -> None:
    """Have the cached bytes of a range written, beginning now."""
    _sync_file_range(descriptor, offset, size_bytes, _SYNC_WRITE)


def finish_write_back(descriptor: int, offset: int, size_bytes: int) -> None:
    """Wait until the range is written, and let go of the memory it was cached in.

    An error here is reported once: the fsync that follows may not repeat it. So it is ours to raise.
    """
    _sync_file_range(descriptor, offset, size_bytes, _SYNC_WAIT_BEFORE | _SYNC_WRITE | _SYNC_WAIT_AFTER)
    with contextlib.suppress(OSError):  # advice
        os.posix_fadvise(descriptor, offset, size_bytes, os.POSIX_FADV_DONTNEED)


def ask_for_huge_pages(memory: mmap.mmap) -> None:
    with contextlib.suppress(OSError):  # advice; not every kernel has them
        memory.madvise(_MADV_HUGEPAGE)


def populate(address: int, size_bytes: int, *, writing: bool) -> bool:
    """Have pages behind memory now, instead of one by one when they are first met. False where it isn't known (5.14).

    Raises where there is not enough memory, which touching would answer with a signal.
    """
    how = _MADV_POPULATE_WRITE if writing else _MADV_POPULATE_READ
    try:
        # Through ctypes, which lets other threads run meanwhile.
        _checked(_libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), ctypes.c_int(how)))
    except InterruptedError:
        return populate(address, size_bytes, writing=writing)
    except OSError as error:
        if not unknown_here(error):
            raise
        return False
    return True


def address_of(memory: memoryview | mmap.mmap) -> int:
    """Where writable memory of at least one byte lies."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _sync_file_range(descriptor: int, offset: int, size_bytes: int, flags: int) -> None:
    try:
        _checked(
            _libc.sync_file_range(
                ctypes.c_int(descriptor), ctypes.c_int64(offset), ctypes.c_int64(size_bytes), ctypes.c_uint(flags)
            )
        )
    except InterruptedError:
        _sync_file_range(descriptor, offset, size_bytes, flags)
    except OSError as error:
        if not unknown_here(error):
            raise


def _checked(answer: int) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def shared_memory_has_huge_pages() -> bool:
    """Whether this kernel may back a memfd by huge pages. From small ones a disk is slower by a third: each request
    takes only so many pieces."""
    try:
        chosen = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled").read_text(encoding="ascii")
    except OSError:
        return False
    return "[never]" not in chosen and "[deny]" not in chosen
