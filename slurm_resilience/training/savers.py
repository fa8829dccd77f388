"""Puts together what saves: waited for, and in the background where the node has the memory for a snapshot."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import CheckpointStore
from slurm_resilience.checkpoint.writer.client import WriterProcess
from slurm_resilience.clock import Clock
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.background import BackgroundSaver
from slurm_resilience.training.environment import Environment
from slurm_resilience.training.ranks import Ranks
from slurm_resilience.training.rescue import Rescue
from slurm_resilience.training.room_keeping import RoomKeeping
from slurm_resilience.training.saver import Saver, remove
from slurm_resilience.training.snapshot_writing import SnapshotWriting, writer_command

if TYPE_CHECKING:  # they come with torch
    from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot
    from slurm_resilience.training.loans import Loans

SnapshotUse = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    use: SnapshotUse = "auto"
    """`auto`: where the memory is there. `always`: or refuse to start. `never`: the training waits for every save."""
    overlap: bool = False
    """Copy while the next step computes, up to the optimizer's step."""
    wait: bool = True
    """A save due by steps waits for one still in flight; otherwise it is left out."""


@dataclass(frozen=True, slots=True)
class Savers:
    saver: Saver
    background: BackgroundSaver | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the savers of one rank work with."""

    ranks: Ranks
    store: CheckpointStore
    journal: Journal
    attempt: int
    clock: Clock
    environment: Environment

    @property
    def run(self) -> RunDirectory:
        return self.journal.run


def make_savers(
    around: Surroundings,
    settings: SnapshotSettings,
    *,
    state: Mapping[str, Any],
    objects: Iterable[Any],
    after_commit: Callable[[], None],
    keeping: RoomKeeping | None = None,
) -> Savers:
    """Called by all ranks; `state` is this rank's now, `objects` what is registered. Without `keeping`, a save that
    meets a full disk has failed, and that's it.

    Raises CheckpointUnsupported for a value that can't be kept, ConfigurationError where snapshots must be and can't.
    """
    _refuse_what_cannot_be_kept(state)
    loans = _loans(around)
    rescue = Rescue(around.ranks, around.clock)
    if keeping is not None:
        rescue, after_commit = keeping.rescue(), keeping.before(after_commit)
    saver = Saver(
        ranks=around.ranks,
        store=around.store,
        journal=around.journal,
        attempt=around.attempt,
        clock=around.clock,
        after_commit=after_commit,
        loans=loans,
        rescue=rescue,
    )
    background, expected_bytes = None, None
    if loans is not None and settings.use != "never":
        snapshot, expected_bytes = _snapshot(around, settings, loans, state, list(objects))
        if snapshot is not None:
            writing = _writing(around, settings, loans, snapshot, list(objects))
            background = _background(around, writing, after_commit, rescue)
    if keeping is not None:
        keeping.look_ahead(expected_bytes)
    return Savers(saver, background)


def _refuse_what_cannot_be_kept(state: Mapping[str, Any]) -> None:
    from slurm_resilience.checkpoint.format.structure import flatten

    flatten(state)


def _loans(around: Surroundings) -> Loans | None:
    if not isinstance(around.store, Hdf5Store):
        return None
    from slurm_resilience.checkpoint.format.plan import Planner
    from slurm_resilience.training.loans import Loans

    return Loans(ranks=around.ranks, store=around.store, planner=Planner(), folder=around.run.checkpoints)


def _background(
    around: Surroundings, writing: SnapshotWriting, after_commit: Callable[[], None], rescue: Rescue
) -> BackgroundSaver:
    return BackgroundSaver(
        ranks=around.ranks,
        run=around.run,
        journal=around.journal,
        attempt=around.attempt,
        clock=around.clock,
        writing=writing,
        after_commit=after_commit,
        remove=lambda checkpoint: remove(around.store, around.journal, checkpoint),
        rescue=rescue,
    )


def _writing(
    around: Surroundings, settings: SnapshotSettings, loans: Loans, snapshot: Snapshot, objects: list[Any]
) -> SnapshotWriting:
    from slurm_resilience.training.overlap import Overlap

    environment = around.environment
    command = writer_command(
        around.run,
        attempt=around.attempt,
        runtime_folder=environment.runtime_folder,
        local_rank=environment.local_rank,
    )
    return SnapshotWriting(
        snapshot=snapshot,
        writer=WriterProcess(around.run.path, command),
        loans=loans,
        clock=around.clock,
        overlap=Overlap(objects) if settings.overlap else None,
    )


def _snapshot(
    around: Surroundings, settings: SnapshotSettings, loans: Loans, state: Mapping[str, Any], objects: list[Any]
) -> tuple[Snapshot | None, int]:
    """None: some rank has no memory for one. And how many bytes all ranks together will save, as it looks now.

    The same answer on all ranks: one that can't would hold up the others at every save.
    """
    from slurm_resilience.checkpoint.snapshot.memory_plan import Budget, DoesNotFit, plan_memory
    from slurm_resilience.checkpoint.snapshot.node_memory import node_memory
    from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot

    snapshot = Snapshot(rank=around.ranks.rank)
    share = loans.share(state)
    image_bytes = int((snapshot.needs_bytes(state) + still_to_come_bytes(objects)) * share)
    memory = node_memory()
    verdict = plan_memory(
        Budget(
            image_bytes=image_bytes,
            ranks_on_node=around.environment.local_world_size,
            available_bytes=memory.available_bytes,
            limit_bytes=memory.limit_bytes,
        )
    )
    why = verdict.why if isinstance(verdict, DoesNotFit) else None
    everybody: list[tuple[str | None, int]] = around.ranks.all_gather((why, image_bytes))
    expected_bytes = sum(size for _, size in everybody)
    refused = [(rank, said) for rank, (said, _) in enumerate(everybody) if said is not None]
    if not refused:
        return snapshot, expected_bytes
    rank, why = refused[0]
    if settings.use == "always":
        raise ConfigurationError(
            f"rank {rank}: {why}: ask for more memory, or let the training wait for its saves (snapshot='auto')"
        )
    if around.ranks.rank == 0:
        sys.stderr.write(f"slurm-resilience: the training will wait for its saves: on rank {rank}, {why}\n")
    return None, expected_bytes


def still_to_come_bytes(objects: Iterable[Any]) -> int:
    """What optimizers that have not stepped yet will hold, if they are like most: two moments of each parameter."""
    import torch

    coming = 0
    for each in objects:
        if isinstance(each, torch.optim.Optimizer) and not each.state:
            coming += sum(2 * p.nbytes for group in each.param_groups for p in group["params"] if p.requires_grad)
    return coming
