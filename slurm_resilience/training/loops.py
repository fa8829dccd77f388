"""The loops of a training: epochs, and within them (or without) sections, whose items are the steps."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from slurm_resilience.errors import CheckpointMismatch, ConfigurationError
from slurm_resilience.training.boundary import Boundary
from slurm_resilience.training.cursor import Cursor, Entry
from slurm_resilience.training.dealing import Dealing, behind
from slurm_resilience.training.ranks import ranks_can_meet
from slurm_resilience.training.shield import children_shielded
from slurm_resilience.training.source import CountedSource, Source, StatefulSource, source_of
from slurm_resilience.training.training_state import TrainingState


class Loops:
    def __init__(
        self, *, cursor: Cursor, boundary: Boundary, state: TrainingState, rank: int, loaded: dict[str, Any] | None
    ) -> None:
        """`loaded` is the state that the training has resumed from, applied already."""
        self._cursor = cursor
        self._boundary = boundary
        self._state = state
        self._rank = rank
        self._loaded = loaded
        self._sources: list[tuple[weakref.ref[Any], Source]] = []
        self._in_epochs = False
        self._in_section = False

    def epochs(self, count: int) -> Iterator[int]:
        if self._in_epochs or self._in_section:
            raise ConfigurationError("run.epochs can't be used inside of another loop of the run")
        self._in_epochs = True
        try:
            for epoch in range(self._cursor.first_epoch(count), count):
                self._cursor.enter_epoch(epoch)
                yield epoch
            self._cursor.enter_epoch(count)
        finally:
            self._in_epochs = False

    def batches(self, items: Iterable[Any]) -> Iterator[Any]:
        source = self._source_of(items)
        return self._section(source, dealing_of(items, source.count()))

    def steps(self, count: int) -> Iterator[int]:
        return self._section(CountedSource(count), None)

    def _section(self, source: Source, dealing: Dealing | None) -> Iterator[Any]:
        """Without a `dealing` every rank counts the same: outside of epochs, that is how long the training is."""
        if self._in_section:
            raise ConfigurationError(
                "two loops of the run are going on at once: a step is one item of one loop "
                "(zip the data sets, or iterate over the second loader without the run)"
            )
        cursor = self._cursor
        count = source.count()
        outermost = not self._in_epochs
        entry = cursor.enter_section(count, outermost=outermost)
        if entry is None:
            return
        if entry.resumed:
            entry = self._counted_anew(entry, dealing)
        self._in_section = True
        try:
            self._state.source, self._state.dealing = source, dealing
            iterator = self._iterator(source, entry)
            last = dealing is None if outermost else cursor.epoch == cursor.total - 1
            while True:
                # Before the next item is fetched: data that comes late holds up no stop, and no checkpoint.
                self._boundary.cross(ending=last and count is not None and cursor.item >= count)
                try:
                    item = next(iterator)
                except StopIteration:
                    return
                cursor.open_step()
                yield item
                cursor.close_step()
        finally:
            self._in_section = False

    def _counted_anew(self, entry: Entry, dealing: Dealing | None) -> Entry:
        """Where the section to go on in has its items dealt otherwise than they were: what all ranks have done is
        another number of items now."""
        assert self._loaded is not None
        data = self._loaded["data"]
        by_itself = data.get("kind") == StatefulSource.__name__ and "kept" in data
        if dealing is None or "dealing" not in data or by_itself:
            return entry
        found = behind(entry.item, Dealing.of_state(data["dealing"]), dealing)
        if found.item == entry.item:
            return entry
        self._cursor.go_on_at(found.item)
        if self._rank == 0:
            again = f" ({found.samples_again} samples come again)" if found.samples_again else ""
            sys.stderr.write(
                f"slurm-resilience: what the ranks had done of this loop in {entry.item} items each is {found.item} "
                f"items each now: going on behind that{again}\n"
            )
        return replace(entry, item=found.item)

    def _iterator(self, source: Source, entry: Entry) -> Iterator[Any]:
        epoch = self._cursor.epoch if self._in_epochs else None
        if not entry.resumed:
            self._loaded = None  # nothing is gone back to any more: as large as the training's state
            with children_shielded():
                return source.start(epoch)
        loaded, self._loaded = self._loaded, None
        assert loaded is not None
        origin = f"the checkpoint of step {self._cursor.step}"
        data = loaded["data"]
        if data.get("kind", type(source).__name__) != type(source).__name__:
            raise CheckpointMismatch(
                f"{origin} was saved in a loop over a {data['kind']} and this loop is a {type(source).__name__}: "
                "it can't be entered in the middle"
            )
        with children_shielded():
            iterator = _resumed(source, data, entry.item, epoch)
        # Once more: what the program has done since then, before this loop, it had done before the checkpoint too.
        self._state.apply(loaded, origin)
        return iterator

    def _source_of(self, items: Iterable[Any]) -> Source:
        """One source a loader, which keeps persistent workers from epoch to epoch, for as long as the loader lives."""
        for known, source in self._sources:
            if known() is items:
                return source
        source = source_of(items, self._rank)
        if source.lasting:  # a program may make a new loader, with new data, for every epoch
            living = [each for each in self._sources if each[0]() is not None]
            self._sources = [*living, (weakref.ref(items), source)]
        return source


def dealing_of(items: Iterable[Any], count: int | None) -> Dealing:
    """As far as a loader and its samplers tell; `count` is how many items this rank gets."""
    ranks = 1
    if ranks_can_meet():
        import torch.distributed as dist

        ranks = dist.get_world_size()
    outer = [getattr(items, name, None) for name in ("batch_sampler", "sampler")]
    samplers = [*outer, *(getattr(sampler, "sampler", None) for sampler in outer)]
    hands = _first_number("num_replicas", *samplers)
    if hands is None and ranks == 1:
        hands = 1
    return Dealing(ranks, hands, _first_number("batch_size", items, *outer), count)


def _first_number(name: str, *things: Any) -> int | None:
    numbers = (getattr(thing, name, None) for thing in things)
    return next((number for number in numbers if isinstance(number, int) and number > 0), None)


def _resumed(source: Source, data: Mapping[str, Any], item: int, epoch: int | None) -> Iterator[Any]:
    """Behind the first `item` items, whether or not it is known how this rank began with them."""
    if "kept" in data:
        return source.resume(data["kept"], item, epoch)
    iterator = source.start(epoch)
    if item and not isinstance(source, StatefulSource):  # whose state would be that of its beginning
        return source.resume(source.keep(), item, epoch)
    for _ in itertools.islice(iterator, item):
        pass
    return iterator
