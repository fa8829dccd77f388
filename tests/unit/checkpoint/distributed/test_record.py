"""checkpoint.json: what was written comes back, and nothing else is believed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.distributed.record import (
    Chunk,
    NotARecord,
    Record,
    SavedTensor,
    UnknownRecord,
    decode,
    encode,
)
from slurm_resilience.checkpoint.store import PartReceipt

NUMBERS = st.lists(st.integers(0, 2**40), max_size=3).map(tuple)
CHUNKS = st.builds(Chunk, NUMBERS, NUMBERS, st.integers(0, 9999))
TENSORS = st.builds(SavedTensor, st.just("bfloat16"), NUMBERS, st.booleans(), st.lists(CHUNKS, max_size=3).map(tuple))
RECEIPTS = st.builds(PartReceipt, st.integers(0, 9999), st.text(), st.integers(0), st.text())
RECORDS = st.builds(
    Record,
    st.lists(RECEIPTS, max_size=2).map(tuple),
    st.dictionaries(st.text(), TENSORS, max_size=3),
    st.dictionaries(st.text(), st.integers(0, 99), max_size=3),
    st.none() | st.dictionaries(st.text(), st.integers()),
    st.just("2.13"),
)
ONE = Record(
    (PartReceipt(0, "checkpoints/save-0/rank-00000.h5", 5000, "xxh3-128:00:4096"),),
    {"w": SavedTensor("float32", (4,), False, (Chunk((0,), (4,), 0),))},
    {"step": 0},
    {"dict": [["w", "w"]]},
    "2.13",
)


@given(RECORDS)
def test_a_record_comes_back_as_it_was(record):
    assert decode(encode(record)) == record


@given(st.data())
def test_no_altered_byte_is_believed(data):
    written = encode(ONE)
    at = data.draw(st.integers(0, len(written) - 2))
    altered = bytearray(written)
    altered[at] ^= data.draw(st.integers(1, 255))
    try:
        believed = decode(bytes(altered))
    except (NotARecord, UnknownRecord):
        return
    assert believed == ONE  # JSON's white space, or a key that nobody reads


@given(st.integers(0, 200))
def test_a_torn_record_is_not_believed(length):
    with pytest.raises(NotARecord):
        decode(encode(ONE)[:length])


def test_a_record_of_a_later_version_is_told_from_a_damaged_one() -> None:
    later = json.loads(encode(ONE))
    later["format_version"] = 2
    with pytest.raises(UnknownRecord):
        decode(json.dumps(later).encode())
