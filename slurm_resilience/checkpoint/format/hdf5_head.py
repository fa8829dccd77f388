"""Reading a part's head back.

HDF5 is not safe against damaged metadata (it can crash or loop), so it is handed the head alone, in memory, after the
head's checksum was verified: it never sees a byte that isn't what we wrote. It is asked for four datasets and two
attributes, however many tensors there are.
"""

from __future__ import annotations

from typing import Any

import h5py
from h5py import h5d, h5f

from slurm_resilience.checkpoint.format.attributes import decode_facts
from slurm_resilience.checkpoint.format.hdf5_memory import HeadMemory, access_to
from slurm_resilience.checkpoint.format.part_document import placed_rows
from slurm_resilience.checkpoint.format.part_format import (
    FORMAT,
    FORMAT_VERSION,
    Head,
    HeadContent,
    PartError,
    UnknownFormat,
)


def parse(head: bytes | bytearray, file_bytes: int) -> Head:
    """What a head says. Only for bytes whose checksum was verified. Raises PartError or UnknownFormat."""
    content = _content(head, file_bytes)
    facts = decode_facts(content.attributes)
    placed = placed_rows(
        content.structure, content.places, content.checksums, head_bytes=len(head), file_bytes=file_bytes
    )
    return Head(facts.checkpoint, facts.rank, facts.attributes, content.structure, placed)


def _content(head: bytes | bytearray, file_bytes: int) -> HeadContent:
    try:
        file = h5f.open(b"part", h5f.ACC_RDONLY, access_to(HeadMemory(bytearray(head), file_bytes, growing=False)))
        try:
            _check_format(h5py.Group(file))
            return HeadContent(
                structure=_bytes(file, b"structure", head).rstrip(b" "),
                attributes=_bytes(file, b"attributes", head).rstrip(b" "),
                places=_bytes(file, b"places", head),
                checksums=_bytes(file, b"checksums", head),
            )
        finally:
            file.close()
    except (OSError, RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise PartError(f"its head can't be read ({error})") from error


def _check_format(root: h5py.Group) -> None:
    if root.attrs.get("format", b"") != FORMAT.encode():
        raise UnknownFormat("it is not a slurm-resilience checkpoint part")
    version = int(root.attrs["format_version"])
    if version != FORMAT_VERSION:
        raise UnknownFormat(f"it has format version {version}, this slurm-resilience knows version {FORMAT_VERSION}")


def _bytes(file: Any, name: bytes, head: bytes | bytearray) -> bytes:
    """A dataset of the head as it lies there, padding included.

    HDF5 only says where: had it to read, a layout that isn't ours could make it write behind our memory.
    """
    opened = h5d.open(file, name)
    made = opened.get_create_plist()
    if made.get_layout() != h5d.CONTIGUOUS or made.get_external_count():
        raise PartError(f"its {name.decode()} does not lie in one piece")
    offset, size_bytes = opened.get_offset(), opened.get_storage_size()
    if size_bytes == 0:
        return b""
    if offset is None or offset + size_bytes > len(head):
        raise PartError(f"its {name.decode()} does not lie in its head")
    return bytes(head[offset : offset + size_bytes])
