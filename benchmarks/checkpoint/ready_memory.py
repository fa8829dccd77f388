"""Free memory that is really there when a measurement begins.

A virtual machine's host takes back what its guest leaves idle for some seconds, large pages first, and gives it again
at 0.2 to 1 GB/s: a method would be measured by the sizes in which it asks for memory. Real machines have no such thing.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
from collections.abc import Iterator
from types import TracebackType

from benchmarks.checkpoint.machine import meminfo_bytes
from slurm_resilience.checkpoint.disk import kernel

_MOST_OF_FREE = 0.7


class ReadyMemory:
    """Holds memory, so that nobody takes it; `lent` gives it to whoever asks for some meanwhile.

    Held again as soon as it is free: before the files of a measurement are deleted what they leave, and then the rest.
    """

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._held: list[mmap.mmap] = []

    def __enter__(self) -> ReadyMemory:  # noqa: PYI034 typing.Self is not in Python 3.10
        self._take()
        return self

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """In here it is free, and so is what this process has freed and would keep."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        self._take()
        self._give()
        try:
            yield
        finally:
            self._take()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._give()

    def _take(self) -> None:
        """What is lacking, as far as there is so much: the page cache's files are not to go for it."""
        lacking_bytes = self._size_bytes - sum(len(each) for each in self._held)
        size_bytes = min(lacking_bytes, int(_MOST_OF_FREE * meminfo_bytes("MemFree")))
        size_bytes -= size_bytes % kernel.HUGE_PAGE_BYTES
        if size_bytes > 0:
            memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            kernel.ask_for_huge_pages(memory)
            kernel.populate(kernel.address_of(memory), size_bytes, writing=True)
            self._held.append(memory)

    def _give(self) -> None:
        for memory in self._held:
            memory.close()
        self._held = []
