"""What a part consists of, in our own words: see docs/checkpoint_format.md. Knows no h5py, no torch."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from slurm_resilience.checkpoint.format.element_type import ElementType, element_type

FORMAT = "slurm-resilience checkpoint part"
FORMAT_VERSION = 1

PAYLOAD_ALIGNMENT_BYTES = 4096
ALIGNED_FROM_BYTES = 64

STATE_GROUP = "state"


class PartError(Exception):
    """The part is not what was written, or contradicts itself. The message goes on after the file's name."""


class UnknownFormat(Exception):
    """Whole, but of a format, a version or a dtype that we, or this torch, don't know."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """One tensor or array, as the head describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    also: tuple[str, ...] = ()
    """Further names for the same dataset (hard links)."""

    @property
    def element(self) -> ElementType:
        element = element_type(self.dtype)
        if element is None:
            raise UnknownFormat(
                f"tensor {self.name} has the dtype {self.dtype}, which this slurm-resilience doesn't know"
            )
        return element

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.element.item_bytes


@dataclass(frozen=True, slots=True)
class Placed:
    """A dataset, where its elements lie, and what they must hash to."""

    dataset: Dataset
    offset: int
    checksum: bytes


@dataclass(frozen=True, slots=True)
class Head:
    checkpoint: str
    rank: int
    attributes: dict[str, Any]
    document: bytes
    placed: tuple[Placed, ...]


def names_of(document: bytes) -> tuple[str, ...]:
    """The datasets that a structure document refers to, in the order of the checksum table."""
    names = json.loads(document)["tensors"]
    if not all(isinstance(name, str) for name in names):
        raise PartError("its structure names a tensor by something else than text")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class HeadChecksum:
    """What a receipt holds: the checksum of the file's first `head_bytes` bytes.

    The head holds every tensor's checksum, so this one vouches for all content.
    """

    digest: bytes
    head_bytes: int

    def __str__(self) -> str:
        return f"xxh3-128:{self.digest.hex()}:{self.head_bytes}"

    @staticmethod
    def parse(text: str) -> HeadChecksum:
        """Raises UnknownFormat for anything that `str` doesn't make."""
        parts = re.fullmatch(r"xxh3-128:([0-9a-f]{32}):([1-9][0-9]{0,18})", text)
        if parts is None:
            raise UnknownFormat(f"its receipt has a checksum that this slurm-resilience doesn't know: {text[:80]}")
        return HeadChecksum(bytes.fromhex(parts[1]), int(parts[2]))
