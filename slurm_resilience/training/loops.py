"""The loops of a training: epochs, and within them (or without) sections, whose items are the steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from slurm_resilience.errors import CheckpointMismatch, ConfigurationError
from slurm_resilience.training.boundary import Boundary
from slurm_resilience.training.cursor import Cursor, Entry
from slurm_resilience.training.shield import children_shielded
from slurm_resilience.training.source import CountedSource, Source, source_of
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
        self._sources: list[tuple[Any, Source]] = []
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
        return self._section(self._source_of(items), counted=False)

    def steps(self, count: int) -> Iterator[int]:
        return self._section(CountedSource(count), counted=True)

    def _section(self, source: Source, *, counted: bool) -> Iterator[Any]:
        """`counted`: outside of epochs, the end of this section is the end of the training."""
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
        self._in_section = True
        try:
            iterator = self._iterator(source, entry)
            last = counted if outermost else cursor.epoch == cursor.total - 1
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

    def _iterator(self, source: Source, entry: Entry) -> Iterator[Any]:
        self._state.source = source
        epoch = self._cursor.epoch if self._in_epochs else None
        if not entry.resumed:
            with children_shielded():
                return source.start(epoch)
        loaded, self._loaded = self._loaded, None
        assert loaded is not None
        origin = f"the checkpoint of step {self._cursor.step}"
        data = loaded["data"]
        if data and data["kind"] != type(source).__name__:
            raise CheckpointMismatch(
                f"{origin} was saved in a loop over a {data['kind']} and this loop is a {type(source).__name__}: "
                "it can't be entered in the middle"
            )
        with children_shielded():
            if data:
                iterator = source.resume(data["kept"], entry.item, epoch)
            else:  # imported, or saved before the first loop
                iterator = source.start(epoch)
                for _ in itertools.islice(iterator, entry.item):
                    pass
        # Once more: what the program has done since then, before this loop, it had done before the checkpoint too.
        self._state.apply(loaded, origin)
        return iterator

    def _source_of(self, items: Iterable[Any]) -> Source:
        """One source a loader: it keeps persistent workers from epoch to epoch."""
        for known, source in self._sources:
            if known is items:
                return source
        source = source_of(items, self._rank)
        if not isinstance(items, Iterator):
            self._sources.append((items, source))
        return source
