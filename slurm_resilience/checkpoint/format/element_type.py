"""How a tensor's elements lie in HDF5: torch's names, and numpy's, on one side, a storage type on the other.

Pure: knows no torch, so that a part can be verified where torch is broken.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class Storage(enum.Enum):
    """What HDF5 takes the elements for."""

    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"  # h5py's own: an enum FALSE=0, TRUE=1 over int8
    FLOAT = "float"
    BFLOAT16 = "bfloat16"  # a true HDF5 float: 16 bits, exponent 8, mantissa 7, bias 127
    COMPLEX = "complex"  # h5py's own: a compound of floats `r` and `i`
    RAW = "raw"  # opaque to HDF5, kept as unsigned integers: only the `dtype` attribute says what they mean


@dataclass(frozen=True, slots=True)
class ElementType:
    storage: Storage
    item_bytes: int
    big_endian: bool = False


_TORCH = {
    "bool": ElementType(Storage.BOOL, 1),
    "int8": ElementType(Storage.SIGNED, 1),
    "int16": ElementType(Storage.SIGNED, 2),
    "int32": ElementType(Storage.SIGNED, 4),
    "int64": ElementType(Storage.SIGNED, 8),
    "uint8": ElementType(Storage.UNSIGNED, 1),
    "uint16": ElementType(Storage.UNSIGNED, 2),
    "uint32": ElementType(Storage.UNSIGNED, 4),
    "uint64": ElementType(Storage.UNSIGNED, 8),
    "float16": ElementType(Storage.FLOAT, 2),
    "float32": ElementType(Storage.FLOAT, 4),
    "float64": ElementType(Storage.FLOAT, 8),
    "bfloat16": ElementType(Storage.BFLOAT16, 2),
    "complex32": ElementType(Storage.COMPLEX, 4),
    "complex64": ElementType(Storage.COMPLEX, 8),
    "complex128": ElementType(Storage.COMPLEX, 16),
    # Most of these have no infinity, or no sign, or a bias that HDF5's floats can't say: a true HDF5 type would
    # show wrong numbers without a word. float4 holds two numbers in a byte.
    "float8_e4m3fn": ElementType(Storage.RAW, 1),
    "float8_e4m3fnuz": ElementType(Storage.RAW, 1),
    "float8_e5m2": ElementType(Storage.RAW, 1),
    "float8_e5m2fnuz": ElementType(Storage.RAW, 1),
    "float8_e8m0fnu": ElementType(Storage.RAW, 1),
    "float4_e2m1fn_x2": ElementType(Storage.RAW, 1),
    **{f"{sign}{bits}": ElementType(Storage.RAW, 1) for sign in ("int", "uint") for bits in range(1, 8)},
    **{name: ElementType(Storage.RAW, 1) for name in ("bits8", "bits1x8", "bits2x4", "bits4x2")},
    "bits16": ElementType(Storage.RAW, 2),
}

_NUMPY_KINDS = {
    "b": (Storage.BOOL, (1,)),
    "i": (Storage.SIGNED, (1, 2, 4, 8)),
    "u": (Storage.UNSIGNED, (1, 2, 4, 8)),
    "f": (Storage.FLOAT, (2, 4, 8)),
    "c": (Storage.COMPLEX, (8, 16)),
}

NUMPY_PREFIX = "numpy:"


def element_type(name: str) -> ElementType | None:
    """The element type that a `dtype` attribute names; None for one that this format doesn't know.

    `bfloat16` is a tensor's, in torch's words; `numpy:<f4` is an array's, in numpy's.
    """
    if not name.startswith(NUMPY_PREFIX):
        return _TORCH.get(name)
    parts = re.fullmatch(r"([<>|])([a-z])([0-9]{1,2})", name.removeprefix(NUMPY_PREFIX))
    if parts is None or parts[2] not in _NUMPY_KINDS:
        return None
    storage, sizes = _NUMPY_KINDS[parts[2]]
    item_bytes = int(parts[3])
    return ElementType(storage, item_bytes, big_endian=parts[1] == ">") if item_bytes in sizes else None


def torch_names() -> tuple[str, ...]:
    return tuple(_TORCH)
