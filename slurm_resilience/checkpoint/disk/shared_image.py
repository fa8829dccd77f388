"""Writing an image that lies in memory shared between processes, by whatever way is faster on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slurm_resilience.checkpoint.disk.image import Image
from slurm_resilience.checkpoint.disk.image_writer import write_from, write_image
from slurm_resilience.checkpoint.disk.kernel import shared_memory_has_huge_pages
from slurm_resilience.checkpoint.disk.staged_file import StagedFile


def write_shared(
    file: StagedFile, memory: memoryview, image: Image, *, filled: Callable[[int], None] | None = None
) -> tuple[bytes, int]:
    """As `write_image`; `memory` is not changed where it consists of small pages.

    A disk takes only so many pieces in a request, and is slower by a third from 4 KiB pages. Then the elements go
    through a few buffers of private memory, which may have huge ones, and copying them costs less than that.
    """
    if shared_memory_has_huge_pages():
        return write_image(file, memory, image, filled=filled)
    wait = filled if filled is not None else _nothing
    wait(image.head_bytes)
    return write_from(file, bytearray(memory[: image.head_bytes]), image, _elements(memory, image, wait))


def _elements(memory: memoryview, image: Image, wait: Callable[[int], None]) -> Iterator[memoryview]:
    for region in image.regions:
        wait(region.offset + region.bytes)
        yield memory[region.offset : region.offset + region.bytes]


def _nothing(_: int) -> None:
    pass
