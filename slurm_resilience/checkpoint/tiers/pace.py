"""A bucket of bytes: how long to wait so that no more than so many a second pass. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_UNITS = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "KI": 1 << 10,
    "MI": 1 << 20,
    "GI": 1 << 30,
    "TI": 1 << 40,
}
_RATE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?)\s*(?P<unit>[KMGT]?I?)B?(/S)?")


@dataclass(frozen=True, slots=True)
class Pace:
    bytes_per_s: float
    burst_bytes: float
    """How much may pass at once after a rest."""
    left_bytes: float
    """What the bucket holds; below zero: spent ahead, to be waited for."""
    at_s: float

    @classmethod
    def of(cls, bytes_per_s: float, *, now_s: float, burst_s: float = 0.1) -> Pace:
        """A full bucket of `burst_s` seconds."""
        if not bytes_per_s > 0:
            raise ValueError(f"a pace of {bytes_per_s} bytes/s: nothing would ever pass")
        burst_bytes = bytes_per_s * burst_s
        return cls(bytes_per_s, burst_bytes, burst_bytes, now_s)

    def spend(self, count: int, now_s: float) -> tuple[Pace, float]:
        """`count` bytes pass: what the bucket is then, and the seconds to sleep before the next. A clock that went
        backwards fills nothing."""
        refill = max(0.0, now_s - self.at_s) * self.bytes_per_s
        left_bytes = min(self.burst_bytes, self.left_bytes + refill) - count
        return replace(self, left_bytes=left_bytes, at_s=max(now_s, self.at_s)), max(
            0.0, -left_bytes / self.bytes_per_s
        )


def parse_rate(text: str) -> float:
    """`200MB/s`, `1.5 GiB`, `300000`: bytes a second. Raises ValueError, in a sentence."""
    match = _RATE.fullmatch(text.strip().upper())
    bytes_per_s = float(match["number"]) * _UNITS[match["unit"]] if match and match["unit"] in _UNITS else 0.0
    if bytes_per_s <= 0:
        raise ValueError(f"{text!r} is no rate: say it like 200MB/s or 1.5GiB/s")
    return bytes_per_s
