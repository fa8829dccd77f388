"""The plan of a part: made once for a state's shape, filled in for every save.

Laying a part out costs about 0.1 ms a tensor. What changes from save to save lies in the head at fixed places with
room to spare, so a plan serves as long as names, types and shapes stay and the documents fit.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slurm_resilience.checkpoint.disk.image import PAGE_BYTES, Image, Region
from slurm_resilience.checkpoint.format.attributes import encode_facts
from slurm_resilience.checkpoint.format.checksum import CHECKSUM_BYTES, checksum_of
from slurm_resilience.checkpoint.format.hdf5_layout import Layout, lay_out
from slurm_resilience.checkpoint.format.hdf5_proof import prove
from slurm_resilience.checkpoint.format.part_format import PLACE_BYTES, Dataset, files_of, is_file_name

if TYPE_CHECKING:  # it comes with torch
    from slurm_resilience.checkpoint.format.structure import Flattened

_PLANS_KEPT = 4
_OF_NOTHING = checksum_of(b"")


class DoesNotFit(Exception):
    """A document has outgrown the room that the plan has for it: another plan is needed."""


@dataclass(frozen=True, slots=True)
class Room:
    """A fixed-length text of the head."""

    offset: int
    room_bytes: int

    def put(self, head: bytearray, document: bytes) -> None:
        if len(document) > self.room_bytes:
            raise DoesNotFit(f"a document of {len(document)} bytes has outgrown its room of {self.room_bytes}")
        head[self.offset : self.offset + self.room_bytes] = document.ljust(self.room_bytes)


@dataclass(frozen=True, slots=True)
class PartPlan:
    """Where everything in a part lies."""

    image: Image
    blank: bytes
    """The head without its documents, the writer's checksums and places in other files."""
    structure: Room
    attributes: Room
    places_offset: int
    borrowed: Mapping[int, int]
    """The numbers of the files in which rows lie that are not in this one."""

    def head(
        self,
        *,
        checkpoint: str,
        rank: int,
        attributes: Mapping[str, Any],
        document: bytes,
        places: Mapping[int, int] | None = None,
    ) -> bytearray:
        """A head of `image.head_bytes` bytes that lacks only checksums, and the `places` that aren't known yet.

        `document` is that of a state of this plan's shape; `places` are the offsets of borrowed rows in their files.
        Raises DoesNotFit, and ValueError for attributes that can't be kept.
        """
        head = bytearray(self.blank)
        self.structure.put(head, document)
        self.attributes.put(head, encode_facts(checkpoint, rank, attributes))
        self.put_places(head, places or {})
        return head

    def put_places(self, head: bytearray | memoryview, places: Mapping[int, int]) -> None:
        for row, offset in places.items():
            struct.pack_into("<QQ", head, self.places_offset + row * PLACE_BYTES, self.borrowed[row], offset)

    def put_checksums(self, head: bytearray | memoryview, checksums: Mapping[int, bytes]) -> None:
        """By row. The writer fills in the rows of `image.regions`; those of borrowed tensors come from elsewhere."""
        for row, checksum in checksums.items():
            start = self.image.checksums_offset + row * CHECKSUM_BYTES
            head[start : start + CHECKSUM_BYTES] = checksum


class Planner:
    """Keeps the last few plans. Equal states get equal plans, whatever was planned before."""

    def __init__(self) -> None:
        self._plans: dict[object, PartPlan] = {}

    def plan(self, flat: Flattened, *, checkpoint: str, rank: int, attributes: Mapping[str, Any]) -> PartPlan:
        """The plan into which `flat` and these attributes fit. Raises ValueError for what HDF5 can't hold."""
        facts = encode_facts(checkpoint, rank, attributes)
        # The room follows from the length alone: a plan that were kept for as long as it lasts would make the bytes
        # of a part depend on the parts before it.
        rooms = structure_room(len(flat.document)), attributes_room(len(facts))
        key = (flat.datasets, rooms)
        plan = self._plans.pop(key, None)
        if plan is None:
            plan = _made(flat.datasets, flat.document, facts, rooms)
        self._plans[key] = plan  # the last used is the last thrown out
        while len(self._plans) > _PLANS_KEPT:
            del self._plans[next(iter(self._plans))]
        return plan


def structure_room(document_bytes: int) -> int:
    """An eighth and 512 bytes more, in steps of 4 KiB: numbers that get longer rarely need another plan."""
    return _rounded_up(document_bytes + document_bytes // 8 + 512, 4096)


def attributes_room(document_bytes: int) -> int:
    return _rounded_up(document_bytes + 256, 1024)


def _made(datasets: Sequence[Dataset], document: bytes, facts: bytes, rooms: tuple[int, int]) -> PartPlan:
    for file in files_of(datasets):
        if not is_file_name(file):
            raise ValueError(f"nothing can be borrowed from {file!r}, only from a file in the folder of the part")
    layout = lay_out(datasets, structure_bytes=rooms[0], attributes_bytes=rooms[1])
    numbers = {file: number for number, file in enumerate(files_of(datasets), 1)}
    plan = PartPlan(
        image=_image(layout, datasets),
        blank=b"",
        structure=Room(layout.structure_offset, rooms[0]),
        attributes=Room(layout.attributes_offset, rooms[1]),
        places_offset=layout.places_offset,
        borrowed={row: numbers[dataset.file] for row, dataset in enumerate(datasets) if dataset.file is not None},
    )
    for row, offset in enumerate(layout.offsets):
        struct.pack_into("<QQ", layout.head, plan.places_offset + row * PLACE_BYTES, plan.borrowed.get(row, 0), offset)
    plan.put_checksums(layout.head, {row: _OF_NOTHING for row, dataset in enumerate(datasets) if not dataset.bytes})
    filled = bytearray(layout.head)
    plan.structure.put(filled, document)
    plan.attributes.put(filled, facts)
    prove(filled, layout, datasets)
    return replace(plan, blank=bytes(layout.head))


def _image(layout: Layout, datasets: Sequence[Dataset]) -> Image:
    regions = [
        Region(row, offset, dataset.bytes)
        for row, (dataset, offset) in enumerate(zip(datasets, layout.offsets, strict=True))
        if offset
    ]
    regions.sort(key=lambda region: region.offset)
    end = _rounded_up(len(layout.head), PAGE_BYTES)
    for region in regions:
        if region.offset < end:
            raise ValueError(f"HDF5 has laid tensor {datasets[region.row].name} over what lies before it")
        end = region.offset + region.bytes
    return Image(layout.file_bytes, len(layout.head), layout.checksums_offset, tuple(regions))


def _rounded_up(size: int, step: int) -> int:
    return -(-size // step) * step
