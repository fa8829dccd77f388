"""Saving and loading with the package under test, by its public verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.checkpoint.state import State
from slurm_resilience.checkpoint.disk.shared_image import write_shared
from slurm_resilience.checkpoint.disk.staged_file import StagedFile
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.snapshot.taken import Taken
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.durable_file import make_directory_durably

CHECKPOINT = "step-0000001000.a1"
FACTS = {"step": 1000, "attempt": 1, "world_size": 1}


def write_part(store: Hdf5Store, state: State, checkpoint: str = CHECKPOINT) -> PartReceipt:
    """What a stopping training does: everything between the state and a durable part."""
    return store.write_part(checkpoint, rank=0, state=state, attributes=FACTS)


def write_arena(taken: Taken, folder: Path) -> None:
    """What the writer process does with a snapshot that is whole."""
    final = folder / taken.job.file
    make_directory_durably(final.parent)
    with StagedFile(final, owner=taken.job.checkpoint, file_bytes=taken.job.image.file_bytes) as file:
        write_shared(file, taken.arena.memory, taken.job.image)
        file.publish()


def read_part(folder: Path, receipt: PartReceipt) -> dict[str, Any]:
    """Every byte verified."""
    return Hdf5Store(folder).read_part(receipt)
