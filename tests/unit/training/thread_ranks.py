"""Several ranks as threads of one process: collectives that really meet, without torch.distributed."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from slurm_resilience.training.agreement import Pending

T = TypeVar("T")
_PATIENCE_S = 100.0


class _Meeting:
    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.barrier = threading.Barrier(world_size)
        self.said: list[Any] = [None] * world_size

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self.said[rank] = copy.deepcopy(value)  # as if it had gone over a wire
        self.barrier.wait(_PATIENCE_S)
        everybody = list(self.said)
        self.barrier.wait(_PATIENCE_S)
        return everybody


class ThreadRanks:
    def __init__(self, meeting: _Meeting, rank: int) -> None:
        self._meeting = meeting
        self.rank = rank
        self.world_size = meeting.world_size

    def start_max(self, row: Sequence[int]) -> Pending:
        answer = [max(column) for column in zip(*self._meeting.exchange(self.rank, list(row)), strict=True)]

        class Said:
            def wait(self) -> list[int]:
                return answer

        return Said()

    def gather(self, value: Any) -> list[Any] | None:
        everybody = self._meeting.exchange(self.rank, value)
        return everybody if self.rank == 0 else None

    def all_gather(self, value: Any) -> list[Any]:
        return self._meeting.exchange(self.rank, value)

    def broadcast(self, value: Any) -> Any:
        return self._meeting.exchange(self.rank, value)[0]

    def close(self) -> None:
        self._meeting.barrier.abort()


def on_ranks(world_size: int, program: Callable[[ThreadRanks], T]) -> list[T]:
    """`program` on every rank at once; what each returned. Raises what the first of them raised."""
    meeting = _Meeting(world_size)

    def one(rank: int) -> T:
        try:
            return program(ThreadRanks(meeting, rank))
        except BaseException:
            meeting.barrier.abort()  # the others are not to wait for who won't come
            raise

    with ThreadPoolExecutor(world_size) as pool:
        futures = [pool.submit(one, rank) for rank in range(world_size)]
        errors = [error for error in (future.exception() for future in futures) if error is not None]
        real = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
        if errors:
            raise (real or errors)[0]
        return [future.result() for future in futures]
