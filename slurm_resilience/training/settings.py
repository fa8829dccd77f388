"""What `open_run` was told, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience.checkpoint.retention import Policy
from slurm_resilience.checkpoint.store import CheckpointStore
from slurm_resilience.training.pace import PaceSettings
from slurm_resilience.training.rhythm import SaveRhythm
from slurm_resilience.training.savers import SnapshotSettings


def hdf5_store(directory: Path) -> CheckpointStore:
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store

    return Hdf5Store(directory)


@dataclass(frozen=True, slots=True)
class RunSettings:
    rhythm: SaveRhythm
    keep: Policy = field(default_factory=lambda: Policy(3))
    pace: PaceSettings | None = None
    from_scratch: bool = False
    snapshots: SnapshotSettings = field(default_factory=SnapshotSettings)
    second_place: Path | None = None
    """Where saves go that the run directory has refused, unless the environment names another."""
    store: Callable[[Path], CheckpointStore] = hdf5_store
    """Makes the store for a run directory."""
