"""The indices of a user's sampler as numbered tickets, from any batch on, without loading anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from slurm_resilience.training.random_state import own_random_numbers, seed_of
from slurm_resilience.training.seeded_fetch import Ticket

_FOR_SAMPLING = 0x5A3D_0000_0000_0000  # sampling and fetching of one batch must not draw the same numbers


class TicketSampler:
    """Draws its first batch with the program's own random numbers, as a plain DataLoader does.

    Later draws of samplers that we don't know get numbers of their own, which follow from the batch's number: a
    prefetching loader draws far ahead of the training, so that the training's numbers would depend on how far.
    """

    def __init__(self, indices: Iterable[Any], *, draws_late: bool) -> None:
        """`draws_late`: whether this sampler may use the program's random numbers after its first item."""
        self.indices = indices
        self._draws_late = draws_late
        self._seed = 0
        self._skip = 0
        self._epoch: int | None = None
        self._newest: _Drawing | None = None

    def start_at(self, *, seed: int, epoch: int | None, skip: int) -> None:
        """What the next iterators do: leave out `skip` batches and go on as if these had been handed out."""
        self._seed, self._epoch, self._skip = seed, epoch, skip

    def prime(self) -> bool:
        """Draw up to the first ticket now, while the random numbers are those of the epoch's start.

        False: the sampler ended before it had left out as many as it should.
        """
        assert self._newest is not None
        return self._newest.prime()

    def __iter__(self) -> Iterator[Ticket]:
        self._newest = _Drawing(self.indices, self._seed, self._epoch, self._skip, self._draws_late)
        return self._newest

    def __len__(self) -> int:
        return len(self.indices)  # type: ignore[arg-type]  # whoever has none raises, as without us


class _Drawing:
    def __init__(self, indices: Iterable[Any], seed: int, epoch: int | None, skip: int, draws_late: bool) -> None:
        self._indices = indices
        self._seed = seed
        self._epoch = epoch
        self._skip = skip
        self._draws_late = draws_late
        self._iterator: Iterator[Any] | None = None
        self._number = 0
        self._first: list[Ticket] | None = None

    def __iter__(self) -> Iterator[Ticket]:
        return self

    def __next__(self) -> Ticket:
        if self._first is None:
            self.prime()
        if self._first:
            return self._first.pop()
        return self._draw()

    def prime(self) -> bool:
        if self._first is not None:
            return True
        self._first = []
        try:
            while self._number < self._skip:
                self._draw()
            whole = True
            self._first.append(self._draw())
        except StopIteration:
            whole = self._number >= self._skip
        return whole

    def _draw(self) -> Ticket:
        if self._iterator is None:
            self._iterator = iter(self._indices)
        if self._draws_late and self._number > 0:
            with own_random_numbers(seed_of(self._seed ^ _FOR_SAMPLING, self._number)):
                indices = next(self._iterator)
        else:
            indices = next(self._iterator)
        ticket = Ticket(seed_of(self._seed, self._number), self._epoch, indices)
        self._number += 1
        return ticket
