"""Laying a part out: its head, and the place of every tensor in the file, before a byte is written.

h5py makes the head in memory, so HDF5 meets neither the file system nor the tensors: writing a part is writing
plain bytes at known places, and the file system's refusals come as plain OSErrors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5o, h5p, h5s, h5t

from slurm_resilience.checkpoint.format.checksum import CHECKSUM_BYTES
from slurm_resilience.checkpoint.format.hdf5_memory import HeadMemory, access_to, link_to
from slurm_resilience.checkpoint.format.hdf5_type import hdf5_type
from slurm_resilience.checkpoint.format.part_format import (
    ALIGNED_FROM_BYTES,
    FORMAT,
    FORMAT_VERSION,
    PAYLOAD_ALIGNMENT_BYTES,
    Dataset,
)


@dataclass(frozen=True, slots=True)
class Layout:
    """A head in which everything that changes from save to save is still blank, and where that and the elements go."""

    head: bytearray
    structure_offset: int
    attributes_offset: int
    places_offset: int
    checksums_offset: int
    offsets: tuple[int, ...]
    """Of each dataset's elements; 0 where there are none, or where they lie in another file."""
    file_bytes: int


@dataclass(frozen=True, slots=True)
class _InHead:
    structure: int
    attributes: int
    places: int
    checksums: int


def lay_out(datasets: Sequence[Dataset], *, structure_bytes: int, attributes_bytes: int) -> Layout:
    """Lay out a part whose documents have room for so many bytes. The same arguments give the same bytes.

    Raises ValueError for a name that HDF5 can't hold.
    """
    memory = HeadMemory(bytearray(), 0, growing=True)
    try:
        in_head = _describe(memory, datasets, structure_bytes, attributes_bytes)
        # Opened again: all metadata lies packed at the front and what is allocated from here on is payload only.
        memory = HeadMemory(memory.head, memory.size, growing=False)
        offsets = _allocate(memory, [dataset for dataset in datasets if dataset.file is None and dataset.bytes])
    except (OSError, RuntimeError, KeyError, TypeError) as error:
        raise ValueError(f"HDF5 can't hold it: {error}") from error
    return Layout(
        head=memory.head,
        structure_offset=in_head.structure,
        attributes_offset=in_head.attributes,
        places_offset=in_head.places,
        checksums_offset=in_head.checksums,
        offsets=tuple(offsets.get(dataset.name, 0) for dataset in datasets),
        file_bytes=memory.size,
    )


def _describe(memory: HeadMemory, datasets: Sequence[Dataset], structure_bytes: int, attributes_bytes: int) -> _InHead:
    file = h5f.create(b"part", h5f.ACC_TRUNC, _without_times(h5p.FILE_CREATE), access_to(memory))
    try:
        root = h5py.Group(file)
        root.attrs["format"] = np.bytes_(FORMAT.encode())
        root.attrs["format_version"] = FORMAT_VERSION
        links = h5p.create(h5p.LINK_CREATE)
        links.set_char_encoding(h5t.CSET_UTF8)
        early = _creation(h5d.ALLOC_TIME_EARLY)
        rows = len(datasets)
        made = [
            h5d.create(file, name, kind, space, early, links)
            for name, kind, space in (
                (b"structure", _text(structure_bytes), h5s.create(h5s.SCALAR)),
                (b"attributes", _text(attributes_bytes), h5s.create(h5s.SCALAR)),
                (b"places", h5t.STD_U64LE, h5s.create_simple((rows, 2))),
                (b"checksums", h5t.STD_U8LE, h5s.create_simple((rows, CHECKSUM_BYTES))),
            )
        ]
        for group in _groups(datasets):
            h5g.create(file, group, links, _without_times(h5p.GROUP_CREATE))
        # Allocated when the file is opened again: here, metadata would come to lie between the tensors.
        late = _creation(h5d.ALLOC_TIME_LATE)
        for dataset in datasets:
            _put_dataset(file, dataset, late, links)
        return _InHead(*(each.get_offset() or 0 for each in made))
    finally:
        file.close()


def _put_dataset(file: Any, dataset: Dataset, creation: h5p.PropDCID, links: Any) -> None:
    if dataset.file is not None:
        for name in (dataset.name, *dataset.also):
            # Plain HDF5 finds the elements there, under the name they have here.
            file.links.create_external(link_to(name), dataset.file.encode(), link_to(dataset.name), lcpl=links)
        return
    space = h5s.create_simple(dataset.shape) if dataset.shape else h5s.create(h5s.SCALAR)
    made = h5d.create(file, link_to(dataset.name), hdf5_type(dataset.element), space, creation, links)
    kind = h5t.C_S1.copy()
    kind.set_size(len(dataset.dtype))
    kind.set_strpad(h5t.STR_NULLPAD)
    h5a.create(made, b"dtype", kind, h5s.create(h5s.SCALAR)).write(np.array(dataset.dtype.encode()))
    for name in dataset.also:
        h5o.link(made, file, link_to(name), lcpl=links)


def _allocate(memory: HeadMemory, datasets: Sequence[Dataset]) -> dict[str, int]:
    """Give every dataset its place: HDF5 does that at the first element written, which `memory` lets go.

    The first begins on a page, however small it is: whoever writes the head's last page writes no element.
    """
    offsets: dict[str, int] = {}
    for some, aligned_from in ((datasets[:1], 1), (datasets[1:], ALIGNED_FROM_BYTES)):
        if not some:
            break
        access = access_to(memory, aligned_from_bytes=aligned_from, alignment_bytes=PAYLOAD_ALIGNMENT_BYTES)
        file = h5f.open(b"part", h5f.ACC_RDWR, access)
        try:
            for dataset in some:
                offsets[dataset.name] = _allocated(file, dataset)
        finally:
            file.close()
    return offsets


def _allocated(file: Any, dataset: Dataset) -> int:
    opened = h5d.open(file, link_to(dataset.name))
    space = opened.get_space()
    if dataset.shape:
        space.select_elements([(0,) * len(dataset.shape)])
    kind = opened.get_type()
    element = np.zeros(kind.get_size(), dtype=np.uint8)
    opened.write(h5s.create_simple((1,)), space, element, mtype=kind)
    return int(opened.get_offset())


def _groups(datasets: Sequence[Dataset]) -> list[bytes]:
    """Every group that a name needs, parents first."""
    groups: dict[bytes, None] = {}
    for dataset in datasets:
        for name in (dataset.name, *dataset.also):
            segments = link_to(name).split(b"/")
            groups.update((b"/".join(segments[:depth]), None) for depth in range(1, len(segments)))
    return list(groups)


def _text(room_bytes: int) -> Any:
    """Text that fills its room with spaces: its length may change and nothing moves."""
    kind = h5t.C_S1.copy()
    kind.set_size(room_bytes)
    kind.set_strpad(h5t.STR_SPACEPAD)
    return kind


def _without_times(kind: Any) -> Any:
    """What is created when is nobody's business, and would make two equal parts differ."""
    creation = h5p.create(kind)
    creation.set_obj_track_times(False)
    return creation


def _creation(alloc_time: int) -> h5p.PropDCID:
    creation = _without_times(h5p.DATASET_CREATE)
    creation.set_layout(h5d.CONTIGUOUS)
    creation.set_alloc_time(alloc_time)
    creation.set_fill_time(h5d.FILL_TIME_NEVER)  # otherwise HDF5 writes every tensor twice
    return creation
