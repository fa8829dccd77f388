"""Stand-ins for what training talks to: other ranks, a store in memory, a clock that nobody waits for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_resilience.checkpoint.store import PartReceipt, Progress, TensorEntry
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable
from slurm_resilience.training.agreement import Pending
from slurm_resilience.training.ranks import AloneRank


class FakeClock:
    """Sleeping moves it; each look does too, a little, so that what waits for a time gets there."""

    def __init__(self) -> None:
        self.time_s = 1000.0

    def now_s(self) -> float:
        return self.monotonic_s()

    def monotonic_s(self) -> float:
        self.time_s += 0.001
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds


class MemoryStore:
    """Parts in a dict. `refuse` raises for the writes that it wants to fail."""

    def __init__(self, refuse: Callable[[], None] = lambda: None) -> None:
        self.parts: dict[str, dict[str, Any]] = {}
        self.damaged: set[str] = set()
        self.unavailable_reads = 0
        self.refuse = refuse
        self.deleted: list[str] = []

    def write_part(
        self, checkpoint: str, *, rank: int, state: Mapping[str, Any], attributes: Mapping[str, Any]
    ) -> PartReceipt:
        self.refuse()
        file = f"checkpoints/{checkpoint}/rank-{rank}"
        self.parts[file] = copy.deepcopy(dict(state))
        return PartReceipt(rank, file, 1, "xxh3-128:00")

    def read_part(self, receipt: PartReceipt, *, progress: Progress | None = None) -> dict[str, Any]:
        if self.unavailable_reads:
            self.unavailable_reads -= 1
            raise CheckpointUnavailable(f"{receipt.file}: stale file handle")
        if receipt.file in self.damaged or receipt.file not in self.parts:
            raise CheckpointDamaged(Path(receipt.file), "checksum")
        return copy.deepcopy(self.parts[receipt.file])

    def verify_part(self, receipt: PartReceipt, *, progress: Progress | None = None) -> list[TensorEntry]:
        self.read_part(receipt)
        return []

    def delete(self, checkpoint: str) -> None:
        self.deleted.append(checkpoint)
        for file in [file for file in self.parts if f"/{checkpoint}/" in file]:
            del self.parts[file]

    def found_on_disk(self) -> list[str]:
        return sorted({file.split("/")[1] for file in self.parts})

    def path_of(self, receipt: PartReceipt) -> Path:
        return Path(receipt.file)


class TwoRanks(AloneRank):
    """Rank 0 of two; what rank 1 says is made from what rank 0 says."""

    world_size = 2

    def __init__(self, other: Callable[[Any], Any]) -> None:
        self.other = other

    def start_max(self, row: Sequence[int]) -> Pending:
        return super().start_max([max(pair) for pair in zip(row, self.other(list(row)), strict=True)])

    def gather(self, value: Any) -> list[Any] | None:
        return [value, self.other(value)]

    def all_gather(self, value: Any) -> list[Any]:
        return [value, self.other(value)]
