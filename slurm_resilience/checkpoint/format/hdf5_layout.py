"""Planning a part: its head, and the place of every tensor in the file, before a byte is written.

h5py makes the head in memory, so HDF5 meets neither the file system nor the tensors: writing a part is writing
plain bytes at known places, and the file system's refusals come as plain OSErrors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5o, h5p, h5s, h5t

from slurm_resilience.checkpoint.format.checksum import CHECKSUM_BYTES
from slurm_resilience.checkpoint.format.hdf5_head import parse
from slurm_resilience.checkpoint.format.hdf5_memory import HeadMemory, access_to, link_to
from slurm_resilience.checkpoint.format.hdf5_type import hdf5_type
from slurm_resilience.checkpoint.format.part_format import (
    FORMAT,
    FORMAT_VERSION,
    PAYLOAD_ALIGNMENT_BYTES,
    Dataset,
    PartError,
    UnknownFormat,
)

_LONGEST_TEXT_BYTES = 32768


@dataclass(frozen=True, slots=True)
class Layout:
    """A head without its checksums, and where in the file each dataset's elements go."""

    head: bytearray
    offsets: tuple[int, ...]
    checksums_offset: int
    file_bytes: int

    def put_checksums(self, checksums: Sequence[bytes]) -> None:
        table = b"".join(checksums)
        self.head[self.checksums_offset : self.checksums_offset + len(table)] = table


def lay_out(
    *, checkpoint: str, rank: int, attributes: Mapping[str, Any], document: bytes, datasets: Sequence[Dataset]
) -> Layout:
    """Plan a part. `document` and `attributes` are in the head already; the checksums are for `put_checksums`.

    The same arguments give the same bytes. Raises ValueError for a name or attribute that HDF5 can't hold.
    """
    memory = HeadMemory(bytearray(), 0, growing=True)
    try:
        checksums_offset = _describe(memory, checkpoint, rank, attributes, document, datasets)
        # Second opening: all metadata lies packed at the front and what is allocated from here on is payload only.
        memory = HeadMemory(memory.head, memory.size, growing=False)
        offsets = _allocate(memory, datasets)
    except (OSError, RuntimeError, KeyError, TypeError) as error:
        raise ValueError(f"HDF5 can't hold it: {error}") from error
    layout = Layout(memory.head, offsets, checksums_offset, memory.size)
    _prove(layout, datasets)
    return layout


def _prove(layout: Layout, datasets: Sequence[Dataset]) -> None:
    """Read the plan as a reader will. An unreadable part must come to light before it is written, not after a crash."""
    try:
        read = parse(layout.head, layout.file_bytes)
    except (PartError, UnknownFormat) as error:
        raise ValueError(f"HDF5 would not read it back: {error}") from error
    for dataset, offset, placed in zip(datasets, layout.offsets, read.placed, strict=True):
        if (dataset.name, dataset.dtype, dataset.shape, offset) != (
            placed.dataset.name,
            placed.dataset.dtype,
            placed.dataset.shape,
            placed.offset,
        ) or (dataset.bytes and offset < len(layout.head)):
            raise ValueError(f"HDF5 would not read tensor {dataset.name} back as it is")


def _describe(
    memory: HeadMemory,
    checkpoint: str,
    rank: int,
    attributes: Mapping[str, Any],
    document: bytes,
    datasets: Sequence[Dataset],
) -> int:
    file = h5f.create(b"part", h5f.ACC_TRUNC, _without_times(h5p.FILE_CREATE), access_to(memory))
    try:
        root = h5py.Group(file)
        for name, value in (
            ("format", FORMAT),
            ("format_version", FORMAT_VERSION),
            ("checkpoint", checkpoint),
            ("rank", rank),
        ):
            _put_attribute(root, name, value)
        links = h5p.create(h5p.LINK_CREATE)
        links.set_char_encoding(h5t.CSET_UTF8)
        facts = h5py.Group(h5g.create(file, b"attributes", links, _without_times(h5p.GROUP_CREATE)))
        for name, value in attributes.items():
            _put_attribute(facts, name, value)
        in_head = _creation(h5d.ALLOC_TIME_EARLY)
        structure = h5d.create(file, b"structure", h5t.STD_U8LE, h5s.create_simple((len(document),)), in_head, links)
        structure.write(h5s.ALL, h5s.ALL, np.frombuffer(document, dtype=np.uint8))
        table_space = h5s.create_simple((len(datasets), CHECKSUM_BYTES))
        table = h5d.create(file, b"checksums", h5t.STD_U8LE, table_space, in_head, links)

        # Allocated in the second opening. (An early allocation here would scatter metadata between the tensors.)
        in_payload = _creation(h5d.ALLOC_TIME_LATE)
        for group in _groups(datasets):
            h5g.create(file, group, links, _without_times(h5p.GROUP_CREATE))
        for dataset in datasets:
            space = h5s.create_simple(dataset.shape) if dataset.shape else h5s.create(h5s.SCALAR)
            made = h5d.create(file, link_to(dataset.name), hdf5_type(dataset.element), space, in_payload, links)
            _put_short_text(made, b"dtype", dataset.dtype)
            for name in dataset.also:
                h5o.link(made, file, link_to(name), lcpl=links)
        return table.get_offset() or 0
    finally:
        file.close()


def _allocate(memory: HeadMemory, datasets: Sequence[Dataset]) -> tuple[int, ...]:
    """Give every dataset its place: HDF5 does that at the first element written, which `memory` lets go."""
    file = h5f.open(b"part", h5f.ACC_RDWR, access_to(memory, alignment_bytes=PAYLOAD_ALIGNMENT_BYTES))
    try:
        offsets: list[int] = []
        element = h5s.create_simple((1,))
        nothing = np.zeros(16, dtype=np.uint8)
        for dataset in datasets:
            if dataset.bytes == 0:
                offsets.append(0)
                continue
            opened = h5d.open(file, link_to(dataset.name))
            space = opened.get_space()
            if dataset.shape:
                space.select_elements([(0,) * len(dataset.shape)])
            kind = opened.get_type()
            opened.write(element, space, nothing[: kind.get_size()], mtype=kind)
            offsets.append(opened.get_offset())
        return tuple(offsets)
    finally:
        file.close()


def _groups(datasets: Sequence[Dataset]) -> list[bytes]:
    """Every group that a name needs, parents first."""
    groups: dict[bytes, None] = {}
    for dataset in datasets:
        for name in (dataset.name, *dataset.also):
            segments = link_to(name).split(b"/")
            groups.update((b"/".join(segments[:depth]), None) for depth in range(1, len(segments)))
    return list(groups)


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


def _put_attribute(group: h5py.Group, name: str, value: object) -> None:
    """Numbers as numpy has them, text as fixed-length UTF-8, None as an attribute without content."""
    plain = value.item() if isinstance(value, np.generic) else value
    if name == "" or "\0" in name:
        raise ValueError(f"{name!r} can't be the name of an attribute")
    if plain is None:
        group.attrs[name] = h5py.Empty("f8")
    elif isinstance(plain, bool):
        group.attrs[name] = plain
    elif isinstance(plain, float):
        group.attrs[name] = float(plain)
    elif isinstance(plain, int) and -(2**63) <= plain < 2**63:
        group.attrs[name] = int(plain)
    elif isinstance(plain, str) and "\0" not in plain and len(encoded := plain.encode()) <= _LONGEST_TEXT_BYTES:
        group.attrs.create(name, np.bytes_(encoded), dtype=h5py.string_dtype("utf-8", max(1, len(encoded))))
    else:
        raise ValueError(
            f"attribute {name} is not a 64-bit number, a bool, None or a text of at most 32 KiB without NUL"
        )


def _put_short_text(dataset: h5d.DatasetID, name: bytes, text: str) -> None:
    kind = h5t.C_S1.copy()
    kind.set_size(len(text))
    kind.set_strpad(h5t.STR_NULLPAD)
    h5a.create(dataset, name, kind, h5s.create(h5s.SCALAR)).write(np.array(text.encode()))
