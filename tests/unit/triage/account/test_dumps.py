"""Flight recorder dumps: what is read of them, who is behind by them, and what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.triage.account.collectives import Collective, Dump, Trouble, ranks_text, who_is_behind
from slurm_resilience.triage.account.flight_recorder import HEAD_BYTES, is_dump, parse, rank_of, read_dumps
from slurm_resilience.triage.account.restricted_pickle import NotPlain, load

UNHURRIED = settings(deadline=None)  # the machine may be busy
REAL = Path(__file__).parent / "dumps"
"""Written by torch 2.13 with gloo on three ranks (`_dump_fr_trace`, `_dump_fr_trace_json`); paths were changed."""


def real(name: str) -> list[Path]:
    return sorted((REAL / name).iterdir())


@pytest.mark.parametrize(
    ("name", "rank", "trouble", "words"),
    [
        ("behind", 2, Trouble.BEHIND, "rank 2 had last called 3, all_reduce of 4 Float (train.py:7 in step)"),
        ("as-json", 2, Trouble.BEHIND, "while rank 0 waited in 4 of group 0:default_pg"),
        ("mismatch", 1, Trouble.MISMATCH, "rank 1 called broadcast of 4 Float"),
    ],
)
def test_torchs_own_dumps_name_the_rank(name: str, rank: int, trouble: Trouble, words: str) -> None:
    read = read_dumps(real(name))
    assert read.unread == ()
    behind = who_is_behind(read.dumps)
    assert behind is not None
    assert (behind.ranks, behind.trouble) == ((rank,), trouble)
    assert words in behind.sentence


def test_a_rank_without_a_dump_is_the_first_suspect() -> None:
    behind = who_is_behind(read_dumps(real("behind")[:2]).dumps)
    assert behind is not None
    assert (behind.ranks, behind.trouble) == ((2,), Trouble.MISSING)


def test_one_dump_of_many_ranks_says_nothing_about_the_others() -> None:
    assert who_is_behind(read_dumps(real("behind")[:1]).dumps) is None
    assert who_is_behind(()) is None


def test_dumps_are_known_by_what_stands_in_them() -> None:
    for path in [*real("behind"), *real("as-json")]:
        assert is_dump(path.name, path.read_bytes()[:HEAD_BYTES])
    assert not is_dump("notes_3", b"\x80\x04\x95 some other pickle")
    assert not is_dump("log_3.json", b'{"loss": 3}')
    assert not is_dump("train.log", b"version pg_config entries")
    assert (rank_of("comm_lib_trace_rank_12"), rank_of("nccl_trace_rank_3.json"), rank_of("dump")) == (12, 3, None)


def calls(rank: int, *named: str, group: str = "0:default", sizes: tuple[int, ...] = (4,)) -> Dump:
    entries = tuple(Collective(group, at, name, "scheduled", (sizes,), ("Float",)) for at, name in enumerate(named, 1))
    return Dump(rank, f"rank_{rank}", "2.10", entries, {group: frozenset(range(3))})


def test_ranks_that_did_the_same_are_nobodys_suspects() -> None:
    assert who_is_behind([calls(rank, "all_reduce", "barrier") for rank in range(3)]) is None


def test_who_called_nothing_in_a_group_of_its_own_is_behind() -> None:
    behind = who_is_behind([calls(0, "all_reduce"), calls(1, "all_reduce"), calls(2)])
    assert behind is not None
    assert behind.ranks == (2,)
    assert "had called none" in behind.sentence


def test_sizes_may_differ_only_where_they_may() -> None:
    different = [calls(0, "all_reduce"), calls(1, "all_reduce", sizes=(9,)), calls(2, "all_reduce")]
    behind = who_is_behind(different)
    assert behind is not None
    assert (behind.ranks, behind.trouble) == ((1,), Trouble.MISMATCH)
    assert who_is_behind([calls(rank, "all_to_all", sizes=(rank,)) for rank in range(3)]) is None


def test_ranks_are_listed_in_ranges() -> None:
    assert (ranks_text((3,)), ranks_text((0, 1, 2, 7))) == ("rank 3", "ranks 0-2, 7")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/never",)


HOSTILE = {
    "a call": pickle.dumps({"version": "2.10", "entries": [Evil()]}),
    "a class": pickle.dumps({"version": "2.10", "entries": [Path("x")]}),
    "a function": pickle.dumps({"entries": print}),
    "a set": pickle.dumps({"entries": {1, 2}}),
    "a byte array of many bytes": b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00.",
    "a memo of many places": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "an old protocol's name": b"\x80\x02cos\nsystem\n(S'true'\ntR.",
    "something outside": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "no end": pickle.dumps({"version": "2.10", "entries": []}, 2)[:-4],
    "nothing": b"",
    "no pickle": b"\x80\x80\x80\x80",
    "no json": b'{"version": ',
    "deep json": b'{"a":' * 100_000,
    "a list": pickle.dumps([1, 2]),
    "other entries": pickle.dumps({"version": "9", "entries": [{"new": 1}]}),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_plain_dump_is_refused_in_one_sentence(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "comm_lib_trace_rank_0"
    path.write_bytes(data)
    read = read_dumps([path])
    assert read.dumps == ()
    assert len(read.unread) == 1
    assert str(path) in read.unread[0].why
    assert "\n" not in read.unread[0].why
    assert not Path("/tmp/never").exists()


@UNHURRIED
@given(st.binary(max_size=300))
def test_bytes_of_any_kind_are_a_plain_value_or_refused(data: bytes) -> None:
    with contextlib.suppress(NotPlain):
        load(b"\x80\x02" + data)


@UNHURRIED
@given(st.integers(0, 2400), st.integers(0, 255))
def test_a_dump_with_one_wrong_byte_is_read_or_refused(at: int, byte: int) -> None:
    data = bytearray(real("behind")[0].read_bytes())
    data[min(at, len(data) - 1)] = byte
    try:
        dump = parse(bytes(data), "dump", 0)
    except NotPlain:
        return
    assert who_is_behind([dump]) is None or dump.members


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@UNHURRIED
@given(PLAIN, st.integers(3, 4))
def test_plain_values_come_back_as_they_were(value: object, protocol: int) -> None:
    assert load(pickle.dumps(value, protocol)) == value


def test_entries_with_odd_values_cost_nobody_the_others(tmp_path: Path) -> None:
    good = {"process_group": ["0", "default_pg"], "collective_seq_id": 1, "profiling_name": "nccl:all_reduce"}
    odd = [{**good, "input_sizes": "x", "frames": [3]}, {**good, "collective_seq_id": -1}, {**good, "process_group": 3}]
    text = json.dumps({"version": "2.10", "entries": [*odd, None, good], "pg_config": {"0": {"ranks": "[0, 1"}}})
    dump = parse(text.encode(), "dump", 3)
    assert [entry.name for entry in dump.entries] == ["all_reduce", "all_reduce"]
    assert dump.members == {}
