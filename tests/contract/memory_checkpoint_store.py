"""A checkpoint store without a file system, for whoever needs one in a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_resilience.checkpoint.format.checksum import checksum_of
from slurm_resilience.checkpoint.format.part_format import Dataset
from slurm_resilience.checkpoint.format.structure import flatten
from slurm_resilience.checkpoint.format.structure_rebuilt import rebuild
from slurm_resilience.checkpoint.format.tensor import allocate, bytes_of
from slurm_resilience.checkpoint.store import PartReceipt, Progress, TensorEntry
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable


@dataclass
class MemoryPart:
    document: bytes
    datasets: tuple[Dataset, ...]
    content: bytearray
    """All elements, one dataset after the other."""

    def checksum(self) -> str:
        said = f"{self.document!r} {self.datasets!r}".encode()
        return f"memory:{checksum_of(said + bytes(self.content)).hex()}"


class MemoryCheckpointStore:
    """Passes the contract of CheckpointStore. `parts` and `refusal` are for the test to play with."""

    def __init__(self) -> None:
        self.parts: dict[str, MemoryPart] = {}
        self.refusal: OSError | None = None
        """What the file system says from now on."""

    def write_part(
        self, checkpoint: str, *, rank: int, state: Mapping[str, Any], attributes: Mapping[str, Any]
    ) -> PartReceipt:
        flat = flatten({"state": dict(state), "attributes": dict(attributes), "checkpoint": checkpoint, "rank": rank})
        self._refuse()
        content = bytearray(b"".join(bytes(bytes_of(value)) for value in flat.values))
        part = MemoryPart(flat.document, flat.datasets, content)
        file = f"checkpoints/{checkpoint}/rank-{rank:05d}"
        self.parts[file] = part
        return PartReceipt(rank=rank, file=file, bytes=len(content), checksum=part.checksum())

    def read_part(self, receipt: PartReceipt, *, progress: Progress | None = None) -> dict[str, Any]:
        part = self._verified(receipt)
        values = []
        start = 0
        for dataset in part.datasets:
            allocation = allocate(dataset.dtype, dataset.shape)
            allocation.bytes[:] = part.content[start : start + dataset.bytes]
            start += dataset.bytes
            values.append(allocation.value)
            if progress is not None:
                progress(dataset.bytes)
        state: dict[str, Any] = rebuild(part.document, values)["state"]
        return state

    def verify_part(self, receipt: PartReceipt, *, progress: Progress | None = None) -> list[TensorEntry]:
        part = self._verified(receipt)
        entries = []
        start = 0
        for dataset in part.datasets:
            elements = part.content[start : start + dataset.bytes]
            start += dataset.bytes
            name = dataset.name.removeprefix("state/")
            checksum = f"xxh3-128:{checksum_of(elements).hex()}"
            entries.append(TensorEntry(name, dataset.dtype, dataset.shape, dataset.bytes, checksum))
            if progress is not None:
                progress(dataset.bytes)
        return entries

    def delete(self, checkpoint: str) -> None:
        self._refuse()
        for file in [file for file in self.parts if file.startswith(f"checkpoints/{checkpoint}/")]:
            del self.parts[file]

    def found_on_disk(self) -> list[str]:
        return sorted({file.split("/")[1] for file in self.parts})

    def path_of(self, receipt: PartReceipt) -> Path:
        return Path("/memory") / receipt.file

    def _verified(self, receipt: PartReceipt) -> MemoryPart:
        self._refuse()
        part = self.parts.get(receipt.file)
        if part is None:
            raise CheckpointDamaged(self.path_of(receipt), "the file is missing")
        if len(part.content) != receipt.bytes or part.checksum() != receipt.checksum:
            raise CheckpointDamaged(self.path_of(receipt), "it is not what its receipt is for")
        return part

    def _refuse(self) -> None:
        if self.refusal is not None:
            raise CheckpointUnavailable(f"memory says no: {self.refusal}") from self.refusal
