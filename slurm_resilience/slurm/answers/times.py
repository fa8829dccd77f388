"""Lengths of time as Slurm writes them."""

from __future__ import annotations

import re

_SPAN = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


def span_s(text: str) -> int | None:
    """`1-02:03:04`, `02:03:04`, `03:04` or plain seconds; None for anything else, UNLIMITED among it."""
    if text.isdigit():
        return int(text)
    found = _SPAN.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
