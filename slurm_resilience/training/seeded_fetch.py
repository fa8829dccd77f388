"""One batch from a dataset, with random numbers that follow from the batch's number alone.

Stands in a DataLoader for the dataset and its collate function: what it is asked for is a ticket, not an index. So an
augmentation draws the same numbers whichever worker loads the batch, with however many workers, in whichever attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from slurm_resilience.training.random_state import own_random_numbers, seed_everything_on_cpu


class Ticket(NamedTuple):
    seed: int
    epoch: int | None
    """For a dataset with `set_epoch`; None outside of `run.epochs`."""
    indices: Any
    """One batch of indices, or one index where the loader doesn't batch."""


class SeededFetch:
    def __init__(self, dataset: Any, collate: Callable[[Any], Any], *, batched: bool, draws: bool) -> None:
        """`draws`: whether fetching may draw random numbers; False saves the seeding."""
        self.dataset = dataset
        self._collate = collate
        self._batched = batched
        self._draws = draws
        self._epoch: int | None = None

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, ticket: Ticket) -> Any:
        from torch.utils.data import get_worker_info

        if get_worker_info() is None:
            if not self._draws:
                return self._fetch(ticket.indices)
            with own_random_numbers(ticket.seed):  # the training's own numbers must not notice
                return self._fetch(ticket.indices)
        if ticket.epoch is not None and ticket.epoch != self._epoch:
            self._epoch = ticket.epoch
            if hasattr(self.dataset, "set_epoch"):
                self.dataset.set_epoch(ticket.epoch)  # a persistent worker's copy has not heard of it
        if self._draws:
            seed_everything_on_cpu(ticket.seed)
        return self._fetch(ticket.indices)

    def _fetch(self, indices: Any) -> Any:
        if not self._batched:
            return self._collate(self.dataset[indices])
        if getattr(self.dataset, "__getitems__", None):
            return self._collate(self.dataset.__getitems__(indices))
        return self._collate([self.dataset[index] for index in indices])


class WorkerStart:
    """A worker's init function that shows the user's code the user's dataset, not ours."""

    def __init__(self, then: Callable[[int], None] | None) -> None:
        self._then = then

    def __call__(self, worker: int) -> None:
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        if info is not None and isinstance(info.dataset, SeededFetch):
            object.__setattr__(info, "dataset", info.dataset.dataset)  # torch forbids it to others, for good reasons
        if self._then is not None:
            self._then(worker)


def as_is(value: Any) -> Any:
    """The inner loader's collate function: SeededFetch has collated already."""
    return value
