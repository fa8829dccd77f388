"""The tensors of a state that another part may hold too, and their checksums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    def __init__(self, flat: Flattened) -> None:
        self._flat = flat
        self._rows = {
            dataset.name: row
            for row, dataset in enumerate(flat.datasets)
            if dataset.bytes >= LEAST_BYTES and dataset.name.startswith(_SHAREABLE)
        }
        self._checksums: dict[str, bytes] = {}

    @property
    def names(self) -> list[str]:
        return list(self._rows)

    def row(self, name: str) -> int:
        return self._rows[name]

    def shape(self) -> bytes:
        from slurm_resilience.checkpoint.format.checksum import checksum_of

        return checksum_of(repr([(d.name, d.dtype, d.shape) for d in self._flat.datasets]).encode())

    def own_bytes(self) -> int:
        """What can't be shared, whatever the others have."""
        shareable = self._rows.values()
        return sum(dataset.bytes for row, dataset in enumerate(self._flat.datasets) if row not in shareable)

    def sizes(self) -> dict[str, int]:
        return {name: self._flat.datasets[row].bytes for name, row in self._rows.items()}

    def checksums(self, names: Sequence[str] | Mapping[str, Any]) -> dict[str, bytes]:
        """Of the tensors as they are now; computed once for each, in threads: hashing lets go of the interpreter."""
        missing = [name for name in names if name not in self._checksums]
        if missing:
            with ThreadPoolExecutor(_THREADS) as pool:
                for name, checksum in zip(missing, pool.map(self._checksum, missing), strict=True):
                    self._checksums[name] = checksum
        return {name: self._checksums[name] for name in names}

    def all(self) -> dict[str, Content]:
        checksums = self.checksums(self.names)
        datasets = self._flat.datasets
        return {
            name: Content(datasets[row].dtype, datasets[row].shape, checksums[name], datasets[row].bytes)
            for name, row in self._rows.items()
        }

    def _checksum(self, name: str) -> bytes:
        from slurm_resilience.checkpoint.format.checksum import checksum_of
        from slurm_resilience.checkpoint.format.tensor import bytes_of

        return checksum_of(bytes_of(self._flat.values[self._rows[name]]))
