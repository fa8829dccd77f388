"""Messages as lines of text that survive company: login scripts that print, other tasks, lines that were cut. Pure.

A message is JSON, compressed, in parts of one line each:

    %pf1 SENDER NUMBER PART/PARTS CHECKSUM BASE64%

None of the letters of base64 is the mark's, so that a part is found wherever it stands in a line, whatever was glued to
either end of it. slurmstepd splits lines of more than 1024 bytes: ours are shorter.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CONDUCTOR = -1
"""The sender's number of who is no task."""
LONGEST_PART = 800
"""Of base64, in bytes: with what stands before it a line stays below 900."""
LARGEST_MESSAGE = 16 << 20
"""Of JSON, in bytes; larger ones are not ours."""
MOST_PARTS = LARGEST_MESSAGE // LONGEST_PART
_PART = re.compile(r"%pf1 (-?\d{1,9}) (\d{1,9}) (\d{1,9})/(\d{1,9}) ([0-9a-f]{8}) ([A-Za-z0-9+/=]*)%")


@dataclass(frozen=True, slots=True)
class Message:
    sender: int
    number: int
    value: Mapping[str, Any]


def lines_of(sender: int, number: int, value: Mapping[str, Any]) -> list[str]:
    """With their newlines. `number` tells the messages of one sender apart."""
    packed = zlib.compress(json.dumps(value, default=str).encode(), 6)
    text = base64.b64encode(packed).decode("ascii")
    parts = [text[start : start + LONGEST_PART] for start in range(0, len(text), LONGEST_PART)]
    lines = []
    for index, part in enumerate(parts, 1):
        head = f"{sender} {number} {index}/{len(parts)}"
        lines.append(f"%pf1 {head} {_checksum(head, part)} {part}%\n")
    return lines


def _checksum(head: str, part: str) -> str:
    return f"{zlib.crc32(f'{head} {part}'.encode()):08x}"


@dataclass(slots=True)
class Collector:
    """Puts messages together again, each once, however their parts come in."""

    _parts: dict[tuple[int, int], dict[int, str]] = field(default_factory=dict)
    _done: set[tuple[int, int]] = field(default_factory=set)

    def hear(self, line: str) -> tuple[list[Message], str]:
        """The messages that `line` has made whole, and what else stood in it: noise, stripped."""
        messages = []
        for match in _PART.finditer(line):
            message = self._take(*match.groups())
            if message is not None:
                messages.append(message)
        return messages, _PART.sub("", line).strip()

    def _take(self, sender: str, number: str, index: str, count: str, checksum: str, part: str) -> Message | None:
        head = f"{sender} {number} {index}/{count}"
        key, parts = (int(sender), int(number)), int(count)
        if _checksum(head, part) != checksum or not 1 <= int(index) <= parts <= MOST_PARTS or key in self._done:
            return None
        known = self._parts.setdefault(key, {})
        known[int(index)] = part
        if len(known) < parts:
            return None
        del self._parts[key]
        self._done.add(key)
        value = _value_of("".join(known[each] for each in sorted(known)))
        return None if value is None else Message(*key, value)


def _value_of(text: str) -> dict[str, Any] | None:
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(base64.b64decode(text, validate=True), LARGEST_MESSAGE)
        value = json.loads(plain)
    except (binascii.Error, zlib.error, ValueError):
        return None
    return value if isinstance(value, dict) else None
