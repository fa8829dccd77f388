from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.disk.image import PAGE_BYTES
from slurm_resilience.checkpoint.disk.read_plan import Extent, Part, Piece, pieces_of

PIECE_BYTES = 1 << 20
SIZES = st.one_of(st.integers(0, 300), st.integers(0, 3 << 20))
EXTENTS = st.lists(st.builds(Extent, offset=st.integers(0, 20 << 20), bytes=SIZES), max_size=12)


def _plan(*extents: Extent) -> list[Piece]:
    return list(pieces_of(extents, PIECE_BYTES))


@given(EXTENTS)
def test_every_byte_of_every_tensor_is_read_once_and_in_order(extents: list[Extent]) -> None:
    reached = [0] * len(extents)
    met: set[int] = set()
    for piece in pieces_of(extents, PIECE_BYTES):
        for part in piece.parts:
            assert part.start == reached[part.which]
            reached[part.which] += part.bytes
            met.add(part.which)
            at = extents[part.which].offset + part.start
            assert piece.offset <= at
            assert at + part.bytes <= piece.offset + piece.bytes
    assert reached == [extent.bytes for extent in extents]
    assert met == set(range(len(extents))), "tensors without elements have a checksum too"


@given(EXTENTS)
def test_no_piece_is_larger_than_asked_and_none_goes_back(extents: list[Extent]) -> None:
    pieces = list(pieces_of(extents, PIECE_BYTES))
    assert all(piece.bytes <= PIECE_BYTES for piece in pieces)
    apart = all(
        one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset
        for number, one in enumerate(extents)
        for other in extents[:number]
    )
    if apart:
        assert [piece.offset for piece in pieces] == sorted(piece.offset for piece in pieces)


def test_small_tensors_that_are_close_come_together() -> None:
    assert _plan(Extent(PAGE_BYTES, 10), Extent(0, 100)) == [
        Piece(0, PAGE_BYTES + 10, (Part(1, 0, 100), Part(0, 0, 10)))
    ]


def test_small_tensors_far_from_each_other_come_apart() -> None:
    assert len(_plan(Extent(0, 10), Extent(1 << 16, 10))) == 2


def test_a_large_tensor_comes_in_pieces_of_its_own() -> None:
    size_bytes = 2 * PIECE_BYTES + 5
    plan = _plan(Extent(0, 10), Extent(PAGE_BYTES, size_bytes), Extent(PAGE_BYTES + size_bytes, 10))
    assert [piece.bytes for piece in plan] == [10, PIECE_BYTES, PIECE_BYTES, 5, 10]


def test_tensors_that_share_bytes_are_both_read() -> None:
    assert [part.which for piece in _plan(Extent(0, 10), Extent(0, 10)) for part in piece.parts] == [0, 1]
