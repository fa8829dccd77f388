"""Parts that HDF5's own library has altered: links elsewhere, layouts and types that we never write, and sizes."""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random
from typing import Any

import h5py
import numpy as np

from tests.fuzz.sample import TABLES, Sample

CANARY = "canary.h5"
"""Another file of the folder, which nobody has vouched for."""


def altered(random: Random, sample: Sample) -> tuple[str, bytes]:
    """What was done to which of the four tables, and the file."""
    name = random.choice(TABLES)
    how = random.choice(list(_WAYS))
    file = io.BytesIO(sample.content)
    with h5py.File(file, "r+") as part:
        content = part[name][()]
        del part[name]
        _WAYS[how](part, name, content)
    return f"{name} is {how}", file.getvalue()


def canary(sample: Sample) -> bytes:
    """It says that the part holds something else."""
    file = io.BytesIO()
    with h5py.File(file, "w") as part:
        part["structure"] = np.frombuffer(b'{"tensors":[],"files":[],"state":{"dict":[["canary",1]]}}', dtype=np.uint8)
        part["attributes"] = np.frombuffer(b'{"checkpoint":"x","rank":0,"attributes":{"canary":1}}', dtype=np.uint8)
        part["places"] = np.zeros((0, 2), dtype="<u8")
        part["checksums"] = np.zeros((0, 16), dtype=np.uint8)
    return file.getvalue()


def _external_link(part: h5py.File, name: str, content: Any) -> None:
    part[name] = h5py.ExternalLink(CANARY, f"/{name}")


def _external_storage(part: h5py.File, name: str, content: Any) -> None:
    part.create_dataset(name, (50,), dtype=np.uint8, external=[(CANARY, 0, 50)])


def _circle(part: h5py.File, name: str, content: Any) -> None:
    part[name] = h5py.SoftLink(f"/{name}")


def _group(part: h5py.File, name: str, content: Any) -> None:
    part.create_group(name)


def _huge(part: h5py.File, name: str, content: Any) -> None:
    part.create_dataset(name, (2**40,), dtype=np.uint8, fillvalue=32)


def _huge_in_chunks(part: h5py.File, name: str, content: Any) -> None:
    made = part.create_dataset(name, (2**36,), dtype=np.uint8, chunks=(1 << 16,), compression="gzip", fillvalue=32)
    made[:10] = 1


def _text_elsewhere(part: h5py.File, name: str, content: Any) -> None:
    part.create_dataset(name, data=["x" * 100] * 3, dtype=h5py.string_dtype())


def _lists(part: h5py.File, name: str, content: Any) -> None:
    made = part.create_dataset(name, (2,), dtype=h5py.vlen_dtype(np.int32))
    made[0] = np.arange(5, dtype=np.int32)


def _references(part: h5py.File, name: str, content: Any) -> None:
    part.create_dataset(name, data=part.ref, dtype=h5py.ref_dtype)


def _nothing(part: h5py.File, name: str, content: Any) -> None:
    part[name] = h5py.Empty("u1")


def _never_allocated(part: h5py.File, name: str, content: Any) -> None:
    part.create_dataset(name, (100,), dtype=np.uint8)


def _numbers(part: h5py.File, name: str, content: Any) -> None:
    part[name] = np.arange(6, dtype=">f8").reshape(2, 3)


def _missing(part: h5py.File, name: str, content: Any) -> None:
    return


def _attribute(part: h5py.File, name: str, content: Any) -> None:
    part[name] = content
    part.attrs["format_version"] = np.arange(3)


def _large_attribute(part: h5py.File, name: str, content: Any) -> None:
    part[name] = content
    part.attrs["format"] = h5py.Empty("S4")


_WAYS: dict[str, Callable[[h5py.File, str, Any], None]] = {
    "a link into another file": _external_link,
    "stored in another file": _external_storage,
    "a link to itself": _circle,
    "a group": _group,
    "2**40 bytes of fill value": _huge,
    "2**36 bytes in chunks": _huge_in_chunks,
    "text on the heap": _text_elsewhere,
    "lists": _lists,
    "a reference": _references,
    "nothing": _nothing,
    "never allocated": _never_allocated,
    "numbers": _numbers,
    "missing": _missing,
    "there, but the version is three numbers": _attribute,
    "there, but the format is nothing": _large_attribute,
}
