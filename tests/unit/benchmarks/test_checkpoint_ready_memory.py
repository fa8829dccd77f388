from __future__ import annotations

import pytest

from benchmarks.checkpoint.ready_memory import ReadyMemory


def held_bytes(ready: ReadyMemory) -> int:
    return sum(len(memory) for memory in ready._held)


def test_memory_is_held_before_and_after_it_is_lent_and_not_meanwhile() -> None:
    with ReadyMemory(8 << 20) as ready:
        assert held_bytes(ready) == 8 << 20
        with ready.lent():
            assert held_bytes(ready) == 0
        assert held_bytes(ready) == 8 << 20
    assert held_bytes(ready) == 0


def test_a_measurement_that_fails_leaves_memory_held_for_the_next() -> None:
    with ReadyMemory(4 << 20) as ready:
        with pytest.raises(ValueError, match="failed"), ready.lent():
            raise ValueError("failed")
        assert held_bytes(ready) == 4 << 20


def test_no_more_is_held_than_leaves_some_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.checkpoint.ready_memory.meminfo_bytes", lambda name: 10 << 20)
    with ReadyMemory(1 << 30) as ready:
        assert held_bytes(ready) == 6 << 20
