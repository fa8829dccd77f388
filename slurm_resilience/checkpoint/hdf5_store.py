"""Checkpoints as HDF5 files, one a rank: `RUN/checkpoints/<checkpoint>/rank-00003.h5`.

The format is docs/checkpoint_format.md; why it is so is in docs/decisions, numbers 2 and 7.
torch, h5py, numpy and xxhash are imported by the verbs that need them: `delete` and `path_of` need none of them,
`verify_part` no torch.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from slurm_resilience.checkpoint.disk.open_part import OpenPart
from slurm_resilience.checkpoint.disk.staged_file import StagedFile, is_staging
from slurm_resilience.checkpoint.format.part_format import Head, HeadChecksum, PartError, Placed, UnknownFormat
from slurm_resilience.checkpoint.store import Borrowed, PartReceipt, Progress, TensorEntry
from slurm_resilience.durable_file import make_directory_durably, sync_directory
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, CheckpointUnsupported

if TYPE_CHECKING:  # it comes with h5py
    from slurm_resilience.checkpoint.format.plan import Planner

CHECKPOINTS = "checkpoints"

_CHECKPOINT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_OURS = re.compile(r"rank-[0-9]{5,}\.(h5|receipt|from-.*\.h5)")
"""A part, its receipt before it is committed, and a link to a part of another checkpoint that it borrows from."""


_Content = tuple[str, int, int, bytes]
"""Bytes of a file and what they must hash to: path, offset, size, checksum."""


def _content(part: Path, placed: Placed) -> _Content:
    lies_in = part if placed.dataset.file is None else part.parent / placed.dataset.file
    return str(lies_in), placed.offset, placed.dataset.bytes, placed.checksum


class Hdf5Store:
    """A CheckpointStore below `root`, the run directory. Any number of processes may have one each.

    Keeps the plans of the last few parts, nothing else: a part of the same shape is planned once.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._planner: Planner | None = None

    def write_part(
        self,
        checkpoint: str,
        *,
        rank: int,
        state: Mapping[str, Any],
        attributes: Mapping[str, Any],
        borrowed: Mapping[str, Borrowed] | None = None,
    ) -> PartReceipt:
        """As CheckpointStore says. The state must not change meanwhile. A second write of a part replaces the first.

        Tensors in `borrowed` (by their names in `TensorEntry`) are not written: they lie in a file of the
        checkpoint's folder already, where whoever lends them has to leave them.
        """
        from slurm_resilience.checkpoint.disk.image_writer import write_from
        from slurm_resilience.checkpoint.format.structure import flatten
        from slurm_resilience.checkpoint.format.tensor import bytes_of

        folder = self._folder(checkpoint)
        final = folder / part_name(rank)
        lent = borrowed or {}
        if any(loan.file == final.name for loan in lent.values()):
            raise CheckpointUnsupported(f"{final} can't be written: it would borrow from itself")
        try:
            flat = flatten(state, {name: each.file for name, each in lent.items()})
            plan = self._plans().plan(flat, checkpoint=checkpoint, rank=rank, attributes=attributes)
            head = plan.head(checkpoint=checkpoint, rank=rank, attributes=attributes, document=flat.document)
        except ValueError as error:
            raise CheckpointUnsupported(f"{final} can't be written: {error}") from error
        for row in plan.borrowed:
            loan = lent[flat.datasets[row].name]
            plan.put_places(head, {row: loan.offset})
            plan.put_checksums(head, {row: loan.checksum})
        with _refusals(f"{final} can't be written"):
            make_directory_durably(folder)
            with StagedFile(final, owner=checkpoint, file_bytes=plan.image.file_bytes) as file:
                pieces = (bytes_of(flat.values[region.row]) for region in plan.image.regions)
                checksum = HeadChecksum(*write_from(file, head, plan.image, pieces))
                file.publish()
            # Made by us or by another rank a moment ago, who may not have come to its own sync.
            sync_directory(folder.parent)
            sync_directory(self._root)
        relative = PurePosixPath(CHECKPOINTS, checkpoint, final.name)
        return PartReceipt(rank=rank, file=str(relative), bytes=plan.image.file_bytes, checksum=str(checksum))

    def read_part(self, receipt: PartReceipt, *, progress: Progress | None = None) -> dict[str, Any]:
        """As CheckpointStore says. Tensors are on the CPU, in fresh memory, contiguous."""
        from slurm_resilience.checkpoint.format.structure_rebuilt import rebuild
        from slurm_resilience.checkpoint.format.tensor import allocate_all
        from slurm_resilience.checkpoint.part_content import check_loans, read_elements, verified_head

        path = self.path_of(receipt)
        with self._answers_of(path), OpenPart(path) as file:
            head = verified_head(file, receipt)
            check_loans(path.parent, head.placed)
            file.shared = any(placed.dataset.file is not None for placed in head.placed)  # who borrows, lends as well
            allocations = allocate_all([placed.dataset for placed in head.placed])
            memory = [allocation.bytes for allocation in allocations]
            read_elements(file, path.parent, head.placed, memory, progress)
            return rebuild(head.document, [allocation.value for allocation in allocations])

    def verify_part(self, receipt: PartReceipt, *, progress: Progress | None = None) -> list[TensorEntry]:
        return self._verify(receipt, set(), progress)

    def verify_parts(self, receipts: Sequence[PartReceipt], *, progress: Progress | None = None) -> None:
        """All parts of one checkpoint: as `verify_part` of each, but what they borrow from one another is read once."""
        verified: set[_Content] = set()
        for receipt in receipts:
            self._verify(receipt, verified, progress)

    def _verify(self, receipt: PartReceipt, verified: set[_Content], progress: Progress | None) -> list[TensorEntry]:
        """`verified`: what needn't be read again; what is, is added."""
        from slurm_resilience.checkpoint.part_content import read_elements, verified_head

        path = self.path_of(receipt)
        with self._answers_of(path), OpenPart(path) as file:
            head = verified_head(file, receipt)
            fresh = {_content(path, placed): placed for placed in head.placed}
            for known in fresh.keys() & verified:
                del fresh[known]
            read_elements(file, path.parent, list(fresh.values()), [None] * len(fresh), progress)
            verified.update(fresh)
        return [
            TensorEntry(
                name=placed.dataset.name,
                dtype=placed.dataset.dtype,
                shape=placed.dataset.shape,
                bytes=placed.dataset.bytes,
                checksum=f"xxh3-128:{placed.checksum.hex()}",
            )
            for placed in head.placed
        ]

    def head_of(self, receipt: PartReceipt) -> Head:
        """What the part says of itself and of its tensors, verified. Reads no element. Same errors as `read_part`."""
        from slurm_resilience.checkpoint.part_content import verified_head

        path = self.path_of(receipt)
        with self._answers_of(path), OpenPart(path) as file:
            return verified_head(file, receipt)

    def read_attributes(self, receipt: PartReceipt) -> dict[str, Any]:
        """The `attributes` given to `write_part`, verified. Reads the head only. Same errors as `read_part`."""
        return self.head_of(receipt).attributes

    def delete(self, checkpoint: str) -> None:
        """Remove the parts of `checkpoint`, what they borrow and what dead writers left. Other files, and their
        folder, stay. (A borrowed file is a link: the part it belongs to keeps its own.)

        Durable and harmless twice. CheckpointUnavailable if the file system refuses.
        """
        folder = self._folder(checkpoint)
        with _refusals(f"{folder} can't be deleted"):
            try:
                ours = [path for path in folder.iterdir() if _OURS.fullmatch(path.name) or is_staging(path)]
            except FileNotFoundError:
                return
            # Receipts first: killed in here, nobody is to find the words of all ranks beside a part that is gone.
            for path in sorted(ours, key=lambda path: path.suffix != ".receipt"):
                path.unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                try:
                    folder.rmdir()
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    sync_directory(folder)  # somebody else's file lies there: it is not ours to remove
                sync_directory(folder.parent)

    def found_on_disk(self) -> list[str]:
        """Folders of checkpoints, whole or not: to clear away what the manifest does not name, never to load from."""
        folder = self._root / CHECKPOINTS
        with _refusals(f"{folder} can't be listed"):
            try:
                return sorted(path.name for path in folder.iterdir() if _CHECKPOINT_ID.fullmatch(path.name))
            except FileNotFoundError:
                return []

    def path_of(self, receipt: PartReceipt) -> Path:
        """Where the part lies. CheckpointDamaged for a receipt that points out of the run directory."""
        relative = PurePosixPath(receipt.file)
        if relative.is_absolute() or ".." in relative.parts or "\0" in receipt.file:
            raise CheckpointDamaged(self._root, f"a receipt names {receipt.file}, which is not below it")
        return self._root / relative

    def _plans(self) -> Planner:
        from slurm_resilience.checkpoint.format.plan import Planner

        if self._planner is None:
            self._planner = Planner()
        return self._planner

    def _folder(self, checkpoint: str) -> Path:
        if not _CHECKPOINT_ID.fullmatch(checkpoint):
            raise CheckpointUnsupported(f"{checkpoint!r} can't be the name of a checkpoint")
        return self._root / CHECKPOINTS / checkpoint

    @contextlib.contextmanager
    def _answers_of(self, path: Path) -> Iterator[None]:
        """Say in the store's errors what reading `path` came to."""
        try:
            yield
        except PartError as error:
            raise CheckpointDamaged(path, str(error)) from error
        except UnknownFormat as error:
            raise CheckpointUnsupported(f"{path}: {error}") from error
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            absent = self._not_mounted(path)
            if absent is not None:  # that says nothing about the checkpoint
                raise CheckpointUnavailable(f"{absent} is not there") from error
            raise CheckpointDamaged(path, "the file is missing") from error
        except OSError as error:
            raise CheckpointUnavailable(f"{path} can't be read: {error.strerror}") from error

    def _not_mounted(self, path: Path) -> Path | None:
        """What is missing on the way to `path`, where another file system may be: the run directory, or what a link
        leads to."""
        if not self._root.is_dir():
            return self._root
        on_the_way = [path, *(each for each in path.parents if each.is_relative_to(self._root))]
        return next((each for each in on_the_way if each.is_symlink() and not each.exists()), None)


def part_name(rank: int) -> str:
    return f"rank-{rank:05d}.h5"


@contextlib.contextmanager
def _refusals(what: str) -> Iterator[None]:
    """The file system's refusals, errno kept in `__cause__`."""
    try:
        yield
    except OSError as error:
        raise CheckpointUnavailable(f"{what}: {error.strerror or error}") from error
