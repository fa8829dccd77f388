"""What is copied in one go: many small tensors, or a slice of a large one.

A batch is one call that lets Python go on meanwhile. Fewer would leave the writer waiting and the threads unevenly
busy; more would each have to wait for the interpreter beside a training that keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch

_LARGEST_BYTES = 32 << 20
_SMALLEST_BYTES = 1 << 20
_BATCHES_A_THREAD = 8


class ChangedMeanwhile(Exception):
    """A tensor was changed while it was still to be copied: the snapshot is of no instant, and is given up."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} was changed before its copy was done: wait for the snapshot first")
        self.name = name


@dataclass(frozen=True, slots=True)
class Guard:
    """How a tensor was when the snapshot was taken, as far as torch counts changes."""

    name: str
    tensor: torch.Tensor
    version: int | None
    storage_at: int

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> Guard:
        return cls(name, tensor, _version(tensor), tensor.untyped_storage().data_ptr())

    def check(self) -> None:
        """Raises ChangedMeanwhile. Changes through `.data`, and by fused optimizers, are not counted by torch."""
        if _version(self.tensor) != self.version or self.tensor.untyped_storage().data_ptr() != self.storage_at:
            raise ChangedMeanwhile(self.name)


@dataclass(frozen=True, slots=True)
class Copy:
    """The elements of one tensor on their way to their place in the image, which begins at `offset`."""

    name: str
    offset: int
    target: torch.Tensor
    source: torch.Tensor
    guarded: bool = False


@dataclass(slots=True)
class Batch:
    start: int
    targets: list[torch.Tensor] = field(default_factory=list)
    sources: list[torch.Tensor] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)

    def copy(self) -> None:
        """Raises ChangedMeanwhile, and what torch raises."""
        with torch.no_grad():
            torch._foreach_copy_(self.targets, self.sources)  # 0.4 µs for a tiny one
        self.check()

    def check(self) -> None:
        for guard in self.guards:
            guard.check()


def batch_bytes(total_bytes: int, threads: int) -> int:
    """How large a batch should be."""
    return min(max(total_bytes // (threads * _BATCHES_A_THREAD), _SMALLEST_BYTES), _LARGEST_BYTES)


def batches_of(copies: Iterable[Copy], limit_bytes: int) -> list[Batch]:
    """In the order of the copies, which is that of the file."""
    batches: list[Batch] = []
    room_bytes = 0
    with torch.no_grad():
        for copy in copies:
            guard = Guard.of(copy.name, copy.source) if copy.guarded else None
            for start, target, source in _slices(copy, limit_bytes):
                if room_bytes <= 0:
                    batches.append(Batch(start))
                    room_bytes = limit_bytes
                batch = batches[-1]
                batch.targets.append(target)
                batch.sources.append(source)
                if guard is not None:
                    batch.guards.append(guard)
                room_bytes -= target.nbytes
    return batches


def _slices(copy: Copy, limit_bytes: int) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Pieces of about `limit_bytes`, with where they begin in the image."""
    target, source, offset = copy.target, copy.source, copy.offset
    if target.nbytes <= limit_bytes:
        yield offset, target, source
        return
    if source.is_contiguous():
        target, source = target.view(-1), source.view(-1)
    # Otherwise along the first dimension, whatever the strides are.
    rows = target.shape[0]
    step = max(1, limit_bytes * rows // target.nbytes)
    for first in range(0, rows, step):
        piece = target[first : first + step]
        yield offset, piece, source[first : first + step]
        offset += piece.nbytes


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version  # noqa: SLF001 torch's only word on changes
