"""The arena of a plan, and in it the place of every tensor: kept from save to save."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

import torch

from slurm_resilience.checkpoint.disk.arena import Arena
from slurm_resilience.checkpoint.disk.image import Image, whole_pages
from slurm_resilience.checkpoint.format.part_format import Dataset
from slurm_resilience.checkpoint.format.tensor import as_numbers
from slurm_resilience.checkpoint.snapshot.batches import Copy

_STEP_BYTES = 2 << 20
"""A huge page. What the last one has to spare lets a plan grow a little without another arena."""

_LARGEST_WASTE = 1.25


def arena_bytes(image_bytes: int) -> int:
    """The memory that an image of this size takes."""
    step = _STEP_BYTES if image_bytes >= _STEP_BYTES else 1
    return whole_pages(-(-image_bytes // step) * step)


class Place:
    def __init__(self) -> None:
        self.arena: Arena | None = None
        self._image: Image | None = None
        self._datasets: tuple[Dataset, ...] = ()
        self._targets: dict[int, torch.Tensor] = {}
        self._pinned_at: int | None = None

    def lay_out(self, image: Image, datasets: tuple[Dataset, ...]) -> Arena:
        """An arena for `image`, the last one if that will do. Raises OSError where there is not enough memory."""
        arena = self.arena
        if arena is not None and (self._image, self._datasets) == (image, datasets):
            return arena
        self._image = None
        self._targets = {}  # they hold on to the memory
        if arena is None or not image.file_bytes <= arena.size_bytes <= _LARGEST_WASTE * arena_bytes(image.file_bytes):
            self.close()  # before, so that there are never two
            arena = self.arena = Arena.make(arena_bytes(image.file_bytes))
        else:
            _clear_between(arena.memory, image)
        self._image = image
        self._datasets = datasets
        return arena

    def copy(self, row: int, offset: int, source: torch.Tensor, *, guarded: bool) -> Copy:
        dataset = self._datasets[row]
        source = as_numbers(source)
        target = self._targets.get(row)
        if target is None:
            assert self.arena is not None, "it was laid out"
            target = torch.frombuffer(self.arena.memory, dtype=source.dtype, count=source.numel(), offset=offset)
            target = self._targets[row] = target.view(source.shape)
        return Copy(dataset.name, offset, target, source, guarded)

    def pin(self) -> None:
        """Have GPUs copy into it by themselves. Once an arena."""
        from slurm_resilience.checkpoint.snapshot.device_copying import pin

        assert self.arena is not None, "it was laid out"
        if self._pinned_at is not None:
            return
        address = torch.frombuffer(self.arena.memory, dtype=torch.uint8).data_ptr()
        if not pin(address, self.arena.size_bytes):
            sys.stderr.write(
                "slurm-resilience: the snapshot's memory can't be pinned: copies from the GPU are slower\n"
            )
        self._pinned_at = address

    def close(self, *, still_read: bool = False) -> None:
        """Give the memory back, at once, whoever else has it mapped; `still_read`: when they let it go."""
        self._targets = {}
        self._image = None
        if self._pinned_at is not None:
            from slurm_resilience.checkpoint.snapshot.device_copying import unpin

            with contextlib.suppress(RuntimeError):
                unpin(self._pinned_at)
            self._pinned_at = None
        if self.arena is not None:
            if not still_read:
                os.ftruncate(self.arena.descriptor, 0)  # a writer keeps its mapping for the next job
            self.arena.close()
            self.arena = None


def _clear_between(memory: memoryview, image: Image) -> None:
    """Another image lay here: what no tensor fills has to be zero, so that equal states make equal files."""
    at = image.head_bytes
    for start, end in [*_ranges(image), (whole_pages(image.file_bytes), 0)]:
        memory[at:start] = bytes(max(start - at, 0))
        at = end


def _ranges(image: Image) -> Sequence[tuple[int, int]]:
    return [(region.offset, region.offset + region.bytes) for region in image.regions]
