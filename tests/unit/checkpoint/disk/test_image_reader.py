from __future__ import annotations

import contextlib
import errno
import gc
import os
import random
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.disk import image_reader, kernel, read_plan
from slurm_resilience.checkpoint.disk.image import PAGE_BYTES
from slurm_resilience.checkpoint.disk.image_reader import Shorter, Wanted, WrongContent, read_verified
from slurm_resilience.checkpoint.disk.memory import fresh_memory
from slurm_resilience.checkpoint.disk.open_part import OpenPart
from slurm_resilience.checkpoint.format.checksum import checksum_of
from tests.unit.checkpoint.disk.layouts import Layout, layout_of, layouts
from tests.unit.checkpoint.disk.refusals import refuse_direct

LAYOUT = layout_of([10, 30_000, 5, 70_000, 64, 9_001, 40_960], tail_bytes=100)
CONTENT = LAYOUT.file()

CACHED = pytest.mark.parametrize("cached", [True, False])


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_reader, "_DIRECT_PIECE_BYTES", 8192)
    monkeypatch.setattr(image_reader, "_CACHED_PIECE_BYTES", 4096)
    monkeypatch.setattr(read_plan, "_SMALL_BYTES", 100)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    (tmp_path / "part").write_bytes(CONTENT)
    return tmp_path / "part"


def _claim(monkeypatch: pytest.MonkeyPatch, *, cached: bool) -> None:
    monkeypatch.setattr(kernel, "is_cached", lambda descriptor, offset: cached)


def _wanted(layout: Layout, *, into: str = "pages") -> list[Wanted]:
    def room(size_bytes: int) -> memoryview | None:
        match into:
            case "pages":
                return fresh_memory(size_bytes)
            case "anywhere":
                return fresh_memory(size_bytes + 1)[1:]
            case _:
                return None

    return [
        Wanted(f"row {region.row}", region.offset, region.bytes, checksum_of(elements), room(region.bytes))
        for region, elements in zip(layout.image.regions, layout.elements, strict=True)
    ]


def _read(path: Path, wanted: list[Wanted], **named: Any) -> None:
    with OpenPart(path) as file:
        read_verified(file, wanted, **named)


@settings(max_examples=80, deadline=None)
@given(
    layout=layouts(),
    cached=st.booleans(),
    into=st.sampled_from(["pages", "anywhere", "nowhere"]),
    threads=st.integers(1, 5),
    order=st.randoms(use_true_random=False),
)
def test_any_layout_comes_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    layout: Layout,
    cached: bool,
    into: str,
    threads: int,
    order: random.Random,
) -> None:
    path = tmp_path_factory.mktemp("any") / "part"
    path.write_bytes(layout.file())
    wanted = _wanted(layout, into=into)
    shuffled = order.sample(wanted, len(wanted))
    told: list[int] = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        _claim(monkeypatch, cached=cached)
        _read(path, shuffled, threads=threads, progress=told.append)
    assert sum(told) == sum(one.bytes for one in wanted)
    for one, elements in zip(wanted, layout.elements, strict=True):
        assert one.into is None or bytes(one.into) == elements


@CACHED
@pytest.mark.parametrize("into", ["pages", "anywhere", "nowhere"])
def test_one_flipped_bit_is_found_wherever_it_is_and_named(
    part: Path, monkeypatch: pytest.MonkeyPatch, cached: bool, into: str
) -> None:
    _claim(monkeypatch, cached=cached)
    for region in LAYOUT.image.regions:
        for at in {0, region.bytes // 2, region.bytes - 1}:
            altered = bytearray(CONTENT)
            altered[region.offset + at] ^= 16
            part.write_bytes(altered)
            with pytest.raises(WrongContent, match="expected") as raised:
                _read(part, _wanted(LAYOUT, into=into))
            elements = altered[region.offset : region.offset + region.bytes]
            assert raised.value.name == f"row {region.row}"
            assert raised.value.found == checksum_of(elements)
            assert raised.value.expected == CONTENT[LAYOUT.image.checksums_offset :][16 * region.row :][:16]


@CACHED
@pytest.mark.parametrize("into", ["pages", "anywhere", "nowhere"])
def test_a_file_that_ends_too_soon_is_told_by_the_tensor_it_lacks(
    part: Path, monkeypatch: pytest.MonkeyPatch, cached: bool, into: str
) -> None:
    _claim(monkeypatch, cached=cached)
    for region in LAYOUT.image.regions:
        for left_bytes in {0, region.bytes // 2, region.bytes - 1}:
            part.write_bytes(CONTENT[: region.offset + left_bytes])
            with pytest.raises(Shorter) as raised:
                _read(part, _wanted(LAYOUT, into=into), threads=1)
            assert raised.value.name == f"row {region.row}"


@CACHED
def test_what_the_file_system_refuses_comes_out_as_it_is(
    part: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    _claim(monkeypatch, cached=cached)
    preadv, before = os.preadv, threading.active_count()
    for number in range(1, 100):
        calls: list[int] = []

        def refusing(*args: Any, calls: list[int] = calls, number: int = number) -> int:
            calls.append(1)
            if len(calls) == number:
                raise OSError(errno.EIO, "Input/output error")
            return preadv(*args)

        monkeypatch.setattr(os, "preadv", refusing)
        try:
            _read(part, _wanted(LAYOUT))
        except OSError as error:
            assert error.errno == errno.EIO  # noqa: PT017 the last time there is none
        else:
            assert len(calls) < number
            break
        assert threading.active_count() == before
    assert number > 10


def test_where_nothing_is_read_directly_it_is_read_all_the_same(part: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for when in ("opened", "read"):
        with pytest.MonkeyPatch.context() as refusing:
            _claim(refusing, cached=False)
            refuse_direct(refusing, errno.EINVAL, when=when)
            wanted = _wanted(LAYOUT)
            _read(part, wanted)
        assert [bytes(one.into or b"") for one in wanted] == LAYOUT.elements


@CACHED
def test_reads_that_come_short_are_gone_on_with(part: Path, monkeypatch: pytest.MonkeyPatch, cached: bool) -> None:
    _claim(monkeypatch, cached=cached)
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda at, pieces, *rest: preadv(at, [pieces[0][:1000]], *rest))
    wanted = _wanted(LAYOUT)
    _read(part, wanted)
    assert [bytes(one.into or b"") for one in wanted] == LAYOUT.elements


@CACHED
@pytest.mark.parametrize("into", ["pages", "nowhere"])
def test_pieces_may_come_in_another_order_than_they_are_hashed(
    part: Path, monkeypatch: pytest.MonkeyPatch, cached: bool, into: str
) -> None:
    """The first piece comes when the other thread waits for it, or has read all the others."""
    _claim(monkeypatch, cached=cached)
    others_are_done = threading.Event()

    class Condition(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            others_are_done.set()
            return super().wait(timeout)

    monkeypatch.setattr(threading, "Condition", Condition)
    at = max(range(len(LAYOUT.elements)), key=lambda each: len(LAYOUT.elements[each]))
    wanted = [_wanted(LAYOUT, into=into)[at]]
    preadv, asked = os.preadv, [0]

    def late(descriptor: int, pieces: list[memoryview], offset: int) -> int:
        asked[0] += len(pieces[0])
        if offset == wanted[0].offset:
            assert others_are_done.wait(100)
        elif asked[0] >= wanted[0].bytes:
            others_are_done.set()
        return preadv(descriptor, pieces, offset)

    monkeypatch.setattr(os, "preadv", late)
    _read(part, wanted, threads=2)
    assert wanted[0].into is None or bytes(wanted[0].into) == LAYOUT.elements[at]


@pytest.mark.parametrize("into", ["pages", "anywhere", "nowhere"])
def test_what_is_read_directly_is_whole_pages_in_whole_pages(
    part: Path, monkeypatch: pytest.MonkeyPatch, into: str
) -> None:
    _claim(monkeypatch, cached=False)
    read_pages = OpenPart.read_pages
    asked: list[int] = []

    def checked(file: OpenPart, offset: int, pages: memoryview) -> int:
        asked.extend([offset, len(pages), kernel.address_of(pages)])
        return read_pages(file, offset, pages)

    monkeypatch.setattr(OpenPart, "read_pages", checked)
    _read(part, _wanted(LAYOUT, into=into))
    assert asked
    assert {number % PAGE_BYTES for number in asked} == {0}


def test_an_interrupt_of_the_first_thread_stops_all(part: Path) -> None:
    def progress(_: int) -> None:
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        _read(part, _wanted(LAYOUT), progress=progress)
    assert threading.active_count() == before


@CACHED
def test_memory_of_a_damaged_part_is_free_as_soon_as_nobody_looks_at_it(
    part: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    _claim(monkeypatch, cached=cached)
    part.write_bytes(bytes(len(CONTENT)))
    wanted = _wanted(LAYOUT)
    memory = [weakref.ref(one.into.obj) for one in wanted if one.into is not None]
    gc.disable()  # an older checkpoint is read next, and the memory for it may not wait for this
    try:
        with contextlib.suppress(WrongContent):
            _read(part, wanted)
        del wanted
        assert {each() for each in memory} == {None}
    finally:
        gc.enable()


def test_only_what_is_wanted_is_asked_for_in_the_page_cache(part: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def is_cached(descriptor: int, offset: int) -> bool:
        asked.append(offset)
        return True

    monkeypatch.setattr(kernel, "is_cached", is_cached)
    wanted = _wanted(LAYOUT)[1:4:2]
    _read(part, wanted)
    assert asked
    assert all(any(one.offset <= at < one.offset + one.bytes for one in wanted) for at in asked)


def test_what_was_written_a_moment_ago_is_in_the_page_cache(part: Path) -> None:
    with OpenPart(part) as file:
        assert file.is_cached([0, len(CONTENT) // 2, len(CONTENT) - 1])
        assert not file.is_cached([len(CONTENT)])


def test_room_of_another_size_is_refused_before_anything_is_read(part: Path) -> None:
    wanted = Wanted("w", 0, 5, b"", fresh_memory(4))
    with pytest.raises(ValueError, match="w has 5 bytes, there is room for 4"):
        _read(part, [wanted])


def test_nothing_is_read_where_nothing_is_wanted(part: Path) -> None:
    _read(part, [])


def test_a_tensor_without_elements_has_a_checksum_too(part: Path) -> None:
    _read(part, [Wanted("none", 4096, 0, checksum_of(b""), fresh_memory(0))])
    with pytest.raises(WrongContent):
        _read(part, [Wanted("none", 4096, 0, bytes(16), None)])


def test_elements_of_every_shape_and_width_are_filled(part: Path) -> None:
    region = LAYOUT.image.regions[6]
    room: Any = fresh_memory(region.bytes).cast("d", (2, 10, region.bytes // 160))
    _read(part, [Wanted("shaped", region.offset, region.bytes, checksum_of(LAYOUT.elements[6]), room)])
    assert room.tobytes() == LAYOUT.elements[6]


def test_a_part_says_how_long_it_is_and_reads_at_any_place(part: Path) -> None:
    with OpenPart(part) as file:
        assert file.size_bytes() == len(CONTENT)
        piece = memoryview(bytearray(100))
        assert file.read_into(4000, piece)
        assert bytes(piece) == CONTENT[4000:4100]
        assert not file.read_into(len(CONTENT) - 99, piece)
    with pytest.raises(ValueError, match="is not open"):
        file.size_bytes()
