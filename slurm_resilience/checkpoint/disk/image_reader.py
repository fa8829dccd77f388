"""Read elements and hold them, as they now lie in memory, against their checksums."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slurm_resilience.checkpoint.disk import kernel
from slurm_resilience.checkpoint.disk.beside import Beside
from slurm_resilience.checkpoint.disk.image import PAGE_BYTES, Progress, whole_pages
from slurm_resilience.checkpoint.disk.memory import bytes_of, fresh_memory
from slurm_resilience.checkpoint.disk.open_part import OpenPart
from slurm_resilience.checkpoint.disk.read_plan import Extent, Part, Piece, pieces_of
from slurm_resilience.checkpoint.format.checksum import Checksum

_DIRECT_PIECE_BYTES = 8 << 20
"""A disk's full speed, with one or two in flight."""

_CACHED_PIECE_BYTES = 2 << 20
"""Still in a processor's cache when it is hashed, and large enough that threads seldom meet."""

Digest = bytes
"""16 bytes."""

_DIRECT_THREADS = 4
"""However few processors there are: most of the time they wait for the disk. One hashes, others have memory cleared."""

_CACHED_THREADS = 4
"""More don't read faster from memory; there are other ranks on the node."""

_SAMPLES = 16


class WrongContent(Exception):
    """The bytes are not those that were written."""

    def __init__(self, name: str, found: bytes, expected: bytes) -> None:
        super().__init__(f"{name}: {found.hex()} found, {expected.hex()} expected")
        self.name = name
        self.found = found
        self.expected = expected


class Shorter(Exception):
    """The file ends before the elements do."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class Wanted:
    """The elements called `name`, with their checksum. `into` has room for exactly them; None: only look at them."""

    name: str
    offset: int
    bytes: int
    checksum: Digest
    into: memoryview | None


def read_verified(
    file: OpenPart, wanted: Sequence[Wanted], *, progress: Progress | None = None, threads: int | None = None
) -> None:
    """Fill every `into`. Raises WrongContent, Shorter or OSError; what lies in memory then is not to be used.

    Takes up to `threads` threads (by default 4; from the page cache no more than there are processors), and of memory
    up to 8 MiB each. `progress` is called by any of them, one at a time.
    """
    for one in wanted:
        if one.into is not None and one.into.nbytes != one.bytes:
            raise ValueError(f"{one.name} has {one.bytes} bytes, there is room for {one.into.nbytes}")
    reading = _Reading(file, wanted, progress)
    with contextlib.ExitStack() as others:
        for _ in range(min(threads or reading.useful_threads(), reading.number_of_pieces) - 1):
            with contextlib.suppress(OSError):  # as many as the job's limit allows
                others.enter_context(Beside(reading.work, stop=reading.stop, name="checkpoint-read"))
        reading.work()
    error = reading.first_error()
    try:
        if error is not None:
            raise error
    finally:
        del error  # one that refers to itself would keep the memory its frames refer to: as much as the state


class _Tensor:
    """How far a tensor is hashed."""

    __slots__ = ("checksum", "hashed_bytes", "into", "read", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.into = None if wanted.into is None else bytes_of(wanted.into)
        self.checksum = Checksum()
        self.hashed_bytes = 0
        self.read: dict[int, memoryview] = {}
        """What is read, by where in the tensor it begins. Who takes a piece out hashes it: the next one, at
        `hashed_bytes`, so that there is only one at a time."""


class _Stopped(Exception):
    """Another thread has met what is to be reported."""


class _Reading:
    """What the threads share. Each takes the next piece of the file and reads it.

    A tensor is hashed in order, by whoever has read the piece that is next; it goes on with those that were read
    meanwhile. So nobody waits, except for a piece of which nothing is kept: its memory is needed for the next one.
    """

    def __init__(self, file: OpenPart, wanted: Sequence[Wanted], progress: Progress | None) -> None:
        self._file = file
        self._tensors = [_Tensor(one) for one in wanted]
        self._progress = progress
        self._directly = not _cached(file, wanted)
        self._piece_bytes = _DIRECT_PIECE_BYTES if self._directly else _CACHED_PIECE_BYTES
        extents = [Extent(one.offset, one.bytes) for one in wanted]
        pieces = list(pieces_of(extents, self._piece_bytes))
        self.number_of_pieces = len(pieces)
        self._pieces: Iterator[Piece] = iter(pieces)
        self._change = threading.Condition()
        self._stopped = False
        self._errors: list[tuple[int, BaseException]] = []

    def useful_threads(self) -> int:
        return _DIRECT_THREADS if self._directly else min(len(os.sched_getaffinity(0)), _CACHED_THREADS)

    def work(self) -> None:
        offset = 0
        try:
            scratch = fresh_memory(self._piece_bytes + 2 * PAGE_BYTES)  # what isn't needed isn't touched
            while (piece := self._next()) is not None:
                offset = piece.offset
                self._deal_with(piece, scratch)
        except _Stopped:
            return
        except BaseException as error:  # noqa: BLE001 raised again, in the first thread
            self._errors.append((offset, error))
            self.stop()

    def stop(self) -> None:
        with self._change:
            self._stopped = True
            self._change.notify_all()

    def first_error(self) -> BaseException | None:
        """What is wrong nearest the file's beginning, of what was met. It is forgotten here."""
        errors, self._errors = self._errors, []
        return min(errors, key=lambda each: each[0])[1] if errors else None

    def _next(self) -> Piece | None:
        with self._change:
            return None if self._stopped else next(self._pieces, None)

    def _deal_with(self, piece: Piece, scratch: memoryview) -> None:
        tensor = self._tensors[piece.parts[0].which]
        if len(piece.parts) == 1 and tensor.into is not None:
            part = piece.parts[0]
            elements = tensor.into[part.start : part.start + part.bytes]
            self._read_straight(piece, elements, scratch)
            self._hash(part, elements)
            return
        read = self._read(piece.offset, piece.bytes, scratch)
        for part in piece.parts:
            tensor = self._tensors[part.which]
            start = tensor.wanted.offset + part.start - piece.offset
            elements = read[start : start + part.bytes]
            if len(elements) < part.bytes:
                raise Shorter(tensor.wanted.name)
            if tensor.into is not None:
                into = tensor.into[part.start : part.start + part.bytes]
                into[:] = elements
                elements = into
            self._hash(part, elements)

    def _read_straight(self, piece: Piece, into: memoryview, scratch: memoryview) -> None:
        """To where it belongs, if the file system can."""
        if not self._directly:
            got = self._file.read_up_to(piece.offset, into)
        elif piece.offset % PAGE_BYTES == 0 and into and kernel.address_of(into) % PAGE_BYTES == 0:
            pages_bytes = len(into) - len(into) % PAGE_BYTES
            got = self._file.read_pages(piece.offset, into[:pages_bytes]) if pages_bytes else 0
            if got == pages_bytes < len(into):
                got += _copy(self._read(piece.offset + got, len(into) - got, scratch), into[got:])
        else:
            got = _copy(self._read(piece.offset, len(into), scratch), into)
        if got < len(into):
            raise Shorter(self._tensors[piece.parts[0].which].wanted.name)

    def _read(self, offset: int, size_bytes: int, scratch: memoryview) -> memoryview:
        """Up to `size_bytes`, in `scratch`."""
        if not self._directly:
            return scratch[: self._file.read_up_to(offset, scratch[:size_bytes])]
        before = offset % PAGE_BYTES
        pages = scratch[: whole_pages(before + size_bytes)]
        got = self._file.read_pages(offset - before, pages)
        return pages[before : min(got, before + size_bytes)]

    def _hash(self, part: Part, elements: memoryview) -> None:
        tensor = self._tensors[part.which]
        with self._change:
            tensor.read[part.start] = elements
            while (piece := tensor.read.pop(tensor.hashed_bytes, None)) is not None:
                self._hash_next(tensor, piece)
            while tensor.into is None and tensor.hashed_bytes < part.start + part.bytes:
                if self._stopped:
                    raise _Stopped
                self._change.wait()

    def _hash_next(self, tensor: _Tensor, piece: memoryview) -> None:
        """Called, and left, with `_change` held; hashes without it."""
        self._change.release()
        try:
            tensor.checksum.update(piece)
        finally:
            self._change.acquire()
        tensor.hashed_bytes += len(piece)
        if len(piece) < tensor.wanted.bytes:
            self._change.notify_all()
        if self._progress is not None:
            self._progress(len(piece))
        if tensor.hashed_bytes == tensor.wanted.bytes:
            found = tensor.checksum.digest()
            if found != tensor.wanted.checksum:
                raise WrongContent(tensor.wanted.name, found, tensor.wanted.checksum)


def _copy(source: memoryview, into: memoryview) -> int:
    into[: len(source)] = source
    return len(source)


def _cached(file: OpenPart, wanted: Sequence[Wanted]) -> bool:
    """Looks at random places: looking makes the kernel read ahead, and the next to look must not find that."""
    ends = list(itertools.accumulate(one.bytes for one in wanted))
    if not ends or not ends[-1]:
        return False
    samples = [random.randrange(ends[-1]) for _ in range(_SAMPLES)]
    found = [(bisect.bisect_right(ends, sample), sample) for sample in samples]
    return file.is_cached([wanted[which].offset + ends[which] - 1 - sample for which, sample in found])
