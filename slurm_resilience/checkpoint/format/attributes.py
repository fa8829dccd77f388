"""The small facts of a part (whose it is, step, world size, versions), as a JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_resilience.checkpoint.format.part_format import PartError
from slurm_resilience.checkpoint.format.plain_float import encode_float, float_of_bits


@dataclass(frozen=True, slots=True)
class Facts:
    checkpoint: str
    rank: int
    attributes: dict[str, Any]


def encode_facts(checkpoint: str, rank: int, attributes: Mapping[str, Any]) -> bytes:
    """ASCII. Raises ValueError for an attribute that is none of None, bool, 64-bit integer, float and text."""
    encoded = {name: _encoded(name, value) for name, value in attributes.items()}
    document = {"checkpoint": checkpoint, "rank": rank, "attributes": encoded}
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def decode_facts(document: bytes) -> Facts:
    """Raises PartError for anything that `encode_facts` doesn't make."""
    try:
        match json.loads(document.decode("ascii")):
            case {"checkpoint": str(checkpoint), "rank": int(rank), "attributes": dict(attributes)}:
                return Facts(checkpoint, rank, {name: _decoded(value) for name, value in attributes.items()})
    except (ValueError, TypeError, RecursionError) as error:
        raise PartError(f"its attributes can't be read ({error})") from error
    raise PartError("its attributes don't say whose part it is")


def _encoded(name: object, value: object) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(name, str):
        raise ValueError(f"{name!r} can't be the name of an attribute")  # noqa: TRY004 it is the caller's value
    if plain is None or isinstance(plain, bool):
        return plain
    if isinstance(plain, float):
        return encode_float(float(plain))
    if isinstance(plain, int) and -(2**63) <= plain < 2**63:
        return int(plain)
    if isinstance(plain, str):
        return str(plain)
    raise ValueError(f"attribute {name} is not a 64-bit integer, a float, a bool, None or a text")


def _decoded(value: Any) -> Any:
    match value:
        case {"float": str(bits)}:
            return float_of_bits(bits)
        case None | bool() | int() | float() | str():
            return value
    raise PartError(f"an attribute is a {type(value).__name__}")
