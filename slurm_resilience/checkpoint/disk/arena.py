"""Page-aligned memory of the size of a part's file, shared with the process that writes it: the buffer is the file."""

from __future__ import annotations

import contextlib
import mmap
import os
import threading

from slurm_resilience.checkpoint.disk import kernel
from slurm_resilience.checkpoint.disk.beside import Beside
from slurm_resilience.checkpoint.disk.image import PAGE_BYTES, whole_pages

_TWO_THREADS_BYTES = 64 << 20
"""From here on a second thread is worth its start."""

_STRIDE_BYTES = 16 << 20


class Arena:
    """Shared memory behind a descriptor. It is warm: every page is there, so that copying into it costs the copy alone.

    It lives until the last process that has it lets it go, whoever dies first.
    """

    def __init__(self, descriptor: int, size_bytes: int, mapping: mmap.mmap) -> None:
        self.descriptor = descriptor
        self.size_bytes = size_bytes
        self.memory = memoryview(mapping)
        self._mapping = mapping

    @classmethod
    def make(cls, size_bytes: int) -> Arena:
        """Zeros, at least `size_bytes` of them, in whole pages. Raises OSError where there is not enough memory."""
        size_bytes = max(whole_pages(size_bytes), PAGE_BYTES)
        descriptor = os.memfd_create("slurm-resilience", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, size_bytes)
            return cls._mapped(descriptor, size_bytes, writing=True)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def attach(cls, descriptor: int, size_bytes: int) -> Arena:
        """The arena of another process. From now on `descriptor` is the arena's to close; if this raises, yours."""
        found_bytes = os.fstat(descriptor).st_size
        if found_bytes < size_bytes:  # touching what isn't there would kill us
            raise ValueError(f"the arena has {found_bytes} bytes, {size_bytes} are expected")
        return cls._mapped(descriptor, size_bytes, writing=False)

    @classmethod
    def _mapped(cls, descriptor: int, size_bytes: int, *, writing: bool) -> Arena:
        mapping = mmap.mmap(descriptor, size_bytes, flags=mmap.MAP_SHARED)
        try:
            kernel.ask_for_huge_pages(mapping)
            _warm(mapping, size_bytes, writing=writing)
        except BaseException:
            mapping.close()  # it has a descriptor of its own
            raise
        return cls(descriptor, size_bytes, mapping)

    def close(self) -> None:
        """Let go. Memory that somebody still looks at stays mapped until they don't."""
        if self.descriptor < 0:
            return
        os.close(self.descriptor)
        self.descriptor = -1
        with contextlib.suppress(BufferError):
            self.memory.release()
            self._mapping.close()


def _warm(mapping: mmap.mmap, size_bytes: int, *, writing: bool) -> None:
    address = kernel.address_of(mapping)
    lock = threading.Lock()
    strides = iter(range(0, size_bytes, _STRIDE_BYTES))
    stopped = threading.Event()

    def warm_strides() -> None:
        while not stopped.is_set():
            with lock:
                start = next(strides, None)
            if start is None:
                return
            stride_bytes = min(_STRIDE_BYTES, size_bytes - start)
            if not kernel.populate(address + start, stride_bytes, writing=writing) and writing:
                pages = stride_bytes // PAGE_BYTES
                memoryview(mapping)[start : start + stride_bytes : PAGE_BYTES] = bytes(pages)

    if size_bytes < _TWO_THREADS_BYTES:
        warm_strides()
        return
    with Beside(warm_strides, stop=stopped.set, name="checkpoint-warm"):
        warm_strides()
