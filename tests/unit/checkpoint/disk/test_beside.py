from __future__ import annotations

import contextlib
import gc
import queue
import threading
import weakref

import pytest

from slurm_resilience.checkpoint.disk.beside import Beside, OtherSideFailed


def _never_needed() -> None:
    raise AssertionError("nothing was to be stopped")


def test_work_is_done_when_the_block_is_left() -> None:
    done: list[int] = []
    with Beside(lambda: done.append(1), stop=_never_needed, name="other"):
        pass
    assert done == [1]


def test_an_exception_of_the_other_side_comes_out() -> None:
    def fail() -> None:
        raise OSError(5, "no")

    with pytest.raises(OSError, match="no"), Beside(fail, stop=_never_needed, name="other"):
        pass


def test_an_exception_that_came_out_keeps_nothing_once_it_is_forgotten() -> None:
    class Large:
        pass

    def fail() -> None:
        large = Large()
        kept.append(weakref.ref(large))
        raise OSError(5, "no")

    kept: list[weakref.ref[Large]] = []
    gc.disable()  # what it kept could be as much as the state
    try:
        with contextlib.suppress(OSError), Beside(fail, stop=_never_needed, name="other"):
            pass
        assert kept[0]() is None
    finally:
        gc.enable()


def test_what_made_the_other_side_fail_is_told_instead_of_that_it_failed() -> None:
    def fail() -> None:
        raise OSError(5, "no")

    with pytest.raises(OSError, match="no"), Beside(fail, stop=lambda: None, name="other"):
        raise OtherSideFailed


def test_our_own_exception_stops_the_other_side_and_comes_out() -> None:
    orders: queue.SimpleQueue[None] = queue.SimpleQueue()
    before = threading.active_count()
    with (
        pytest.raises(ValueError, match="ours"),
        Beside(orders.get, stop=lambda: orders.put(None), name="other"),
    ):
        raise ValueError("ours")
    assert threading.active_count() == before
