"""Names of tensors: the path through the nested state, each key made fit for HDF5 and for people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


def segments_of(keys: Iterable[Any]) -> list[str]:
    """One path segment a key, all different: int 0 and text "0" in one dict become `0` and `0~2`."""
    taken: set[str] = set()
    segments: list[str] = []
    for key in keys:
        plain = _escaped(key if isinstance(key, str) else in_words(key))
        segment, number = plain, 1
        while segment in taken:
            number += 1
            segment = f"{plain}~{number}"
        taken.add(segment)
        segments.append(segment)
    return segments


def in_words(value: object) -> str:
    """`repr`, for integers of any size: Python refuses to write more than 4300 decimal digits."""
    return hex(value) if isinstance(value, int) and value.bit_length() > 64 else repr(value)


def _escaped(text: str) -> str:
    """Without `/`, which separates, and without what HDF5 can't have in a link: NUL, lone surrogates, `.`, nothing."""
    if text == "":
        return "%"
    if text == ".":
        return "%2E"
    return re.sub(r"[%/\0\ud800-\udfff]", _percent, text)


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))
