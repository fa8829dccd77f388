"""A file made the same in another place: whole under its final name, or not there.

    checkpoints/<id>/.rank-00000.h5.<owner>.<identity>.tmp      a copy on its way; the next try goes on with it

The staging name says what the file is going to be, so a copier that died is continued by the next, whoever that is.
Two at the same file write the same bytes to the same places of the same inode, so they can't harm each other.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.checkpoint.disk.kernel import read_some, start_write_back, write_some
from slurm_resilience.checkpoint.tiers.contents import Contents, NotAsVouched, Watch
from slurm_resilience.checkpoint.tiers.passage import watched
from slurm_resilience.checkpoint.tiers.source import Source
from slurm_resilience.checkpoint.tiers.transit import PIECE_BYTES, Transit
from slurm_resilience.durable_file import make_directory_durably, sync_directory
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable

_SYNC_EVERY_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Copied:
    moved_bytes: int
    found_bytes: int
    """What was there already, read back and proven."""


def copy_file(source: Source, contents: Contents, final: Path, *, owner: str, transit: Transit) -> Copied:
    """Make `final` a durable copy of `source`, every byte of it held against `contents` on its way.

    `owner` (the checkpoint's id) goes into the staging name. A `final` that is there already and is right is left
    alone; one that isn't is replaced. Raises CheckpointDamaged (the source isn't what was written),
    CheckpointUnavailable (errno in `__cause__`) and Interrupted.
    """
    with refusals(f"{source.name} can't be copied to {final}"):
        if proven_bytes(final, contents, transit) == contents.size_bytes:
            # Whoever made it may not have come to its own sync.
            sync_directory(final.parent)
            transit.found(contents.size_bytes)
            return Copied(0, contents.size_bytes)
        make_directory_durably(final.parent)
        staging = copy_path(final, owner, contents)
        with _opened(source) as opened, _staged(staging) as descriptor:
            # Through the descriptor: by its name we might prove one file and write another.
            start = _proven_bytes(descriptor, contents, transit)
            transit.found(start)
            _fill(descriptor, watched(opened, contents, start=start, transit=transit), start)
            os.ftruncate(descriptor, contents.size_bytes)
            os.fsync(descriptor)
            made = os.fstat(descriptor)
        if not _publish(staging, made, final) and proven_bytes(final, contents, transit) != contents.size_bytes:
            raise FileNotFoundError(errno.ENOENT, "it was removed while it was written", str(staging))
        sync_directory(final.parent)
        return Copied(contents.size_bytes - start, start)


def copy_path(final: Path, owner: str, contents: Contents) -> Path:
    return final.with_name(f".{final.name}.{owner}.{contents.identity[:16]}.tmp")


def proven_bytes(path: Path, contents: Contents, transit: Transit) -> int | None:
    """How many of the first bytes of `path` are what `contents` says: up to the first span that isn't.

    0 for a file of another size, None where there is none. Raises OSError and Interrupted.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(descriptor).st_size != contents.size_bytes:
            return 0
        return _proven_bytes(descriptor, contents, transit)
    finally:
        os.close(descriptor)


def _proven_bytes(descriptor: int, contents: Contents, transit: Transit) -> int:
    watch = Watch(contents)
    scratch = memoryview(bytearray(min(PIECE_BYTES, max(contents.size_bytes, 1))))
    offset = 0
    while offset < contents.size_bytes:
        transit.check()
        count = read_some(descriptor, scratch[: contents.size_bytes - offset], offset)
        if count == 0:
            break
        try:
            watch.see(scratch[:count])
        except NotAsVouched:
            break
        offset += count
    return watch.proven


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[Source]:
    try:
        source.__enter__()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CheckpointDamaged(Path(source.name), "the file is missing") from error
    try:
        yield source
    finally:
        source.__exit__(None, None, None)


@contextlib.contextmanager
def _staged(staging: Path) -> Iterator[int]:
    descriptor = os.open(staging, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            staging.unlink(missing_ok=True)  # half a copy must not hold the room that a save needs
        raise
    except CheckpointDamaged:
        os.close(descriptor)
        staging.unlink(missing_ok=True)  # nothing good will come of it
        raise
    except BaseException:
        os.close(descriptor)  # interrupted: the next try goes on with it
        raise
    else:
        os.close(descriptor)  # on NFS the last refusal comes here


def _fill(descriptor: int, pieces: Iterator[memoryview], offset: int) -> None:
    synced = offset
    for piece in pieces:
        _write_all(descriptor, piece, offset)
        start_write_back(descriptor, offset, len(piece))  # while the next piece is read
        offset += len(piece)
        if offset - synced >= _SYNC_EVERY_BYTES:
            # Dirty memory stays bounded, and this much need not be copied again after a crash of the node.
            os.fdatasync(descriptor)
            _drop_from_cache(descriptor, synced, offset - synced)
            synced = offset


def _write_all(descriptor: int, piece: memoryview, offset: int) -> None:
    while piece:
        written = write_some(descriptor, piece, offset)
        offset += written
        piece = piece[written:]


def _drop_from_cache(descriptor: int, offset: int, count: int) -> None:
    with contextlib.suppress(OSError):  # advice, not a promise
        os.posix_fadvise(descriptor, offset, count, os.POSIX_FADV_DONTNEED)


def _publish(staging: Path, made: os.stat_result, final: Path) -> bool:
    """False: `staging` isn't what we made, or no more. Another copier of the file was faster, or it was swept."""
    try:
        if not os.path.samestat(staging.stat(), made):
            return False
        staging.replace(final)
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def refusals(what: str) -> Iterator[None]:
    """The file system's refusals, errno kept in `__cause__`."""
    try:
        yield
    except OSError as error:
        raise CheckpointUnavailable(f"{what}: {error.strerror or error}") from error
