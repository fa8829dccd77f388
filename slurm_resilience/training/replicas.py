"""Tensors that are the same on all ranks, and which rank writes each. Pure.

Nobody is believed: what is the same is found by checksum, and every checkpoint proves anew that it still is.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEAST_BYTES = 4096
"""Smaller tensors are not worth a place in another file."""


@dataclass(frozen=True, slots=True)
class Content:
    """A tensor as a rank has it."""

    dtype: str
    shape: tuple[int, ...]
    checksum: bytes
    size_bytes: int


def same_on_all(everybody: Sequence[Mapping[str, Content]]) -> tuple[str, ...]:
    """The names under which every rank has the same, sorted."""
    first, *others = everybody
    return tuple(sorted(name for name, content in first.items() if all(other.get(name) == content for other in others)))


def assign(shared: Mapping[str, int], own_bytes: Sequence[int]) -> dict[str, int]:
    """Who writes what: `shared` is bytes by name, `own_bytes[rank]` what each rank has to write anyway.

    The largest first, each to whoever has least to write so far: the ranks end at about the same time.
    """
    loads = [(load, rank) for rank, load in enumerate(own_bytes)]
    heapq.heapify(loads)
    owners: dict[str, int] = {}
    for name, size_bytes in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        load, rank = heapq.heappop(loads)
        owners[name] = rank
        heapq.heappush(loads, (load + size_bytes, rank))
    return owners
