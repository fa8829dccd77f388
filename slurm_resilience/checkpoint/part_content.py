"""The bytes of a part, never handed on unverified.

Knows no torch: elements are memory, whatever they mean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from slurm_resilience.checkpoint.disk.image_reader import Shorter, Wanted, WrongContent, read_verified
from slurm_resilience.checkpoint.disk.open_part import OpenPart
from slurm_resilience.checkpoint.format.checksum import checksum_of
from slurm_resilience.checkpoint.format.hdf5_head import parse
from slurm_resilience.checkpoint.format.part_format import Head, HeadChecksum, PartError, Placed
from slurm_resilience.checkpoint.store import PartReceipt, Progress


def verified_head(file: OpenPart, receipt: PartReceipt) -> Head:
    """The head that `receipt` vouches for. Raises PartError for any other, UnknownFormat, and OSError."""
    expected = HeadChecksum.parse(receipt.checksum)
    size_bytes = file.size_bytes()
    if size_bytes != receipt.bytes:
        raise PartError(f"it has {size_bytes} bytes, its receipt says {receipt.bytes}")
    if expected.head_bytes > size_bytes:
        raise PartError(f"its receipt speaks of a head of {expected.head_bytes} bytes, the file has {size_bytes}")
    raw = bytearray(expected.head_bytes)
    if not file.read_into(0, memoryview(raw)):
        raise PartError("it became shorter while it was read")
    found = checksum_of(raw)
    if found != expected.digest:
        raise PartError(
            f"its head has the checksum xxh3-128:{found.hex()}, its receipt says xxh3-128:{expected.digest.hex()}: "
            "it was altered, or is not the file that the receipt is for"
        )
    head = parse(raw, size_bytes)
    if head.rank != receipt.rank:
        raise PartError(f"it is the part of rank {head.rank}, its receipt is for rank {receipt.rank}")
    return head


def check_loans(folder: Path, placed: Sequence[Placed]) -> None:
    """Refuse borrowed tensors that don't fit in their file, before any memory is taken for them."""
    loans: dict[str, list[Wanted]] = {}
    for each in placed:
        if each.dataset.file is not None and each.dataset.bytes:
            loans.setdefault(each.dataset.file, []).append(_wanted(each, None))
    for lender, wanted in loans.items():
        with _lent_by(folder, lender, wanted):
            pass


def read_elements(
    file: OpenPart,
    folder: Path,
    placed: Sequence[Placed],
    into: Sequence[memoryview | None],
    progress: Progress | None,
) -> None:
    """Read the elements of `placed`, which lie in `file` or beside it in `folder`, and verify them as they now lie in
    memory; with None they are only looked at.

    Raises PartError naming the tensor, and its file if that is another, and OSError.
    """
    rows: dict[str | None, list[int]] = {}
    for row, each in enumerate(placed):
        if each.dataset.bytes:
            rows.setdefault(each.dataset.file, []).append(row)
    for lender, some in rows.items():
        wanted = [_wanted(placed[row], into[row]) for row in some]
        with contextlib.nullcontext(file) if lender is None else _lent_by(folder, lender, wanted) as opened:
            _read(opened, wanted, progress)


@contextlib.contextmanager
def _lent_by(folder: Path, lender: str, wanted: Sequence[Wanted]) -> Iterator[OpenPart]:
    """The file that tensors are borrowed from. It is part of this part: without it, this one is damaged."""
    try:
        with OpenPart(folder / lender, shared=True) as opened:  # its own rank reads it, and others that borrow
            size_bytes = opened.size_bytes()
            for one in wanted:
                if one.offset + one.bytes > size_bytes:
                    raise PartError(
                        f"tensor {one.name} ends at byte {one.offset + one.bytes}, that file at {size_bytes}"
                    )
            yield opened
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise PartError(f"tensor {wanted[0].name} can't be read: that file is missing") from error
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} (in {lender}, from which it borrows)") from error


def _read(file: OpenPart, wanted: Sequence[Wanted], progress: Progress | None) -> None:
    try:
        read_verified(file, wanted, progress=progress)
    except Shorter as error:
        raise PartError(f"tensor {error.name} became shorter while it was read") from error
    except WrongContent as error:
        raise PartError(
            f"tensor {error.name} has the checksum xxh3-128:{error.found.hex()}, "
            f"xxh3-128:{error.expected.hex()} was written"
        ) from error


def _wanted(placed: Placed, into: memoryview | None) -> Wanted:
    dataset = placed.dataset
    name = dataset.name if dataset.file is None else f"{dataset.name} (in {dataset.file})"
    return Wanted(name, placed.offset, dataset.bytes, placed.checksum, into)
