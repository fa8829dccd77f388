from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.disk import image_writer, shared_image
from slurm_resilience.checkpoint.disk.checksum_table import ChecksumTable
from slurm_resilience.checkpoint.disk.image import Image, Region, whole_pages
from slurm_resilience.checkpoint.disk.image_writer import write_from, write_image
from slurm_resilience.checkpoint.disk.memory import fresh_memory
from slurm_resilience.checkpoint.disk.shared_image import write_shared
from slurm_resilience.checkpoint.disk.staged_file import StagedFile
from slurm_resilience.checkpoint.format.checksum import checksum_of
from tests.unit.checkpoint.disk.layouts import Layout, layout_of, layouts
from tests.unit.checkpoint.disk.refusals import Refusals

LAYOUT = layout_of([10, 30_000, 5, 70_000, 9_000], tail_bytes=100)

Write = Callable[[Path, Layout], tuple[bytes, int]]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_writer, "_BLOCK_BYTES", 16_384)
    monkeypatch.setattr(image_writer, "_BOUNCE_BYTES", 16_384)


def _staged(final: Path, layout: Layout) -> StagedFile:
    return StagedFile(final, owner="me", file_bytes=layout.image.file_bytes)


def _from_memory(final: Path, layout: Layout) -> tuple[bytes, int]:
    memory = layout.memory(fresh_memory(whole_pages(layout.image.file_bytes)))
    with _staged(final, layout) as file:
        receipt = write_image(file, memory, layout.image)
        file.publish()
    return receipt


def _from_pieces(final: Path, layout: Layout) -> tuple[bytes, int]:
    with _staged(final, layout) as file:
        receipt = write_from(file, layout.head(), layout.image, map(memoryview, layout.elements))
        file.publish()
    return receipt


def _from_shared_memory(final: Path, layout: Layout, *, huge_pages: bool) -> tuple[bytes, int]:
    memory = layout.memory(fresh_memory(whole_pages(layout.image.file_bytes)))
    with pytest.MonkeyPatch.context() as patch, _staged(final, layout) as file:
        patch.setattr(shared_image, "shared_memory_has_huge_pages", lambda: huge_pages)
        receipt = write_shared(file, memory, layout.image)
        file.publish()
    return receipt


def _from_small_pages(final: Path, layout: Layout) -> tuple[bytes, int]:
    return _from_shared_memory(final, layout, huge_pages=False)


def _from_huge_pages(final: Path, layout: Layout) -> tuple[bytes, int]:
    return _from_shared_memory(final, layout, huge_pages=True)


WRITES = pytest.mark.parametrize("write", [_from_memory, _from_pieces, _from_small_pages, _from_huge_pages])


@WRITES
@settings(max_examples=60, deadline=None)
@given(layout=layouts(), block_pages=st.integers(1, 5))
def test_any_layout_is_written_as_the_naive_way_would(
    tmp_path_factory: pytest.TempPathFactory, write: Write, layout: Layout, block_pages: int
) -> None:
    final = tmp_path_factory.mktemp("any") / "part"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(image_writer, "_BLOCK_BYTES", block_pages * 4096)
        monkeypatch.setattr(image_writer, "_BOUNCE_BYTES", block_pages * 4096)
        digest, head_bytes = write(final, layout)
    content = layout.file()
    assert final.read_bytes() == content
    assert head_bytes == layout.image.head_bytes
    assert digest == checksum_of(content[:head_bytes])


def test_memory_may_end_in_the_middle_of_a_page(tmp_path: Path) -> None:
    memory = layout_memory = fresh_memory(LAYOUT.image.file_bytes)
    assert len(memory) % 4096
    LAYOUT.memory(layout_memory)
    with _staged(tmp_path / "part", LAYOUT) as file:
        write_image(file, memory, LAYOUT.image)
        file.publish()
    assert (tmp_path / "part").read_bytes() == LAYOUT.file()


def test_memory_that_begins_anywhere_is_written_another_way(tmp_path: Path) -> None:
    memory = LAYOUT.memory(fresh_memory(whole_pages(LAYOUT.image.file_bytes) + 1)[1:])
    with _staged(tmp_path / "part", LAYOUT) as file:
        write_image(file, memory, LAYOUT.image)
        file.publish()
    assert (tmp_path / "part").read_bytes() == LAYOUT.file()


def test_the_checksums_lie_in_memory_afterwards(tmp_path: Path) -> None:
    memory = LAYOUT.memory(fresh_memory(whole_pages(LAYOUT.image.file_bytes)))
    head = LAYOUT.head()
    with _staged(tmp_path / "part", LAYOUT) as file:
        write_image(file, memory, LAYOUT.image)
        write_from(file, head, LAYOUT.image, map(memoryview, LAYOUT.elements))
    expected = LAYOUT.file()[: LAYOUT.image.head_bytes]
    assert bytes(memory[: LAYOUT.image.head_bytes]) == expected
    assert bytes(head) == expected


def test_nothing_is_looked_at_before_it_is_there(tmp_path: Path) -> None:
    whole = LAYOUT.memory(fresh_memory(whole_pages(LAYOUT.image.file_bytes)))
    memory = fresh_memory(len(whole))
    reached = [0]

    def filled(end: int) -> None:
        if end > reached[0]:
            memory[reached[0] : end] = whole[reached[0] : end]
            reached[0] = end

    with _staged(tmp_path / "part", LAYOUT) as file:
        write_image(file, memory, LAYOUT.image, filled=filled)
        file.publish()
    assert reached == [LAYOUT.image.file_bytes]
    assert (tmp_path / "part").read_bytes() == LAYOUT.file()


def test_the_head_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets: list[int] = []
    write_block = StagedFile.write_block

    def noted(file: StagedFile, offset: int, block: memoryview) -> None:
        offsets.append(offset)
        write_block(file, offset, block)

    monkeypatch.setattr(StagedFile, "write_block", noted)
    for write in (_from_memory, _from_pieces):
        offsets.clear()
        write(tmp_path / "part", LAYOUT)
        assert offsets == [*sorted(offsets[:-1]), 0]
        assert len(offsets) > 3


@pytest.mark.parametrize("at", range(1, 9))
def test_a_snapshot_that_is_lost_comes_out_and_leaves_nothing(tmp_path: Path, at: int) -> None:
    memory = LAYOUT.memory(fresh_memory(whole_pages(LAYOUT.image.file_bytes)))
    calls: list[int] = []

    def filled(end: int) -> None:
        calls.append(end)
        if len(calls) == at:
            raise ConnectionResetError("the client is gone")

    before = threading.active_count()
    with pytest.raises(ConnectionResetError), _staged(tmp_path / "part", LAYOUT) as file:
        write_image(file, memory, LAYOUT.image, filled=filled)
    assert threading.active_count() == before
    assert list(tmp_path.iterdir()) == []


@WRITES
@pytest.mark.parametrize("at", range(1, 6))
def test_a_hash_that_fails_comes_out_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, at: int
) -> None:
    calls: list[int] = []
    pass_by = ChecksumTable.pass_by

    def failing(table: ChecksumTable, start: int, block: memoryview) -> None:
        calls.append(start)
        if len(calls) == at:
            raise MemoryError("no room for a hash")
        pass_by(table, start, block)

    monkeypatch.setattr(ChecksumTable, "pass_by", failing)
    before = threading.active_count()
    with pytest.raises(MemoryError, match="no room for a hash"):
        write(tmp_path / "part", LAYOUT)
    assert threading.active_count() == before
    assert list(tmp_path.iterdir()) == []


@WRITES
@pytest.mark.parametrize("refusal", [errno.ENOSPC, errno.EIO, errno.EINVAL])
def test_whatever_is_refused_comes_out_or_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, refusal: int
) -> None:
    refusals = Refusals(monkeypatch)
    final = tmp_path / "part"
    threads = threading.active_count()
    for number in range(1, 100):
        final.write_bytes(b"old")
        refusals.refuse(number, refusal)
        try:
            write(final, LAYOUT)
        except OSError as error:
            assert error.errno == refusal  # noqa: PT017 the last time there is none
            published = "replace" in refusals.calls[: number - 1]
        else:
            published = True
            # Refused was the way (direct), or to sync a folder's name, which some file systems have no need of.
            assert refusals.refused in (None, "pwrite", "fsync") if refusal == errno.EINVAL else not refusals.refused
        assert final.read_bytes() == (LAYOUT.file() if published else b"old")
        assert [path.name for path in tmp_path.iterdir()] == ["part"]
        assert threading.active_count() == threads
        if refusals.refused is None:
            break
    assert number > 15


@WRITES
def test_progress_is_every_byte_behind_the_head(tmp_path: Path, write: Write) -> None:
    told: list[int] = []
    with _staged(tmp_path / "part", LAYOUT) as file:
        if write is _from_memory:
            memory = LAYOUT.memory(fresh_memory(whole_pages(LAYOUT.image.file_bytes)))
            write_image(file, memory, LAYOUT.image, progress=told.append)
        else:
            write_from(file, LAYOUT.head(), LAYOUT.image, map(memoryview, LAYOUT.elements), progress=told.append)
    assert sum(told) == LAYOUT.image.file_bytes - LAYOUT.image.head_pages_bytes
    assert len(told) > 3


def test_pieces_are_asked_for_one_at_a_time_and_given_back(tmp_path: Path) -> None:
    given_out: list[memoryview] = []

    def pieces() -> Iterator[memoryview]:
        for elements in LAYOUT.elements:
            for piece in given_out:
                piece.release()  # raises if somebody still looks at it
            given_out[:] = [memoryview(elements)]
            yield given_out[0]

    with _staged(tmp_path / "part", LAYOUT) as file:
        write_from(file, LAYOUT.head(), LAYOUT.image, pieces())
        file.publish()
    assert (tmp_path / "part").read_bytes() == LAYOUT.file()


@pytest.mark.parametrize(
    ("elements", "why"),
    [
        (LAYOUT.elements[:-1], "shorter"),
        ([*LAYOUT.elements, b"more"], "longer"),
        ([*LAYOUT.elements[:-1], b"x"], "has 1 bytes, 9000 are expected"),
    ],
)
@pytest.mark.parametrize("tail_bytes", [0, 100])
def test_pieces_that_are_not_the_regions_are_refused(
    tmp_path: Path, elements: list[bytes], why: str, tail_bytes: int
) -> None:
    layout = layout_of([len(each) for each in LAYOUT.elements], tail_bytes=tail_bytes)
    with pytest.raises(ValueError, match=why), _staged(tmp_path / "part", layout) as file:
        write_from(file, layout.head(), layout.image, map(memoryview, elements))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (Image(9000, 100, 0, (Region(0, 99, 5),)), "row 0 begins at 99, before 4096"),
        (Image(9000, 100, 0, (Region(0, 4096, 5), Region(1, 4100, 5))), "row 1 begins at 4100, before 4101"),
        (Image(9000, 100, 0, (Region(6, 4096, 5),)), "the checksum of row 6 ends at 112, behind the head"),
        (Image(9000, 100, 0, (Region(0, 8999, 2),)), "the elements end at 9001, the file at 9000"),
    ],
)
def test_an_image_that_contradicts_itself_is_refused(tmp_path: Path, image: Image, why: str) -> None:
    with StagedFile(tmp_path / "part", owner="me", file_bytes=image.file_bytes) as file:
        with pytest.raises(ValueError, match=why):
            write_image(file, fresh_memory(12_288), image)
        with pytest.raises(ValueError, match=why):
            write_from(file, bytearray(100), image, [memoryview(bytes(region.bytes)) for region in image.regions])


def test_memory_or_a_head_of_another_size_is_refused(tmp_path: Path) -> None:
    with _staged(tmp_path / "part", LAYOUT) as file:
        with pytest.raises(ValueError, match=r"the memory has 4096 bytes, the file"):
            write_image(file, fresh_memory(4096), LAYOUT.image)
        with pytest.raises(ValueError, match=r"the head has 7 bytes, 5000 are expected"):
            write_from(file, bytearray(7), LAYOUT.image, [])
