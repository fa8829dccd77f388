"""One job: from a snapshot that is still being made to a durable part."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

from slurm_resilience.checkpoint.disk.arena import Arena
from slurm_resilience.checkpoint.disk.shared_image import write_shared
from slurm_resilience.checkpoint.disk.staged_file import StagedFile
from slurm_resilience.checkpoint.format.part_format import HeadChecksum
from slurm_resilience.checkpoint.snapshot.watermark import SnapshotSpoilt, Watermark
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer.job import WriteJob
from slurm_resilience.checkpoint.writer.outcome import Refused, Written
from slurm_resilience.clock import Clock
from slurm_resilience.durable_file import make_directory_durably, sync_directory

PAUSES_S = (0.2, 1.0, 4.0)
"""Before another try. What lasts longer is for the training to decide: it knows what it would lose."""

_LOOK_S = 0.0005
_LOOKS_A_QUESTION = 20
"""How often the watermark is looked at before the question whether the rank still lives, which costs more."""

_MAY_PASS = frozenset({errno.EIO, errno.ESTALE, errno.EINTR, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT, errno.ETIMEDOUT})


class SnapshotLost(Exception):
    """The rank is gone, and its snapshot was not whole: nobody can make it so."""


Finish = Callable[[WriteJob, PartReceipt], None]


def execute(
    job: WriteJob,
    arena: Arena,
    watermark: Watermark,
    root: Path,
    *,
    finish: Finish,
    refused: Callable[[WriteJob, str], None],
    rank_is_gone: Callable[[], bool],
    clock: Clock,
    pauses_s: Sequence[float] = PAUSES_S,
) -> Written | Refused:
    """Write the part, then `finish` it; or say `refused`, for whoever waits for it. Raises SnapshotLost only."""
    began_s = clock.monotonic_s()

    def filled(end: int) -> None:
        looks = 0
        while watermark.reached() < end:
            looks += 1
            # Looked at once more after the answer: the rank may have died behind its last word.
            if looks % _LOOKS_A_QUESTION == 0 and rank_is_gone() and watermark.reached() < job.image.file_bytes:
                raise SnapshotLost
            clock.sleep(_LOOK_S)

    answer: Refused
    try:
        receipt = _written(job, arena, root, filled, clock, pauses_s)
    except SnapshotSpoilt as spoilt:
        answer = Refused(None, str(spoilt))
    except OSError as error:
        answer = Refused(error.errno, f"{root / job.file} can't be written: {error.strerror or error}")
    except ValueError as error:  # an image that contradicts itself or its arena
        answer = Refused(None, f"{root / job.file} can't be written: {error}")
    else:
        return _finished(job, receipt, root, finish, began_s, clock)
    refused(job, answer.why)
    return answer


def _finished(
    job: WriteJob, receipt: PartReceipt, root: Path, finish: Finish, began_s: float, clock: Clock
) -> Written | Refused:
    try:
        finish(job, receipt)
    except Exception as error:  # noqa: BLE001 whatever it is, the rank must hear of it and the next job must come
        number = error.errno if isinstance(error, OSError) else None
        return Refused(number, f"{root / job.file} is written, but not finished: {error}")
    return Written(receipt, round(clock.monotonic_s() - began_s, 6))


def _written(
    job: WriteJob,
    arena: Arena,
    root: Path,
    filled: Callable[[int], None],
    clock: Clock,
    pauses_s: Sequence[float],
) -> PartReceipt:
    """Tried again, from the file's beginning, for refusals that pass. Raises the last."""
    for pause_s in pauses_s:
        try:
            return _try(job, arena, root, filled)
        except OSError as error:
            if error.errno not in _MAY_PASS:
                raise
        clock.sleep(pause_s)
    return _try(job, arena, root, filled)


def _try(job: WriteJob, arena: Arena, root: Path, filled: Callable[[int], None]) -> PartReceipt:
    if not root.is_dir():  # not mounted: making it anew would hide that
        raise FileNotFoundError(errno.ENOENT, f"{root} is not there")
    final = root / job.file
    make_directory_durably(final.parent)
    with StagedFile(final, owner=job.checkpoint, file_bytes=job.image.file_bytes) as file:
        digest, head_bytes = write_shared(file, arena.memory, job.image, filled=filled)
        file.publish()
    # Made by us or by another rank a moment ago, who may not have come to its own sync.
    for folder in final.parent.parents:
        sync_directory(folder)
        if folder == root:
            break
    return PartReceipt(
        rank=job.rank, file=job.file, bytes=job.image.file_bytes, checksum=str(HeadChecksum(digest, head_bytes))
    )
