"""The other ranks, over a group of our own on the CPU: whatever the training's own group is busy with.

Loads torch when it is opened, not before.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from slurm_resilience.errors import ConfigurationError, ResilienceError
from slurm_resilience.training.agreement import Pending

if TYPE_CHECKING:
    import torch

Result = TypeVar("Result")

LONGEST_WAIT = timedelta(days=7)
"""A rank may evaluate for hours while the others wait; who is dead is noticed by the connection, not by the time."""


class PeersGone(ResilienceError):
    """Another rank of this attempt is gone: its own error says why, not this one."""


class Ranks(Protocol):
    """All ranks of the attempt. Every verb is called by every rank, in the same order. Each raises PeersGone."""

    rank: int
    world_size: int

    def start_max(self, row: Sequence[int]) -> Pending: ...

    def gather(self, value: Any) -> list[Any] | None:
        """Everybody's values in the order of ranks, on rank 0; None elsewhere."""

    def all_gather(self, value: Any) -> list[Any]:
        """Everybody's values in the order of ranks."""

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value."""

    def close(self) -> None:
        """Let go of the others: who waits for us learns that we are gone."""


class _Said:
    def __init__(self, row: Sequence[int]) -> None:
        self._row = list(row)

    def wait(self) -> list[int]:
        return self._row


class AloneRank:
    """A world of one: nobody to ask."""

    rank = 0
    world_size = 1

    def start_max(self, row: Sequence[int]) -> Pending:
        return _Said(row)

    def gather(self, value: Any) -> list[Any] | None:
        return [value]

    def all_gather(self, value: Any) -> list[Any]:
        return [value]

    def broadcast(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        pass


class _Reducing:
    def __init__(self, tensor: torch.Tensor, work: Any) -> None:
        self._tensor = tensor
        self._work = work

    def wait(self) -> list[int]:
        try:
            self._work.wait()
        except RuntimeError as error:
            raise PeersGone(f"another rank of this attempt is gone: {_first_line(error)}") from error
        return [int(number) for number in self._tensor.tolist()]


class GlooRanks:
    """Over `torch.distributed`, which must have been initialised."""

    def __init__(self) -> None:
        import torch.distributed as dist

        self._dist = dist
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self._group = dist.new_group(backend="gloo", timeout=LONGEST_WAIT)

    def start_max(self, row: Sequence[int]) -> Pending:
        import torch

        tensor = torch.tensor(row, dtype=torch.int64)
        try:
            work = self._dist.all_reduce(tensor, op=self._dist.ReduceOp.MAX, group=self._group, async_op=True)
        except RuntimeError as error:
            raise PeersGone(f"another rank of this attempt is gone: {_first_line(error)}") from error
        return _Reducing(tensor, work)

    def gather(self, value: Any) -> list[Any] | None:
        everybody: list[Any] | None = [None] * self.world_size if self.rank == 0 else None
        try:
            self._dist.gather_object(value, everybody, dst=0, group=self._group)
        except RuntimeError as error:
            raise PeersGone(f"another rank of this attempt is gone: {_first_line(error)}") from error
        return everybody

    def all_gather(self, value: Any) -> list[Any]:
        everybody: list[Any] = [None] * self.world_size
        try:
            self._dist.all_gather_object(everybody, value, group=self._group)
        except RuntimeError as error:
            raise PeersGone(f"another rank of this attempt is gone: {_first_line(error)}") from error
        return everybody

    def broadcast(self, value: Any) -> Any:
        carried = [value]
        try:
            self._dist.broadcast_object_list(carried, src=0, group=self._group)
        except RuntimeError as error:
            raise PeersGone(f"another rank of this attempt is gone: {_first_line(error)}") from error
        return carried[0]

    def close(self) -> None:
        if self._dist.is_initialized():
            with contextlib.suppress(RuntimeError, ValueError, AssertionError):  # the user has taken it down already
                self._dist.destroy_process_group(self._group)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def open_ranks(world_size_by_launcher: int) -> Ranks:
    """Everybody, if there is more than one. Raises ConfigurationError where the launcher says so and nobody meets."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return GlooRanks() if dist.get_world_size() > 1 else AloneRank()
    if world_size_by_launcher > 1:
        raise ConfigurationError(
            f"the launcher has started {world_size_by_launcher} ranks (WORLD_SIZE, or else SLURM_STEP_NUM_TASKS), but "
            "torch.distributed is not initialised: call torch.distributed.init_process_group() before the training "
            "loop starts; where every process is a training of its own, set WORLD_SIZE=1 and give each a run_dir"
        )
    return AloneRank()


def on_rank_zero(ranks: Ranks, action: Callable[[], Result]) -> Result:
    """Do `action` on rank 0; all return its result, or raise the ResilienceError that it raised there."""
    carried: _Carried | None = None
    if ranks.rank == 0:
        try:
            carried = _Carried(action(), None)
        except ResilienceError as error:
            if ranks.world_size == 1:
                raise
            ranks.broadcast(_Carried(None, (type(error), str(error))))
            raise
    carried = ranks.broadcast(carried)
    assert carried is not None
    if carried.error is not None:
        kind, text = carried.error
        error_here = kind.__new__(kind, text)  # not by its constructor, which may want more than a text
        error_here.args = (text,)
        raise error_here
    result: Result = carried.result
    return result


@dataclass(frozen=True, slots=True)
class _Carried:
    result: Any
    error: tuple[type[ResilienceError], str] | None


def ranks_can_meet() -> bool:
    """Whether `open_ranks` would find the others now. Loads nothing: who never imported torch has no group."""
    if "torch.distributed" not in sys.modules:
        return False
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized()
