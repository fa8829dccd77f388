"""A reader is given logs that were spoilt in every way we can think of, and says nothing that isn't there."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from slurm_resilience.triage.known.table import TABLE
from slurm_resilience.triage.reading.matcher import WORDS
from slurm_resilience.triage.reading.read_logs import read_logs

LOGS = sorted((Path(__file__).parents[1] / "unit/triage/reading/logs").rglob("*.log"))
SEED = 20260101
COUNT = 120
Spoil = Callable[[Random, bytes], bytes]


def _bits(lot: Random, log: bytes) -> bytes:
    spoilt = bytearray(log)
    for _ in range(lot.randrange(1, 200)):
        spoilt[lot.randrange(len(spoilt))] ^= 1 << lot.randrange(8)
    return bytes(spoilt)


def _junk(lot: Random, log: bytes) -> bytes:
    at = lot.randrange(len(log))
    return log[:at] + lot.randbytes(lot.randrange(5000)) + log[at:]


def _hole(lot: Random, log: bytes) -> bytes:
    at = lot.randrange(len(log))
    return log[:at] + bytes(lot.randrange(1 << 20)) + log[at:]


def _cut(lot: Random, log: bytes) -> bytes:
    first, last = sorted(lot.randrange(len(log)) for _ in range(2))
    return log[first:last]


def _shuffled(lot: Random, log: bytes) -> bytes:
    lines = log.splitlines(keepends=True)
    lot.shuffle(lines)
    return b"".join(lines)


def _interleaved(lot: Random, log: bytes) -> bytes:
    other = lot.choice(LOGS).read_bytes()
    ways = [log.splitlines(keepends=True), other.splitlines(keepends=True)]
    lines = []
    while ways[0] or ways[1]:
        way = lot.randrange(2)
        if ways[way]:
            lines.append(b"%d: " % way + ways[way].pop(0) if lot.random() < 0.9 else ways[way].pop(0))
    return b"".join(lines)


def _without_newlines(lot: Random, log: bytes) -> bytes:
    return log.replace(b"\n", lot.choice([b"", b"\r", b" ", b"\r\r"])) * lot.randrange(1, 60)


def _many_times(lot: Random, log: bytes) -> bytes:
    return log * lot.randrange(2, 30)


def _coloured(lot: Random, log: bytes) -> bytes:
    return b"".join(
        lot.choice([b"\x1b[31m", b"\x1b[", b"\x1b]0;x\x07", b""]) + line for line in log.splitlines(keepends=True)
    )


def _packed(lot: Random, log: bytes) -> bytes:
    packed = gzip.compress(log)
    return _cut(lot, packed) if lot.random() < 0.5 else _bits(lot, packed)


KINDS: tuple[Spoil, ...] = (
    _bits, _junk, _hole, _cut, _shuffled, _interleaved, _without_newlines, _many_times, _coloured, _packed,
)  # fmt: skip


@pytest.mark.parametrize("spoil", KINDS, ids=lambda spoil: spoil.__name__[1:])
def test_a_spoilt_log_is_read_and_nothing_is_made_up(tmp_path: Path, spoil: Spoil) -> None:
    path = tmp_path / "slurm-7.out"
    for number in range(COUNT // len(KINDS)):
        lot = Random(f"{SEED}:{number}")
        log = spoil(lot, lot.choice(LOGS).read_bytes())
        path.write_bytes(log)
        report = read_logs([path], TABLE, workers=0)
        (file,) = report.files
        if spoil is not _packed:
            assert file.size_bytes == len(log)
            assert file.lines == log.count(b"\n") + (not log.endswith(b"\n") and bool(log)), number
        for event in report.events:
            assert 1 <= event.place.line <= max(1, file.lines), number
            assert len(event.text) <= WORDS + 1, number
            assert event.count >= 1, number
        assert report == read_logs([path], TABLE, workers=0)
