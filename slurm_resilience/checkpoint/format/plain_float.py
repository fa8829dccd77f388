"""Floats in JSON, exactly: a finite one as itself, every other by its bits."""

from __future__ import annotations

import math
import struct
from typing import Any


def encode_float(value: float) -> Any:
    """JSON's shortest decimal digits give a finite float back; infinities and NaNs it can't say."""
    return value if math.isfinite(value) else {"float": float_bits(value)}


def float_bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def float_of_bits(bits: str) -> float:
    raw = bytes.fromhex(bits)
    if len(raw) != 8:
        raise ValueError(f"{bits[:40]!r} are not the bits of a float")
    value: float = struct.unpack(">d", raw)[0]
    return value
