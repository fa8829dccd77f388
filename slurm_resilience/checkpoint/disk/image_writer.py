"""Write a part's image: elements in file order, hashed on the way, and last the head that vouches for them."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable

from slurm_resilience.checkpoint.disk.beside import Beside, OtherSideFailed
from slurm_resilience.checkpoint.disk.checksum_table import ChecksumTable
from slurm_resilience.checkpoint.disk.file_order import FileOrder
from slurm_resilience.checkpoint.disk.image import PAGE_BYTES, Image, Progress, whole_pages
from slurm_resilience.checkpoint.disk.memory import fresh_memory
from slurm_resilience.checkpoint.disk.staged_file import StagedFile
from slurm_resilience.checkpoint.format.checksum import CHECKSUM_BYTES, checksum_of

_BLOCK_BYTES = 64 << 20
"""What a disk needs for its full speed. Copied in a few milliseconds: nobody waits long for the first."""

_BOUNCE_BYTES = 8 << 20
_BOUNCES = 3
"""One is filled, one is written, one waits: neither side has to."""


def write_image(
    file: StagedFile,
    memory: memoryview,
    image: Image,
    *,
    filled: Callable[[int], None] | None = None,
    progress: Progress | None = None,
) -> tuple[bytes, int]:
    """Write `memory`, which is the file except for its checksums; they are filled in here.

    `memory` begins on a page. `filled(end)` returns when everything before `end` is there, or raises. Elements are
    hashed by a second thread meanwhile. Returns the head's checksum and its size in bytes.
    """
    _check(image)
    if len(memory) < image.file_bytes:
        raise ValueError(f"the memory has {len(memory)} bytes, the file {image.file_bytes}")
    table = ChecksumTable(image, memory)
    passing: queue.SimpleQueue[tuple[int, memoryview] | None] = queue.SimpleQueue()

    def hash_what_passes() -> None:
        while (block := passing.get()) is not None:
            table.pass_by(*block)

    with Beside(hash_what_passes, stop=lambda: passing.put(None), name="checkpoint-hash"):
        for start in range(image.head_pages_bytes, image.file_bytes, _BLOCK_BYTES):
            end = min(start + _BLOCK_BYTES, image.file_bytes)
            if filled is not None:
                filled(end)
            passing.put((start, memory[start:end]))
            _put(file, memory, start, end)
            if progress is not None:
                progress(end - start)
        passing.put(None)
    if filled is not None:
        filled(image.head_bytes)
    digest = checksum_of(memory[: image.head_bytes])
    _put(file, memory, 0, image.head_bytes)
    return digest, image.head_bytes


def write_from(
    file: StagedFile,
    head: bytearray,
    image: Image,
    pieces: Iterable[memoryview],
    *,
    progress: Progress | None = None,
) -> tuple[bytes, int]:
    """Write the same bytes without having them all in memory: `pieces` are the regions' elements, in order.

    They are copied and hashed, a little at a time, while a second thread writes. Fills in the checksums in `head`.
    Returns its checksum and its size in bytes.
    """
    _check(image)
    if len(head) != image.head_bytes:
        raise ValueError(f"the head has {len(head)} bytes, {image.head_bytes} are expected")
    head_pages = fresh_memory(image.head_pages_bytes)
    head_pages[: image.head_bytes] = head
    elements = FileOrder(image, pieces, ChecksumTable(image, head_pages))
    _bounce(file, image, elements, progress)
    elements.end()
    head[:] = head_pages[: image.head_bytes]
    digest = checksum_of(head)
    _put(file, head_pages, 0, image.head_bytes)
    return digest, image.head_bytes


def _bounce(file: StagedFile, image: Image, elements: FileOrder, progress: Progress | None) -> None:
    body_bytes = max(image.file_bytes - image.head_pages_bytes, 0)
    bounce_bytes = min(_BOUNCE_BYTES, whole_pages(body_bytes))
    memory = fresh_memory(_BOUNCES * bounce_bytes)  # what isn't needed isn't touched
    free: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()  # None: nobody empties them any more
    full: queue.SimpleQueue[tuple[int, memoryview] | None] = queue.SimpleQueue()  # None: that was all
    for number in range(_BOUNCES):
        free.put(memory[number * bounce_bytes : (number + 1) * bounce_bytes])

    def write_what_is_full() -> None:
        try:
            while (block := full.get()) is not None:
                offset, bounce = block
                file.write_block(offset, bounce[: whole_pages(image.file_bytes - offset)])
                free.put(bounce)
        finally:
            free.put(None)

    with Beside(write_what_is_full, stop=lambda: full.put(None), name="checkpoint-write"):
        while elements.at < image.file_bytes:
            bounce = free.get()
            if bounce is None:
                raise OtherSideFailed
            start = elements.at
            size_bytes = min(bounce_bytes, image.file_bytes - start)
            elements.fill(bounce[:size_bytes])
            full.put((start, bounce))
            if progress is not None:
                progress(size_bytes)
        full.put(None)


def _put(file: StagedFile, memory: memoryview, start: int, end: int) -> None:
    """Whole pages where `memory` has them: what it holds behind the file's end is cut off when it is published."""
    if whole_pages(end) <= len(memory):
        file.write_block(start, memory[start : whole_pages(end)])
    else:
        last_page = end - end % PAGE_BYTES
        file.write_block(start, memory[start:last_page])
        file.write_at(last_page, memory[last_page:end])


def _check(image: Image) -> None:
    at = image.head_pages_bytes
    for region in image.regions:
        if region.offset < at:
            raise ValueError(f"row {region.row} begins at {region.offset}, before {at}")
        at = region.offset + region.bytes
        row_end = image.checksums_offset + (region.row + 1) * CHECKSUM_BYTES
        if row_end > image.head_bytes:
            raise ValueError(f"the checksum of row {region.row} ends at {row_end}, behind the head")
    if at > max(image.file_bytes, image.head_pages_bytes):
        raise ValueError(f"the elements end at {at}, the file at {image.file_bytes}")
