"""Taking snapshots of one rank's state, save after save into the same memory."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import torch

from slurm_resilience.checkpoint.format.plan import PartPlan, Planner
from slurm_resilience.checkpoint.format.structure import Flattened, flatten
from slurm_resilience.checkpoint.format.tensor import bytes_of, identity
from slurm_resilience.checkpoint.hdf5_store import CHECKPOINTS, part_name
from slurm_resilience.checkpoint.snapshot.batches import Batch, Copy, batch_bytes, batches_of
from slurm_resilience.checkpoint.snapshot.copying import Later, Numbered, Rising, copy_all
from slurm_resilience.checkpoint.snapshot.front import Front
from slurm_resilience.checkpoint.snapshot.place import Place, arena_bytes
from slurm_resilience.checkpoint.snapshot.taken import Taken
from slurm_resilience.checkpoint.snapshot.watermark import Watermark
from slurm_resilience.checkpoint.store import Borrowed
from slurm_resilience.checkpoint.writer.job import WriteJob
from slurm_resilience.errors import CheckpointUnsupported

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.snapshot.device_copying import DeviceCopying

_MOST_THREADS = 2
"""Two fill the memory's bandwidth here; more would take processors from the training for little."""

Identity = tuple[object, ...]


class Snapshot:
    """One per rank. Keeps the memory and the plan of the last snapshot; nothing before the first one."""

    def __init__(self, *, rank: int, threads: int | None = None) -> None:
        self._rank = rank
        self._threads = threads or min(_MOST_THREADS, len(os.sched_getaffinity(0)))
        self._planner = Planner()
        self._place = Place()
        self._watermark: Watermark | None = None
        self._last: Taken | None = None
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def needs_bytes(self, state: Mapping[str, Any]) -> int:
        """The memory that a snapshot of this state takes. Copies nothing. Raises CheckpointUnsupported."""
        return arena_bytes(self._plan("to-be-measured", state, {}, {})[1].image.file_bytes)

    @property
    def held_bytes(self) -> int:
        """The memory that is ours already."""
        return 0 if self._place.arena is None else self._place.arena.size_bytes

    def take(
        self,
        checkpoint: str,
        state: Mapping[str, Any],
        attributes: Mapping[str, Any],
        *,
        context: Mapping[str, Any] | None = None,
        overlap: bool = False,
        overlapped: AbstractSet[Identity] = frozenset(),
        borrowed: Mapping[str, Borrowed] | None = None,
    ) -> Taken:
        """Hold on to `state` as it is now. What was taken before is overwritten: ValueError while a writer reads it.

        Without `overlap` all is copied when this returns. With it, tensors whose identity (`format.tensor.identity`)
        is in `overlapped` are copied afterwards, and must not change before `Taken.wait` has returned.
        Raises CheckpointUnsupported as a store does, OSError and MemoryError where there is no memory for it.
        """
        self._settle()
        flat, plan, head = self._plan(checkpoint, state, attributes, borrowed or {})
        arena = self._place.lay_out(plan.image, flat.datasets)
        if self._watermark is None:
            self._watermark = Watermark.make()
        self._watermark.put(0)
        arena.memory[: len(head)] = head
        job = WriteJob(
            checkpoint=checkpoint,
            rank=self._rank,
            file=str(PurePosixPath(CHECKPOINTS, checkpoint, part_name(self._rank))),
            image=plan.image,
            context=dict(context or {}),
        )
        copies = self._copies(flat, plan, arena.memory, overlapped if overlap else frozenset())
        self._last = self._copy(job, copies, self._watermark)
        return self._last

    def close(self) -> None:
        """Give the memory back; a writer that still reads it keeps it as long as it needs."""
        still_read = False
        if self._last is not None:
            self._last.settle()
            still_read = self._last.lent
            self._last = None
        self._place.close(still_read=still_read)
        if self._watermark is not None:
            self._watermark.close()
            self._watermark = None

    def _settle(self) -> None:
        last = self._last
        if last is None:
            return
        if last.lent:
            raise ValueError(f"{last.job.file} is still being written")
        last.settle()
        self._last = None  # and with it the tensors of then

    def _plan(
        self, checkpoint: str, state: Mapping[str, Any], attributes: Mapping[str, Any], lent: Mapping[str, Borrowed]
    ) -> tuple[Flattened, PartPlan, bytearray]:
        try:
            flat = flatten(state, {name: each.file for name, each in lent.items()})
            plan = self._planner.plan(flat, checkpoint=checkpoint, rank=self._rank, attributes=attributes)
            head = plan.head(checkpoint=checkpoint, rank=self._rank, attributes=attributes, document=flat.document)
        except ValueError as error:
            raise CheckpointUnsupported(f"{checkpoint} can't be written: {error}") from error
        for row in plan.borrowed:
            loan = lent[flat.datasets[row].name]
            plan.put_places(head, {row: loan.offset})
            plan.put_checksums(head, {row: loan.checksum})
        return flat, plan, head

    def _copies(
        self, flat: Flattened, plan: PartPlan, memory: memoryview, overlapped: AbstractSet[Identity]
    ) -> dict[tuple[torch.device, bool], list[Copy]]:
        """What is to be copied, in file order, by where it lies and whether it may be later. Arrays are copied here."""
        copies: dict[tuple[torch.device, bool], list[Copy]] = defaultdict(list)
        with torch.no_grad():
            for region in plan.image.regions:
                value = flat.values[region.row]
                if not isinstance(value, torch.Tensor):
                    memory[region.offset : region.offset + region.bytes] = bytes_of(value)
                    continue
                later = bool(overlapped) and identity(value) in overlapped and value.device.type in ("cpu", "cuda")
                copy = self._place.copy(region.row, region.offset, value.detach(), guarded=later)
                copies[value.device, later].append(copy)
        return copies

    def _copy(
        self, job: WriteJob, copies: Mapping[tuple[torch.device, bool], list[Copy]], watermark: Watermark
    ) -> Taken:
        limit_bytes = batch_bytes(job.image.file_bytes, self._threads)
        grouped = {key: batches_of(group, limit_bytes) for key, group in copies.items()}
        batches = sorted((batch for group in grouped.values() for batch in group), key=lambda batch: batch.start)
        number = {id(batch): index for index, batch in enumerate(batches)}
        rising = Rising(watermark, Front([batch.start for batch in batches], job.image.file_bytes))
        rising.begin()

        def numbered(kind: str, *, later: bool) -> dict[torch.device, list[Numbered]]:
            return {
                device: [(number[id(batch)], batch) for batch in group]
                for (device, is_later), group in grouped.items()
                if (device.type == "cuda") is (kind == "cuda") and is_later is later
            }

        try:
            now = self._enqueued(numbered("cuda", later=False), rising)
            following = self._enqueued(numbered("cuda", later=True), rising)
            host = [each for group in numbered("host", later=False).values() for each in group]
            copy_all(sorted(host, key=_first), rising, self._threads)
            for copying in now:
                copying.finish()
        except BaseException:
            rising.spoil()
            raise
        for copying in following:
            copying.follow()
        later = [each for group in numbered("host", later=True).values() for each in group]
        behind = Later(later, rising, self._threads) if later else None
        if behind is not None:
            behind.start()
        assert self._place.arena is not None, "it was laid out"
        return Taken(job, self._place.arena, watermark, rising=rising, later=behind, devices=following)

    def _enqueued(self, batches: Mapping[torch.device, list[Numbered]], rising: Rising) -> list[DeviceCopying]:
        if not batches:
            return []
        from slurm_resilience.checkpoint.snapshot.device_copying import DeviceCopying

        copyings = []
        for device, group in batches.items():
            self._place.pin()
            stream = self._streams.get(device)
            if stream is None:
                stream = self._streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            copying = DeviceCopying(stream, rising)
            copying.enqueue(group)
            copyings.append(copying)
        return copyings


def _first(numbered: tuple[int, Batch]) -> int:
    return numbered[0]
