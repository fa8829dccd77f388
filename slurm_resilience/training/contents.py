"""The tensors of a state that another part may hold too, and their checksums."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from slurm_resilience.training.replicas import LEAST_BYTES, Content

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.format.structure import Flattened

_SHAREABLE = "objects/"
"""Where in a training's state content can be the same on all ranks: not its random numbers, nor its data's place."""
_THREADS = 2


class Contents:
    """The tensors of a state that may be shared or unchanged, and their checksums, computed when asked for."""

    def __init__(self, flat: Flattened, cut: Collection[str] = ()) -> None:
        """`cut` are the names of shards: they may be unchanged, but are nobody's replicas.

        Shards of different elements can be equal for a while, as long as nothing has been learnt in them, say.
        """
        self._flat = flat
        self._rows = {
            dataset.name: row
            for row, dataset in enumerate(flat.datasets)
            if dataset.bytes >= LEAST_BYTES and dataset.name.startswith(_SHAREABLE)
        }
        self._shared = [name for name in self._rows if name not in cut]
        self._checksums: dict[str, bytes] = {}

    @property
    def names(self) -> list[str]:
        """Of all that may be unchanged."""
        return list(self._rows)

    def row(self, name: str) -> int:
        return self._rows[name]

    def shape(self) -> bytes:
        from slurm_resilience.checkpoint.format.checksum import checksum_of

        return checksum_of(repr([(d.name, d.dtype, d.shape) for d in self._flat.datasets]).encode())

    def own_bytes(self) -> int:
        """What can't be shared, whatever the others have."""
        return sum(dataset.bytes for dataset in self._flat.datasets) - sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        """In bytes, of all that may be shared."""
        return {name: self._flat.datasets[self._rows[name]].bytes for name in self._shared}

    def checksums(self, names: Sequence[str] | Mapping[str, Any]) -> dict[str, bytes]:
        """Of the tensors as they are now; computed once for each, in threads: hashing lets go of the interpreter."""
        missing = [name for name in names if name not in self._checksums]
        if missing:
            try:
                with ThreadPoolExecutor(_THREADS) as pool:
                    self._checksums.update(zip(missing, pool.map(self._checksum, missing), strict=True))
            except RuntimeError:  # the job's limit allows no more threads
                self._checksums.update((name, self._checksum(name)) for name in missing)
        return {name: self._checksums[name] for name in names}

    def all(self) -> dict[str, Content]:
        """That may be shared."""
        checksums = self.checksums(self._shared)
        datasets = {name: self._flat.datasets[self._rows[name]] for name in self._shared}
        return {
            name: Content(dataset.dtype, dataset.shape, checksums[name], dataset.bytes)
            for name, dataset in datasets.items()
        }

    def _checksum(self, name: str) -> bytes:
        from slurm_resilience.checkpoint.format.checksum import checksum_of
        from slurm_resilience.checkpoint.format.tensor import bytes_of

        return checksum_of(bytes_of(self._flat.values[self._rows[name]]))
