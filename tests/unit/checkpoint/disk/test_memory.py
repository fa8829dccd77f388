from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.disk import kernel
from slurm_resilience.checkpoint.disk.arena import Arena
from slurm_resilience.checkpoint.disk.image import PAGE_BYTES
from slurm_resilience.checkpoint.disk.memory import fresh_memory
from tests.unit.checkpoint.disk.refusals import open_descriptors

SIZES = [1, 4095, 4096, 4097, (2 << 20) - 1, 2 << 20, (5 << 20) + 3]


def _mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("size_bytes", SIZES)
def test_fresh_memory_is_writable_zeros_that_begin_on_a_page(size_bytes: int) -> None:
    memory = fresh_memory(size_bytes)
    assert memory.nbytes == size_bytes
    assert bytes(memory) == bytes(size_bytes)
    assert kernel.address_of(memory) % PAGE_BYTES == 0
    memory[-1] = 7
    assert memory[-1] == 7


def test_no_memory_is_memory_too() -> None:
    assert bytes(fresh_memory(0)) == b""


def test_large_memory_begins_on_a_huge_page() -> None:
    assert kernel.address_of(fresh_memory(9 << 20)) % kernel.HUGE_PAGE_BYTES == 0


def test_fresh_memory_is_given_back_with_its_last_slice() -> None:
    before = _mapped_bytes()
    piece = fresh_memory(512 << 20)[5:9]
    assert _mapped_bytes() - before > 500 << 20
    del piece
    gc.collect()
    assert _mapped_bytes() - before < 100 << 20


@pytest.mark.parametrize("size_bytes", [0, *SIZES, 70 << 20])
def test_an_arena_is_whole_pages_of_zeros_that_are_there(size_bytes: int) -> None:
    arena = Arena.make(size_bytes)
    assert arena.size_bytes == len(arena.memory) == max(-(-size_bytes // PAGE_BYTES), 1) * PAGE_BYTES
    assert os.fstat(arena.descriptor).st_blocks * 512 >= arena.size_bytes  # touched already
    assert not any(arena.memory[:: PAGE_BYTES - 1])
    assert kernel.address_of(arena.memory) % PAGE_BYTES == 0
    arena.close()


def test_an_arena_is_warm_where_the_kernel_cannot_be_asked_to_make_it_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "populate", lambda address, size_bytes, writing: False)
    arena = Arena.make((70 << 20) + 1)
    assert os.fstat(arena.descriptor).st_blocks * 512 >= arena.size_bytes
    arena.close()


def test_what_one_process_writes_the_other_sees() -> None:
    ours = Arena.make(10_000)
    theirs = Arena.attach(os.dup(ours.descriptor), ours.size_bytes)
    ours.memory[9_999] = 3
    assert theirs.memory[9_999] == 3
    ours.close()
    assert theirs.memory[9_999] == 3, "it lives until the last one lets go"
    theirs.close()


def test_an_arena_that_is_too_small_is_refused_before_anybody_touches_it() -> None:
    arena = Arena.make(PAGE_BYTES)
    with pytest.raises(ValueError, match="the arena has 4096 bytes, 8192 are expected"):
        Arena.attach(arena.descriptor, 2 * PAGE_BYTES)
    arena.close()


def test_closing_an_arena_spares_those_who_still_look_at_it() -> None:
    arena = Arena.make(PAGE_BYTES)
    view = arena.memory[:4]
    arena.close()
    arena.close()
    view[0] = 1
    assert bytes(view) == b"\1\0\0\0"


def test_an_arena_that_cannot_be_had_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: int, size_bytes: int, *, writing: bool) -> bool:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(kernel, "populate", refuse)
    before = open_descriptors()
    with pytest.raises(OSError, match="Cannot allocate memory") as kept:
        Arena.make(70 << 20)
    assert kept.traceback, "its frames still refer to everything"
    assert open_descriptors() == before
