"""What this rank's next part need not hold: tensors that another rank writes, or that the last part has already."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_resilience.checkpoint.distributed.presence import SHARDS
from slurm_resilience.checkpoint.store import Borrowed, PartReceipt
from slurm_resilience.durable_file import make_directory_durably
from slurm_resilience.training.contents import Contents
from slurm_resilience.training.ranks import Ranks, on_rank_zero
from slurm_resilience.training.replicas import Content, assign, same_on_all
from slurm_resilience.training.saver import Written
from slurm_resilience.training.unchanged import Base, Unchanged

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.format.plan import Planner
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store


@dataclass(frozen=True, slots=True)
class Loan:
    """For one part of one checkpoint."""

    borrowed: Mapping[str, Borrowed] = field(default_factory=dict)
    """By the tensor's name."""
    shared_rows: tuple[int, ...] = ()
    """The rows, in this part, of the tensors that are the same on all ranks: by name, so that ranks can compare."""


@dataclass(frozen=True, slots=True)
class _Place:
    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class _Agreed:
    """What all ranks have settled for states of one shape."""

    shape: bytes
    owners: Mapping[str, int]
    places: Mapping[str, _Place]
    mine: Mapping[str, _Place]


@dataclass(frozen=True, slots=True)
class _Prepared:
    contents: Contents
    links: Mapping[str, Base]
    agreed: _Agreed | None
    known: bool
    """Whether what was agreed on last still holds here."""


class Loans:
    """One rank's side. `arrange` is called by all ranks after the same step."""

    def __init__(
        self, *, ranks: Ranks, store: Hdf5Store, planner: Planner, folder: Path, incremental: bool = True
    ) -> None:
        """`folder` holds the checkpoints' folders."""
        self._ranks = ranks
        self._store = store
        self._planner = planner
        self._folder = folder
        self._incremental = incremental
        self._agreed: _Agreed | None = None
        self._trusted = True
        self._unchanged = Unchanged()

    def share(self, state: Mapping[str, Any]) -> float:
        """Which part of its state, in bytes, this rank will have to write itself. Called by all ranks."""
        if self._ranks.world_size == 1:
            return 1.0
        contents = _contents(state)
        everybody = self._ranks.gather((contents.all(), contents.own_bytes()))
        owners = on_rank_zero(self._ranks, lambda: _owners(everybody or []))
        written = sum(
            size for name, size in contents.sizes().items() if owners.get(name, self._ranks.rank) == self._ranks.rank
        )
        total = contents.own_bytes() + sum(contents.sizes().values())
        return (contents.own_bytes() + written) / total if total else 1.0

    def arrange(self, checkpoint: str, state: Mapping[str, Any], attributes: Mapping[str, Any]) -> Loan:
        """Decide, together, what this rank's part of `checkpoint` borrows; links are made, nothing is written.

        Raises CheckpointUnsupported for a value that can't be kept (here; the others then borrow nothing), PeersGone.
        """
        prepared: _Prepared | None = None
        try:
            prepared = self._prepare(checkpoint, state, attributes)
        finally:  # whatever happened here, the others are waiting for our word
            known = self._ranks.all_gather(None if prepared is None else prepared.known)
        if None in known:
            return Loan()
        contents, links, agreed = prepared.contents, prepared.links, prepared.agreed
        if self._ranks.world_size == 1:
            return Loan({name: _borrowed(base) for name, base in links.items()})
        if agreed is None or not all(known):
            agreed = self._agree(prepared, checkpoint, state, attributes)
        rank = self._ranks.rank
        borrowed = {name: _borrowed(base) for name, base in links.items() if agreed.owners.get(name, rank) == rank}
        others = [name for name, owner in agreed.owners.items() if owner != rank]
        checksums = contents.checksums(others)
        for name in others:
            place = agreed.places[name]
            borrowed[name] = Borrowed(place.file, place.offset, checksums[name])
        return Loan(borrowed, tuple(contents.row(name) for name in sorted(agreed.owners)))

    def _prepare(self, checkpoint: str, state: Mapping[str, Any], attributes: Mapping[str, Any]) -> _Prepared:
        """What this rank can do without the others."""
        contents = _contents(state)
        agreed = self._agreed
        if not self._trusted or (agreed is not None and agreed.shape != contents.shape()):
            agreed = None
        rank = self._ranks.rank
        others = set() if agreed is None else {name for name, owner in agreed.owners.items() if owner != rank}
        links = self._link_unchanged(checkpoint, contents, [name for name in contents.names if name not in others])
        known = agreed is not None and agreed.mine == self._places(
            agreed.owners, agreed.places, links, checkpoint, state, attributes
        )
        return _Prepared(contents, links, agreed, known)

    def write_part(self, checkpoint: str, state: Mapping[str, Any], attributes: Mapping[str, Any]) -> Written:
        """`arrange`, and write what is left. Raises what a store raises."""
        from slurm_resilience.commit.part_word import shared_proof

        loan = self.arrange(checkpoint, state, attributes)
        receipt = self._store.write_part(
            checkpoint, rank=self._ranks.rank, state=state, attributes=attributes, borrowed=loan.borrowed
        )
        if not loan.shared_rows:
            return Written(receipt)
        placed = self._store.head_of(receipt).placed
        return Written(receipt, shared_proof(placed[row].checksum for row in loan.shared_rows))

    def committed(self, checkpoint: str, receipt: PartReceipt) -> None:
        """`checkpoint` exists, and this is our part of it: what the next one may borrow from. Never raises."""
        from slurm_resilience.errors import CheckpointError

        try:
            head = self._store.head_of(receipt)
        except CheckpointError as error:
            sys.stderr.write(f"slurm-resilience: the next checkpoint is written whole: {error}\n")
            self._unchanged.forget()
            return
        self._unchanged.committed(checkpoint, self._store.path_of(receipt), head.placed, receipt.bytes)

    def distrust(self) -> None:
        """A checkpoint failed, or ranks hold different content in what should be the same: look at everything anew."""
        self._trusted = False

    def _link_unchanged(self, checkpoint: str, contents: Contents, names: Sequence[str]) -> dict[str, Base]:
        """Of this rank's own tensors those that its last part holds, their files linked into the new folder."""
        if not self._incremental:
            return {}
        candidates = self._unchanged.candidates(names)
        same = self._unchanged.compare(candidates, contents.checksums(candidates))
        folder = self._folder / checkpoint
        linked: dict[str, bool] = {}
        for base in same.values():
            if base.link not in linked:
                linked[base.link] = _link(base.path, folder / base.link)
        return {name: base for name, base in same.items() if linked[base.link]}

    def _places(
        self,
        owners: Mapping[str, int],
        places: Mapping[str, _Place],
        links: Mapping[str, Base],
        checkpoint: str,
        state: Mapping[str, Any],
        attributes: Mapping[str, Any],
    ) -> dict[str, _Place]:
        """Where the shared tensors that this rank owns will lie. `places` may tell in which files the others' do."""
        from slurm_resilience.checkpoint.format.structure import flatten
        from slurm_resilience.checkpoint.hdf5_store import part_name

        rank = self._ranks.rank
        files = {name: base.link for name, base in links.items() if owners.get(name, rank) == rank}
        for name, owner in owners.items():
            if owner != rank:
                files[name] = places[name].file if name in places else part_name(owner)
        flat = flatten(state, files)
        plan = self._planner.plan(flat, checkpoint=checkpoint, rank=rank, attributes=attributes)
        found = {}
        for region in plan.image.regions:
            name = flat.datasets[region.row].name
            if owners.get(name) == rank:
                found[name] = _Place(part_name(rank), region.offset)
        for name, base in links.items():
            if owners.get(name) == rank:
                found[name] = _Place(base.link, base.offset)
        return found

    def _agree(
        self,
        prepared: _Prepared,
        checkpoint: str,
        state: Mapping[str, Any],
        attributes: Mapping[str, Any],
    ) -> _Agreed:
        """Compare everything with everybody, share it out, and tell each other where it will lie."""
        contents, links, shape = prepared.contents, prepared.links, prepared.contents.shape()
        everybody = self._ranks.gather((contents.all(), contents.own_bytes()))
        owners = on_rank_zero(self._ranks, lambda: _owners(everybody or []))
        before = self._agreed
        if before is not None and self._ranks.rank == 0 and before.shape == shape:
            _say_lost(before.owners.keys() - owners.keys())
        # The files of tensors that others have linked are known only now, and they are part of the plan.
        linked = {n: _Place(b.link, b.offset) for n, b in links.items() if owners.get(n) == self._ranks.rank}
        links_of_all: dict[str, _Place] = {}
        for each in self._ranks.all_gather(linked):
            links_of_all.update(each)
        own = self._places(owners, links_of_all, links, checkpoint, state, attributes)
        places: dict[str, _Place] = {}
        for each in self._ranks.all_gather(own):
            places.update(each)
        self._agreed = _Agreed(shape, owners, places, own)
        self._trusted = True
        return self._agreed


def _contents(state: Mapping[str, Any]) -> Contents:
    from slurm_resilience.checkpoint.distributed.shard_notes import from_state
    from slurm_resilience.checkpoint.format.structure import flatten

    notes = from_state(state[SHARDS]) if SHARDS in state else {}
    cut = {path for path, note in notes.items() if any(placement != "R" for placement in note.layout.placements)}
    return Contents(flatten(state), cut)


def _owners(everybody: Sequence[tuple[dict[str, Content], int]]) -> dict[str, int]:
    shared = same_on_all([contents for contents, _ in everybody])
    sizes = {name: everybody[0][0][name].size_bytes for name in shared}
    unshared = [own + sum(c.size_bytes for n, c in contents.items() if n not in sizes) for contents, own in everybody]
    return assign(sizes, unshared)


def _borrowed(base: Base) -> Borrowed:
    return Borrowed(base.link, base.offset, base.checksum)


def _link(source: Path, link: Path) -> bool:
    """False where the file system has no hard links, or the older checkpoint is gone: then it is written anew."""
    try:
        make_directory_durably(link.parent)
        link.unlink(missing_ok=True)
        os.link(source, link)
    except OSError:
        return False
    return True


def _say_lost(names: set[str]) -> None:
    if names:
        first = ", ".join(sorted(names)[:3])
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        sys.stderr.write(
            f"slurm-resilience: {first}{more}: no longer the same on all ranks, every rank writes its own from now on\n"
        )
