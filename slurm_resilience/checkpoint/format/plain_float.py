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
    value: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    return value
