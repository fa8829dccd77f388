"""A plan read back as HDF5 sees it: names, types, shapes and places, dataset by dataset.

Our reader goes by the head's documents and never opens a tensor's dataset. That both say the same is seen to here,
once a plan: an unreadable part must come to light before it is written, not after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from h5py import h5a, h5d, h5f, h5l

from slurm_resilience.checkpoint.format.hdf5_head import parse
from slurm_resilience.checkpoint.format.hdf5_layout import Layout
from slurm_resilience.checkpoint.format.hdf5_memory import HeadMemory, access_to, link_to
from slurm_resilience.checkpoint.format.hdf5_type import hdf5_type
from slurm_resilience.checkpoint.format.part_format import Dataset, PartError, Placed, UnknownFormat


def prove(head: bytes | bytearray, layout: Layout, datasets: Sequence[Dataset]) -> None:
    """Read `head`, filled in, as our reader and as HDF5 does. Raises ValueError where either sees anything else."""
    try:
        placed = parse(head, layout.file_bytes).placed
        file = h5f.open(
            b"part", h5f.ACC_RDONLY, access_to(HeadMemory(bytearray(head), layout.file_bytes, growing=False))
        )
        try:
            for dataset, offset, read in zip(datasets, layout.offsets, placed, strict=True):
                if not (_same(dataset, offset, read) and _same_in_hdf5(file, dataset, offset)):
                    raise ValueError(f"HDF5 would not read tensor {dataset.name} back as it is")
        finally:
            file.close()
    except (PartError, UnknownFormat, OSError, RuntimeError, KeyError, TypeError) as error:
        raise ValueError(f"HDF5 would not read it back: {error}") from error


def _same(dataset: Dataset, offset: int, read: Placed) -> bool:
    said = (read.dataset.name, read.dataset.dtype, read.dataset.shape, read.dataset.file)
    return said == (dataset.name, dataset.dtype, dataset.shape, dataset.file) and (
        dataset.file is not None or read.offset == offset
    )


def _same_in_hdf5(file: Any, dataset: Dataset, offset: int) -> bool:
    names = (dataset.name, *dataset.also)
    if dataset.file is not None:
        target = (dataset.file.encode(), link_to(dataset.name))
        return all(
            file.links.get_info(link_to(name)).type == h5l.TYPE_EXTERNAL and file.links.get_val(link_to(name)) == target
            for name in names
        )
    opened = h5d.open(file, link_to(dataset.name))
    attribute = h5a.open(opened, b"dtype").get_type().get_size()
    return (
        opened.get_type() == hdf5_type(dataset.element)
        and attribute == len(dataset.dtype)
        and tuple(opened.shape) == dataset.shape
        and (opened.get_offset() or 0) == offset
        and (opened.get_storage_size() if dataset.bytes else 0) == dataset.bytes
        and all(h5d.open(file, link_to(name)) == opened for name in dataset.also)
    )
