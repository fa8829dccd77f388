"""A DataLoader over a map-style dataset that can begin at any batch without loading those before it.

The user's loader stays as it is; the batches come from a second one with the same arguments, whose sampler hands out
numbered tickets. What is prefetched and not used doesn't count: position is the number of batches handed out.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slurm_resilience.training.random_state import capture_random_state, restore_random_state
from slurm_resilience.training.seeded_fetch import SeededFetch, WorkerStart, as_is
from slurm_resilience.training.source import count_of, set_epoch
from slurm_resilience.training.ticket_sampler import TicketSampler

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader


def is_seekable(loader: Any) -> bool:
    """A plain DataLoader over a map-style dataset; who overrides how it iterates has reasons that we don't know."""
    from torch.utils.data import DataLoader, IterableDataset, MapDataPipe

    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and not isinstance(loader.dataset, (IterableDataset, MapDataPipe))
    )


def _draws_late(sampler: Any) -> bool:
    """False for torch's samplers, of which we know that they use the program's random numbers at their start only."""
    from torch.utils import data
    from torch.utils.data.distributed import DistributedSampler

    if type(sampler) is data.BatchSampler:
        return _draws_late(sampler.sampler)
    known = (data.SequentialSampler, data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    return type(sampler) not in (*known, DistributedSampler)


def _may_draw(loader: Any) -> bool:
    """Whether fetching a batch can use random numbers: not where tensors are only picked out and stacked."""
    from torch.utils.data import Subset, TensorDataset, default_collate

    dataset = loader.dataset
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return not (type(dataset) is TensorDataset and loader.collate_fn is default_collate)


class SeekableLoader:
    lasting = True

    def __init__(self, loader: DataLoader[Any], rank: int) -> None:
        self._dataset = loader.dataset
        self._generator = loader.generator
        self._rank = rank
        batched = loader.batch_sampler is not None
        in_batches = getattr(loader.batch_sampler, "sampler", None)
        self._samplers = _unlike_none(loader.batch_sampler, in_batches, loader.sampler)
        indices = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
        self._tickets = TicketSampler(indices, draws_late=_draws_late(indices))
        self._inner = self._second_loader(loader, batched)
        self._begun: dict[str, Any] = {}
        self._begun_before = False
        self._workers_persist = loader.persistent_workers and loader.num_workers > 0

    def _second_loader(self, loader: DataLoader[Any], batched: bool) -> DataLoader[Any]:
        from torch.utils.data import DataLoader

        fetch = SeededFetch(loader.dataset, loader.collate_fn, batched=batched, draws=_may_draw(loader))
        more: dict[str, Any] = {}
        if loader.num_workers > 0:
            more["prefetch_factor"] = loader.prefetch_factor
            more["multiprocessing_context"] = loader.multiprocessing_context
            more["worker_init_fn"] = WorkerStart(loader.worker_init_fn)
        if loader.pin_memory_device:
            more["pin_memory_device"] = loader.pin_memory_device
        if not getattr(loader, "in_order", True):
            sys.stderr.write("slurm-resilience: in_order=False can't be resumed exactly: batches come in order\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user's own loader has said all that already
            return DataLoader(
                fetch,  # type: ignore[arg-type]  # only __getitem__ and __len__ are used
                batch_size=None,
                sampler=self._tickets,
                num_workers=loader.num_workers,
                collate_fn=as_is,
                pin_memory=loader.pin_memory,
                timeout=loader.timeout,
                generator=loader.generator,
                persistent_workers=loader.persistent_workers,
                **more,
            )

    def start(self, epoch: int | None) -> Iterator[Any]:
        self._tell(epoch)
        self._begun = {
            "random": capture_random_state(),
            "generators": [generator.get_state() for generator in self._generators()],
            "items": self._size(),
        }
        return self._iterate(epoch, 0)

    def resume(self, kept: Mapping[str, Any], items: int, epoch: int | None) -> Iterator[Any]:
        self._tell(epoch)
        self._begun = dict(kept)
        if list(kept["items"]) != self._size():
            sys.stderr.write(
                f"slurm-resilience: the data has changed since the checkpoint (samples and batches {kept['items']}, "
                f"now {self._size()}): going on behind batch {items} of what there is now\n"
            )
        restore_random_state(kept["random"])
        for generator, state in zip(self._generators(), kept["generators"], strict=False):
            generator.set_state(state)
        return self._iterate(epoch, items)

    def keep(self) -> dict[str, Any]:
        return self._begun

    def count(self) -> int | None:
        return count_of(self._tickets)

    def _iterate(self, epoch: int | None, skip: int) -> Iterator[Any]:
        self._tickets.start_at(seed=self._seed(epoch), epoch=epoch, skip=skip)
        if self._workers_persist and self._begun_before:
            # A fresh iterator draws its workers' seed, persistent workers have theirs: draw it all the same, or the
            # order of the samples would depend on whether the workers are new, as they are after an interruption.
            _draw_workers_seed(self._generator)
        self._begun_before = True
        iterator = iter(self._inner)
        if not self._tickets.prime():
            sys.stderr.write(f"slurm-resilience: the data ends before batch {skip}: going on behind its end\n")
        return iterator

    def _seed(self, epoch: int | None) -> int:
        """Follows from everything that the order of the samples follows from; another one on every rank."""
        digest = hashlib.blake2b(f"{self._rank} {epoch}".encode(), digest_size=8)
        for state in (self._begun["random"]["torch"], *self._begun["generators"]):
            digest.update(state.numpy().tobytes())
        return int.from_bytes(digest.digest(), "little")

    def _tell(self, epoch: int | None) -> None:
        set_epoch(epoch, *self._samplers, self._dataset)

    def _generators(self) -> list[torch.Generator]:
        """All that the loader and its samplers draw from, each once, in an order that is always the same."""
        found: list[Any] = [self._generator]
        for sampler in self._samplers:
            found.extend(value for _, value in sorted(getattr(sampler, "__dict__", {}).items()))
        return _generators_once(found)

    def _size(self) -> list[int]:
        return [count_of(self._dataset) or 0, self.count() or 0]


def _draw_workers_seed(generator: torch.Generator | None) -> None:
    import torch

    torch.empty((), dtype=torch.int64).random_(generator=generator)


def _unlike_none(*things: Any) -> list[Any]:
    once: list[Any] = []
    for thing in things:
        if thing is not None and not any(thing is other for other in once):
            once.append(thing)
    return once


def _generators_once(found: list[Any]) -> list[torch.Generator]:
    import torch

    return [thing for thing in _unlike_none(*found) if isinstance(thing, torch.Generator)]
