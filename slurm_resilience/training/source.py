"""Where a loop's items come from, and how to go on in the middle of them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from slurm_resilience.training.random_state import capture_random_state, restore_random_state


class Source(Protocol):
    @property
    def lasting(self) -> bool:
        """Whether it is to be used again when the same loader comes again. One that is doesn't hold the loader."""

    def start(self, epoch: int | None) -> Iterator[Any]:
        """From the first item. `epoch` is told to samplers and datasets that want to know; None: they know already."""

    def resume(self, kept: Mapping[str, Any], items: int, epoch: int | None) -> Iterator[Any]:
        """From behind the first `items`, as if they had been handed out. The program's random numbers are anything
        afterwards: the caller puts them right."""

    def keep(self) -> dict[str, Any]:
        """What `resume` needs, as a checkpoint can hold it: true between two items."""

    def count(self) -> int | None:
        """How many items there are; None: nobody knows before the end."""


def set_epoch(epoch: int | None, *things: Any) -> None:
    if epoch is None:
        return
    for thing in things:
        if hasattr(thing, "set_epoch"):
            thing.set_epoch(epoch)


def count_of(items: Any) -> int | None:
    try:
        return len(items)
    except (TypeError, NotImplementedError):
        return None


class StatefulSource:
    """A loader that keeps its own state (torchdata's StatefulDataLoader): it knows best."""

    lasting = False

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def start(self, epoch: int | None) -> Iterator[Any]:
        set_epoch(epoch, self._loader, getattr(self._loader, "sampler", None), getattr(self._loader, "dataset", None))
        return iter(self._loader)

    def resume(self, kept: Mapping[str, Any], items: int, epoch: int | None) -> Iterator[Any]:
        set_epoch(epoch, self._loader, getattr(self._loader, "sampler", None), getattr(self._loader, "dataset", None))
        self._loader.load_state_dict(kept["loader"])
        return iter(self._loader)

    def keep(self) -> dict[str, Any]:
        return {"loader": self._loader.state_dict()}

    def count(self) -> int | None:
        return count_of(self._loader)


class ReplayedSource:
    """Anything that can only be iterated: going on means taking the first items again and throwing them away.

    Exact as far as the iterable gives the same items again, started with the same random numbers.
    """

    lasting = False

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items
        self._begun: dict[str, Any] = {}

    def start(self, epoch: int | None) -> Iterator[Any]:
        self._tell(epoch)
        self._begun = capture_random_state()
        return iter(self._items)

    def resume(self, kept: Mapping[str, Any], items: int, epoch: int | None) -> Iterator[Any]:
        self._tell(epoch)
        if kept:
            self._begun = dict(kept["begun"])
            restore_random_state(self._begun)
        if items and not isinstance(self._items, (list, tuple, range)):
            sys.stderr.write(
                f"slurm-resilience: {type(self._items).__name__} can't be entered in the middle: "
                f"loading {items} items again to get behind them, which takes as long as it took the first time "
                "(give it state_dict and load_state_dict, or use a map-style dataset)\n"
            )
        iterator = iter(self._items)
        for _ in itertools.islice(iterator, items):
            pass
        return iterator

    def keep(self) -> dict[str, Any]:
        return {"begun": self._begun}

    def count(self) -> int | None:
        return count_of(self._items)

    def _tell(self, epoch: int | None) -> None:
        set_epoch(epoch, self._items, getattr(self._items, "sampler", None), getattr(self._items, "dataset", None))


class CountedSource:
    """The numbers from 0 on: `run.steps`."""

    lasting = False

    def __init__(self, count: int) -> None:
        self._count = count

    def start(self, epoch: int | None) -> Iterator[int]:
        return iter(range(self._count))

    def resume(self, kept: Mapping[str, Any], items: int, epoch: int | None) -> Iterator[int]:
        return iter(range(items, self._count))

    def keep(self) -> dict[str, Any]:
        return {}

    def count(self) -> int | None:
        return self._count


def source_of(items: Any, rank: int) -> Source:
    """The best way to go on in the middle that `items` allow."""
    if hasattr(items, "state_dict") and hasattr(items, "load_state_dict"):
        return StatefulSource(items)
    if "torch.utils.data" in sys.modules:
        from slurm_resilience.training.seekable_loader import SeekableLoader, is_seekable

        if is_seekable(items):
            return SeekableLoader(items, rank)
    return ReplayedSource(items)
