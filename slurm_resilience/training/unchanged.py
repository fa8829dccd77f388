"""Tensors that have not changed since the last checkpoint: frozen layers, a base model under an adapter.

They are not written again: the new checkpoint's folder gets a hard link to the file that holds them. Deleting the older
checkpoint then takes nothing from the newer one, with nothing to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience.checkpoint.format.part_format import Placed

LEAST_BYTES = 1 << 20
"""Less than this in all is written again."""
LEAST_SHARE = 0.5
"""Of a file's bytes, still in use: a file kept for less would take more room than it saves."""
MOST_GENERATIONS = 16
"""After so many checkpoints on one file the content is written anew: a bad sector is not to take them all for good."""


@dataclass(frozen=True, slots=True)
class Base:
    """Where the last checkpoint of this rank has a tensor's elements."""

    path: Path
    offset: int
    size_bytes: int
    checksum: bytes
    link: str
    """The name under which another checkpoint's folder gets the file."""
    generations: int
    """How many checkpoints have been built on this file."""


@dataclass(slots=True)
class Unchanged:
    """One rank's memory of its last checkpoint. Not for several threads."""

    bases: dict[str, Base] = field(default_factory=dict)
    file_bytes: dict[Path, int] = field(default_factory=dict)
    _changing: set[str] = field(default_factory=set)
    """Seen to change from one checkpoint to the next: not looked at again until two in a row are alike."""

    def candidates(self, mine: Iterable[str]) -> dict[str, Base]:
        """Of the tensors that are this rank's to write, those worth a look."""
        found = {name: self.bases[name] for name in mine if name in self.bases and name not in self._changing}
        return _worthwhile(found, self.file_bytes)

    def compare(self, candidates: Mapping[str, Base], checksums: Mapping[str, bytes]) -> dict[str, Base]:
        """Those of the candidates that are what they were, by the checksums that they have now."""
        same = {name: base for name, base in candidates.items() if checksums[name] == base.checksum}
        self._changing |= candidates.keys() - same.keys()
        return _worthwhile(same, self.file_bytes)

    def committed(self, checkpoint: str, path: Path, placed: Iterable[Placed], file_bytes: int) -> None:
        """The newest checkpoint of this rank is `checkpoint`, its part lies at `path`."""
        new: dict[str, Base] = {}
        sizes = {path: file_bytes}
        own_link = f"{path.stem}.from-{checkpoint}.h5"
        for each in placed:
            name, before = each.dataset.name, self.bases.get(each.dataset.name)
            if each.dataset.file is None:
                new[name] = Base(path, each.offset, each.dataset.bytes, each.checksum, own_link, 0)
            elif before is not None and each.dataset.file == before.link:
                link = path.parent / before.link
                sizes[link] = self.file_bytes[before.path]
                new[name] = Base(
                    link, each.offset, before.size_bytes, each.checksum, before.link, before.generations + 1
                )
            else:
                continue  # another rank's
            if before is not None and before.checksum == each.checksum:
                self._changing.discard(name)
            elif before is not None:
                self._changing.add(name)
        self.bases, self.file_bytes = new, sizes

    def forget(self) -> None:
        """Nothing is borrowed before a whole part has been committed again."""
        self.bases, self.file_bytes = {}, {}


def _worthwhile(found: dict[str, Base], file_bytes: Mapping[Path, int]) -> dict[str, Base]:
    """Without those whose file would be kept for too little, or has carried enough."""
    used: dict[Path, int] = {}
    for base in found.values():
        used[base.path] = used.get(base.path, 0) + base.size_bytes
    return {
        name: base
        for name, base in found.items()
        if used[base.path] >= max(LEAST_BYTES, LEAST_SHARE * file_bytes[base.path])
        and base.generations < MOST_GENERATIONS
    }
