"""Memory of a size known beforehand, for bytes that come from a file."""

from __future__ import annotations

import mmap

from slurm_resilience.checkpoint.disk import kernel
from slurm_resilience.checkpoint.disk.image import PAGE_BYTES


def fresh_memory(size_bytes: int) -> memoryview:
    """`size_bytes` zeros that begin on a page. They are given back when nobody refers to them.

    Where they are large they begin on a huge page: first touches are 3 times as fast.
    """
    huge = size_bytes >= kernel.HUGE_PAGE_BYTES
    # Room to begin on a huge page: what lies before and behind is never touched, and costs nothing.
    room_bytes = size_bytes + kernel.HUGE_PAGE_BYTES if huge else max(size_bytes, PAGE_BYTES)
    memory = mmap.mmap(-1, room_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = 0
    if huge:
        kernel.ask_for_huge_pages(memory)
        start = -kernel.address_of(memory) % kernel.HUGE_PAGE_BYTES
    return memoryview(memory)[start : start + size_bytes]


def bytes_of(memory: memoryview) -> memoryview:
    """The same memory as bytes, whatever its elements are."""
    return memory.cast("B") if memory.nbytes else memoryview(bytearray())  # not every shape of nothing can be cast
