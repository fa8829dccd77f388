"""Element types as HDF5 types, so that h5py and h5dump show the true numbers wherever HDF5 can say them."""

from __future__ import annotations

from typing import Any

from h5py import h5t

from slurm_resilience.checkpoint.format.element_type import ElementType, Storage


def hdf5_type(element: ElementType) -> Any:
    size = element.item_bytes
    order = "BE" if element.big_endian else "LE"
    match element.storage:
        case Storage.SIGNED:
            return getattr(h5t, f"STD_I{size * 8}{order}")
        case Storage.UNSIGNED | Storage.RAW:
            return getattr(h5t, f"STD_U{size * 8}{order}")
        case Storage.FLOAT:
            return getattr(h5t, f"IEEE_F{size * 8}{order}")
        case Storage.BOOL:
            boolean = h5t.enum_create(h5t.STD_I8LE)
            boolean.enum_insert(b"FALSE", 0)
            boolean.enum_insert(b"TRUE", 1)
            return boolean
        case Storage.BFLOAT16:
            short = h5t.IEEE_F32LE.copy()
            short.set_fields(15, 7, 8, 0, 7)  # sign bit, exponent from and wide, mantissa from and wide
            short.set_size(2)
            short.set_ebias(127)
            return short
        case Storage.COMPLEX:
            half = getattr(h5t, f"IEEE_F{size * 4}{order}")
            pair = h5t.create(h5t.COMPOUND, size)
            pair.insert(b"r", 0, half)
            pair.insert(b"i", size // 2, half)
            return pair
