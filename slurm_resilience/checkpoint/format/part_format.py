"""What a part consists of, in our own words: see docs/checkpoint_format.md. Knows no h5py, no torch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from slurm_resilience.checkpoint.format.element_type import ElementType, element_type

FORMAT = "slurm-resilience checkpoint part"
FORMAT_VERSION = 2

PAYLOAD_ALIGNMENT_BYTES = 4096
ALIGNED_FROM_BYTES = 64

STATE_GROUP = "state"

PLACE_BYTES = 16
"""A row of `/places`: the file's number and the offset in it, both 64 bits, little-endian."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


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
    file: str | None = None
    """Where the elements lie, if not in this part: the plain name of a file in the same folder."""

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


@dataclass(frozen=True, slots=True)
class HeadContent:
    """The four datasets of a head, as bytes."""

    structure: bytes
    attributes: bytes
    places: bytes
    checksums: bytes


def files_of(datasets: Iterable[Dataset]) -> list[str]:
    """The files that datasets are borrowed from: number n in `/places` is the n-th of these, 0 the part itself."""
    return list(dict.fromkeys(dataset.file for dataset in datasets if dataset.file is not None))


def is_file_name(name: object) -> bool:
    """Whether a part may refer to `name`: a file of its own folder, never a way out of it."""
    return isinstance(name, str) and _FILE_NAME.fullmatch(name) is not None


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
