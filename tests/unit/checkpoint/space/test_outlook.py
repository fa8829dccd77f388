from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.space.outlook import Coming, Fine, Tight, TooSmall, outlook, saves_ahead
from slurm_resilience.checkpoint.space.room import Room

GIB = 1 << 30


def test_what_retention_frees_counts_only_behind_the_save_that_lets_it_go() -> None:
    coming = saves_ahead([GIB, GIB], next_bytes=GIB, files=4, keep_last=2, count=3)
    assert coming == [Coming(GIB, 4, GIB, 4)] * 3
    assert outlook(Room(GIB, None), coming) == Fine(3)
    assert isinstance(outlook(Room(GIB - 1, None), coming), TooSmall)


def test_a_run_that_has_fewer_than_it_keeps_frees_nothing_yet() -> None:
    coming = saves_ahead([GIB], next_bytes=2 * GIB, files=1, keep_last=3, count=3)
    assert [each.freed_bytes for each in coming] == [0, 0, GIB]


@pytest.mark.parametrize(
    ("room", "reserve_bytes", "expected"),
    [
        pytest.param(
            Room(5 * GIB, None),
            0,
            Tight(2, "the next 2 checkpoints fit, not 3: it takes 2 GiB and finds 1 GiB (5 GiB free)"),
            id="two of three",
        ),
        pytest.param(
            Room(5 * GIB, None),
            2 * GIB,
            Tight(
                1,
                "the next checkpoint fits, not 2: it takes 2 GiB and finds 1 GiB "
                "(5 GiB free, 2 GiB of them kept in reserve)",
            ),
            id="one, with a reserve",
        ),
        pytest.param(
            Room(9 * GIB, None, GIB),
            0,
            TooSmall("the next checkpoint doesn't fit: it takes 2 GiB and finds 1 GiB (1 GiB left of the quota)"),
            id="the quota is narrower",
        ),
        pytest.param(
            Room(9 * GIB, 6),
            0,
            Tight(
                1,
                "the next checkpoint fits, not 2: it takes 4 files, and the file system has 2 left (9 GiB free)",
            ),
            id="too few files",
        ),
        pytest.param(
            Room(0, None),
            GIB,
            TooSmall(
                "the next checkpoint doesn't fit: it takes 2 GiB and finds 0 bytes "
                "(0 bytes free, 1 GiB of them kept in reserve)"
            ),
            id="nothing at all",
        ),
    ],
)
def test_the_verdict_says_how_many_fit_and_with_which_numbers(room: Room, reserve_bytes: int, expected: object) -> None:
    assert outlook(room, [Coming(2 * GIB, 4)] * 3, reserve_bytes=reserve_bytes) == expected


@given(
    st.integers(0, 50),
    st.lists(st.builds(Coming, st.integers(0, 20), st.just(1), st.integers(0, 20), st.just(1)), min_size=1, max_size=8),
    st.integers(1, 30),
)
def test_more_room_never_fits_less(free: int, coming: list[Coming], more: int) -> None:
    def fitting(bytes_: int) -> int:
        found = outlook(Room(bytes_, None), coming)
        return 0 if isinstance(found, TooSmall) else found.saves

    assert fitting(free + more) >= fitting(free)


def test_a_retention_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="keep_last is 0"):
        saves_ahead([], next_bytes=1, files=1, keep_last=0, count=1)
