"""A shelf of the parts that lie on disk. Heads are read once, tensors when they are wanted, every byte verified."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from slurm_resilience.checkpoint.disk.open_part import OpenPart
from slurm_resilience.checkpoint.distributed.presence import SHARDS
from slurm_resilience.checkpoint.distributed.shard_notes import ShardNote, from_state
from slurm_resilience.checkpoint.distributed.shards import Layouts
from slurm_resilience.checkpoint.distributed.shelf import Entry, Leaf
from slurm_resilience.checkpoint.distributed.tree import leaves
from slurm_resilience.checkpoint.format.part_format import Head, PartError, Placed, UnknownFormat
from slurm_resilience.checkpoint.format.structure_rebuilt import rebuild
from slurm_resilience.checkpoint.format.tensor import allocate_all
from slurm_resilience.checkpoint.part_content import read_elements
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.errors import CheckpointDamaged, CheckpointMismatch, CheckpointUnavailable, CheckpointUnsupported

_AT_ONCE_BYTES = 256 << 20

_Wanted = tuple[Entry, Placed]


class _SharedPart(OpenPart):
    """Read by other ranks of this node, too: through the page cache, so that the disk is read once for all of them."""

    def is_cached(self, offsets: Sequence[int]) -> bool:
        return True


class HeadStore(Protocol):
    def head_of(self, receipt: PartReceipt) -> Head: ...

    def path_of(self, receipt: PartReceipt) -> Path: ...


class PartsShelf:
    """A `Shelf` of one checkpoint's parts."""

    def __init__(self, store: HeadStore, receipts: Sequence[PartReceipt]) -> None:
        self._store = store
        self._receipts = {receipt.rank: receipt for receipt in receipts}
        self._skeletons: dict[int, dict[str, Any]] = {}
        self._placed: dict[tuple[int, str], Placed] = {}
        self._entries: dict[tuple[int, str], Entry] = {}

    def entries(self) -> Sequence[Entry]:
        """Of all parts: reads every head."""
        for rank in self._receipts:
            self._look_at(rank)
        return list(self._entries.values())

    def skeleton(self, rank: int) -> dict[str, Any]:
        """The state of `rank` as it was given to the store, with `Leaf`s for tensors and arrays."""
        self._look_at(rank)
        return self._skeletons[rank]

    def entry_of(self, leaf: Leaf) -> Entry:
        if leaf.rank not in self._receipts:
            raise CheckpointMismatch(f"{leaf.name} is needed from the part of rank {leaf.rank}, and there is none")
        self._look_at(leaf.rank)
        entry = self._entries.get((leaf.rank, leaf.name))
        if entry is None:
            raise CheckpointMismatch(f"the part of rank {leaf.rank} has no tensor {leaf.name}")
        return entry

    def rank_with(self, layouts: Layouts, *, first: int) -> int:
        """Whose skeleton has a place for every tensor that is alive: `first` if it does, else the lowest rank.

        Ranks differ in this where they are stages of a pipeline. CheckpointMismatch if there is none.
        """
        missing: str | None = None
        for rank in sorted(self._receipts, key=lambda rank: (rank != first, rank)):
            paths = {path for path, leaf in leaves(self.skeleton(rank)) if isinstance(leaf, Leaf)}
            absent = next((path for path in layouts.tensors if path not in paths), None)
            if absent is None:
                return rank
            missing = missing or absent
        raise CheckpointMismatch(f"no part of the checkpoint has all that is alive: {missing} is missing")

    def read(self, wanted: Sequence[Entry], *, shared: Container[Entry] = ()) -> Iterator[tuple[Entry, Any]]:
        """Part by part, some hundred megabytes at a time: memory that was used is used again, 3 times as fast."""
        groups: dict[tuple[int, bool], list[_Wanted]] = {}
        for entry in wanted:
            group = groups.setdefault((entry.rank, entry in shared), [])
            group.append((entry, self._placed[entry.rank, entry.name]))
        for (rank, by_others_too), placed in groups.items():
            path = self._store.path_of(self._receipts[rank])
            for batch in _batches(sorted(placed, key=lambda each: each[1].offset)):
                yield from _read(path, batch, _SharedPart if by_others_too else OpenPart)

    def _look_at(self, rank: int) -> None:
        if rank in self._skeletons:
            return
        receipt = self._receipts[rank]
        head = self._store.head_of(receipt)
        path = self._store.path_of(receipt)
        with _answers_of(path):
            skeleton = rebuild(head.document, [Leaf(rank, placed.dataset.name) for placed in head.placed])
            notes = _notes(skeleton)
        for placed in head.placed:
            dataset = placed.dataset
            self._placed[rank, dataset.name] = placed
            note = notes.get(dataset.name)
            entry = Entry(rank, dataset.name, dataset.dtype, dataset.shape, placed.checksum, note)
            self._entries[rank, dataset.name] = entry
        self._skeletons[rank] = skeleton


def _notes(skeleton: Mapping[str, Any]) -> dict[str, ShardNote]:
    if SHARDS not in skeleton:
        return {}
    try:
        return from_state(skeleton[SHARDS])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise PartError(f"its notes on shards can't be read ({type(error).__name__}: {error})") from error


def _batches(wanted: Sequence[_Wanted]) -> Iterator[list[_Wanted]]:
    batch: list[_Wanted] = []
    size_bytes = 0
    for each in wanted:
        batch.append(each)
        size_bytes += each[1].dataset.bytes
        if size_bytes >= _AT_ONCE_BYTES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def _read(path: Path, wanted: Sequence[_Wanted], kind: type[OpenPart]) -> Iterator[tuple[Entry, Any]]:
    placed = [each for _, each in wanted]
    with _answers_of(path), kind(path) as file:
        allocations = allocate_all([each.dataset for each in placed])
        read_elements(file, path.parent, placed, [allocation.bytes for allocation in allocations], None)
    for (entry, _), allocation in zip(wanted, allocations, strict=True):
        yield entry, allocation.value


@contextlib.contextmanager
def _answers_of(path: Path) -> Iterator[None]:
    """Say in the store's errors what reading `path` came to."""
    try:
        yield
    except PartError as error:
        raise CheckpointDamaged(path, str(error)) from error
    except UnknownFormat as error:
        raise CheckpointUnsupported(f"{path}: {error}") from error
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        if not path.parent.is_dir():  # perhaps not mounted: that says nothing about the checkpoint
            raise CheckpointUnavailable(f"{path.parent} is not there") from error
        raise CheckpointDamaged(path, "the file is missing") from error
    except OSError as error:
        raise CheckpointUnavailable(f"{path} can't be read: {error.strerror}") from error
