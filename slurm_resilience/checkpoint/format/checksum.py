"""The one door to the checksum: XXH3-128, as fast as memory, made to find accidents (not an adversary)."""

from __future__ import annotations

import xxhash

CHECKSUM_BYTES = 16


class Checksum:
    """A running checksum over the pieces given to `update`."""

    __slots__ = ("_hash",)

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()

    def update(self, piece: bytes | bytearray | memoryview) -> None:
        self._hash.update(piece)

    def digest(self) -> bytes:
        """16 bytes in XXH3's canonical (big-endian) order, so that hex is what `xxhsum -H2` prints."""
        return self._hash.digest()


def checksum_of(data: bytes | bytearray | memoryview) -> bytes:
    return xxhash.xxh3_128(data).digest()
