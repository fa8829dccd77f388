from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.disk import kernel, staged_file
from slurm_resilience.checkpoint.disk.image import PAGE_BYTES, whole_pages
from slurm_resilience.checkpoint.disk.memory import fresh_memory
from slurm_resilience.checkpoint.disk.staged_file import StagedFile, Way, is_staging, staging_path
from tests.unit.checkpoint.disk.refusals import Refusals, open_descriptors, refuse_direct, refuse_uncached, take_little

BLOCKS = 6
BLOCK_BYTES = 2 * PAGE_BYTES
FILE_BYTES = BLOCKS * BLOCK_BYTES - 1000
CONTENT = bytes(range(1, 252)) * (FILE_BYTES // 200)


def _memory() -> memoryview:
    memory = fresh_memory(whole_pages(FILE_BYTES))
    memory[:] = CONTENT[: len(memory)]
    return memory


def _write(final: Path) -> Way:
    memory = _memory()
    with StagedFile(final, owner="me", file_bytes=FILE_BYTES) as file:
        for start in range(BLOCK_BYTES, len(memory), BLOCK_BYTES):
            file.write_block(start, memory[start : start + BLOCK_BYTES])
        file.write_at(0, memory[:BLOCK_BYTES])
        file.publish()
        return file.way


def test_a_staging_name_says_whose_it_is_and_is_never_twice_the_same(tmp_path: Path) -> None:
    names = {staging_path(tmp_path / "part.h5", "step-1.a1") for _ in range(9)}
    assert len(names) == 9
    assert all(is_staging(name) and name.name.startswith(".part.h5.step-1.a1.") for name in names)
    assert not is_staging(tmp_path / "part.h5")


def test_a_file_ends_where_it_was_said_to_and_not_with_its_last_page(tmp_path: Path) -> None:
    _write(tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == CONTENT[:FILE_BYTES]


@pytest.mark.parametrize("file_bytes", [0, 1, PAGE_BYTES])
def test_a_file_nobody_wrote_to_is_zeros(tmp_path: Path, file_bytes: int) -> None:
    with StagedFile(tmp_path / "part", owner="me", file_bytes=file_bytes) as file:
        file.publish()
    assert (tmp_path / "part").read_bytes() == bytes(file_bytes)


def test_nobody_finds_a_file_before_it_is_published(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"old")
    with StagedFile(tmp_path / "part", owner="me", file_bytes=1) as file:
        file.write_at(0, memoryview(b"n"))
        assert (tmp_path / "part").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["part"]
    assert (tmp_path / "part").read_bytes() == b"old"


def test_blocks_are_whole_pages_in_whole_pages(tmp_path: Path) -> None:
    with StagedFile(tmp_path / "part", owner="me", file_bytes=FILE_BYTES) as file:
        for offset, size_bytes in [(1, PAGE_BYTES), (0, PAGE_BYTES - 1)]:
            with pytest.raises(ValueError, match="are not whole pages"):
                file.write_block(offset, memoryview(bytes(size_bytes)))


def test_a_file_that_is_closed_takes_nothing(tmp_path: Path) -> None:
    file = StagedFile(tmp_path / "part", owner="me", file_bytes=1)
    with pytest.raises(ValueError, match="is not open"):
        file.write_block(0, fresh_memory(PAGE_BYTES))


@pytest.mark.parametrize("when", ["opened", "written"])
@pytest.mark.parametrize("refusal", [errno.EINVAL, errno.EOPNOTSUPP])
def test_where_nothing_goes_directly_it_goes_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, refusal: int
) -> None:
    refuse_direct(monkeypatch, refusal, when=when)
    assert _write(tmp_path / "part") in ("dontcache", "buffered")
    assert (tmp_path / "part").read_bytes() == CONTENT[:FILE_BYTES]


@pytest.mark.parametrize("refusal", [errno.EINVAL, errno.EOPNOTSUPP])
def test_where_the_page_cache_cannot_be_passed_it_is_emptied_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    refuse_direct(monkeypatch, errno.EINVAL, when="written")
    refuse_uncached(monkeypatch, refusal)
    monkeypatch.setattr(staged_file, "_CACHED_UNWRITTEN_BYTES", BLOCK_BYTES)
    finished: list[int] = []
    finish = kernel.finish_write_back

    def noted(descriptor: int, offset: int, size_bytes: int) -> None:
        finished.append(offset)
        finish(descriptor, offset, size_bytes)

    monkeypatch.setattr(kernel, "finish_write_back", noted)
    assert _write(tmp_path / "part") == "buffered"
    assert (tmp_path / "part").read_bytes() == CONTENT[:FILE_BYTES]
    assert finished == [BLOCK_BYTES * number for number in range(1, BLOCKS)], "all but the last written"


def test_a_refusal_in_the_middle_changes_the_way_and_not_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = Refusals(monkeypatch)
    refusals.refuse(4, errno.EINVAL)
    assert _write(tmp_path / "part") != "direct"
    assert refusals.refused == "pwrite"
    assert (tmp_path / "part").read_bytes() == CONTENT[:FILE_BYTES]


@settings(max_examples=40, deadline=None)
@given(amounts=st.lists(st.integers(1, 3 * PAGE_BYTES), min_size=1, max_size=4))
def test_writes_that_come_short_are_gone_on_with(tmp_path_factory: pytest.TempPathFactory, amounts: list[int]) -> None:
    folder = tmp_path_factory.mktemp("short")
    amounts = [*amounts, 3000]
    with pytest.MonkeyPatch.context() as monkeypatch:
        take_little(monkeypatch, amounts)
        _write(folder / "part")
    assert (folder / "part").read_bytes() == CONTENT[:FILE_BYTES]


@pytest.mark.parametrize("refusal", [errno.EAGAIN, errno.EINTR])
def test_a_write_that_is_to_be_tried_again_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    refusals = Refusals(monkeypatch)
    refusals.refuse(4, refusal)
    assert _write(tmp_path / "part") == "direct"
    assert refusals.refused == "pwrite"
    assert (tmp_path / "part").read_bytes() == CONTENT[:FILE_BYTES]


def test_a_write_that_never_goes_on_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", lambda *args: 0)
    with pytest.raises(OSError, match="nothing was written"):
        _write(tmp_path / "part")


@pytest.mark.parametrize("way", ["direct", "dontcache", "buffered"])
@pytest.mark.parametrize("refusal", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.ESTALE])
def test_whatever_is_refused_the_old_file_or_the_whole_new_one_is_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way, refusal: int
) -> None:
    if way != "direct":
        refuse_direct(monkeypatch, errno.EINVAL, when="opened")
    if way == "buffered":
        refuse_uncached(monkeypatch, errno.EOPNOTSUPP)
        monkeypatch.setattr(staged_file, "_CACHED_UNWRITTEN_BYTES", BLOCK_BYTES)
    refusals = Refusals(monkeypatch)
    final = tmp_path / "part"
    met = set()
    for number in range(1, 100):
        final.write_bytes(b"old")
        refusals.refuse(number, refusal)
        try:
            _write(final)
        except OSError as error:
            assert error.errno == refusal, "it comes out as it is"  # noqa: PT017 or none does
        else:
            assert refusals.refused is None, "no refusal is lost"
            break
        met.add(refusals.refused)
        assert [path.name for path in tmp_path.iterdir()] == ["part"]
        published = "replace" in refusals.calls[: number - 1]  # it was the folder that could not be synced
        assert final.read_bytes() == (CONTENT[:FILE_BYTES] if published else b"old")
    assert {"allocate", "ftruncate", "fsync", "replace"} < met
    assert final.read_bytes() == CONTENT[:FILE_BYTES]


def test_room_is_had_before_the_first_byte_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(OSError, match=r"File too large|No space left"),
        StagedFile(tmp_path / "part", owner="me", file_bytes=1 << 60),
    ):
        raise AssertionError("there is no such room")
    assert list(tmp_path.iterdir()) == []


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = open_descriptors()
    _write(tmp_path / "part")
    with pytest.raises(ZeroDivisionError), StagedFile(tmp_path / "part", owner="me", file_bytes=1):
        1 / 0  # noqa: B018 any error
    assert open_descriptors() == before
