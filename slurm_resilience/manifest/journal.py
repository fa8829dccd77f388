"""The manifest of a run: an append-only file of facts, and the only place that says which checkpoints exist.

Whenever a writer dies in here, a reader afterwards finds the lines before its append, or these and the first so many
of the appended ones; never half a line.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.clock import Clock, SystemClock
from slurm_resilience.durable_file import make_directory_durably, replace_durably, sync_directory
from slurm_resilience.errors import ConfigurationError, Fenced, ManifestDamaged, ManifestError, ManifestUnavailable
from slurm_resilience.manifest.encoding import decode, encode
from slurm_resilience.manifest.lock import PATIENCE_S, Flock, NativeLock, RunLock, say_on_stderr
from slurm_resilience.manifest.read_once import ReadOnce
from slurm_resilience.manifest.records import AttemptStarted, Line, Record, RunCreated, RunId
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.manifest.text import parse

_READ_TRIES = 5


class Journal:
    """Reading needs no lock. Writing takes it, for a few milliseconds.

    May be used from several threads. Raises ManifestUnavailable wherever the file system says no.
    """

    def __init__(
        self,
        run: RunDirectory,
        *,
        clock: Clock | None = None,
        patience_s: float = PATIENCE_S,
        native_lock: Callable[[Path], NativeLock] = Flock,
        say: Callable[[str], None] = say_on_stderr,
    ) -> None:
        """`patience_s`: how long to wait for the lock. `say` is told, once, when flock doesn't work here."""
        self.run = run
        self._clock = clock or SystemClock()
        self._patience_s = patience_s
        self._native_lock = native_lock
        self._say = say
        self._known = _Known()
        self._once: ReadOnce | None = None

    def exists(self) -> bool:
        try:
            return self.run.journal.is_file()
        except OSError as error:  # "permission denied" is not "no"
            raise ManifestUnavailable(f"{self.run.journal} can't be looked at: {error}") from error

    def create(self, name: str) -> RunId:
        """Make the run directory and the line that creates the run. Where there is one already: its id."""
        with _translated(self.run.path):
            make_directory_durably(self.run.path)
        with self._locked():
            if self.exists():
                return self._run_id()
            record = RunCreated(RunId(secrets.token_hex(8)), name)
            with _translated(self.run.journal):
                # Not an append: a file with half a first line would be nobody's run.
                replace_durably(self.run.journal, encode(Line(1, self._clock.now_s(), record)))
                sync_directory(self.run.path.parent)  # who made the directory may have died before this
            return record.run_id

    def read(self) -> list[Line]:
        """All lines. A torn last one doesn't exist.

        Raises ConfigurationError (no such run), ManifestDamaged and ManifestUnsupported.
        """
        seen: bytes | None = None
        for _ in range(_READ_TRIES):
            raw = self._bytes()
            try:
                return self._parsed(raw)
            except ManifestDamaged:
                # A writer may have replaced a torn tail under our eyes: damage looks the same twice.
                if raw == seen:
                    raise
                seen = raw
        return self._parsed(self._bytes())

    @contextlib.contextmanager
    def remembering(self) -> Iterator[None]:
        """Inside, what was read once is not parsed again: for who reads it several times and has seconds for that.

        Not for longer: the lines of a run of many ranks take some hundred megabytes.
        """
        before, self._once = self._once, self._once or ReadOnce()
        try:
            yield
        finally:
            self._once = before

    def _parsed(self, raw: bytes) -> list[Line]:
        once = self._once
        return list(parse(self.run.journal, raw).lines) if once is None else once.lines(self.run.journal, raw)

    def holds(self, record: Record) -> bool:
        """Whether the line is there, say after an append that failed. False where nobody can say."""
        try:
            return any(line.record == record for line in self.read())
        except ManifestError:
            return False

    def append(self, *records: Record, fence: int | None = None) -> list[Line]:
        """Add `records`, durably, by one write; a crash keeps a first part of them at most.

        Raises Fenced when an attempt newer than `fence` has started. When it raises ManifestUnavailable nothing was
        added, unless the file system failed even at taking it back: so a record may appear twice, but never be lost.
        """
        with self.writing() as writer:
            return writer.append(*records, fence=fence)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Writer]:
        """The lock, for who must read, judge and append without anybody coming between."""
        with self._locked():
            with _translated(self.run.journal):
                try:
                    descriptor = os.open(self.run.journal, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
                except FileNotFoundError:
                    raise self._no_such_run() from None
            try:
                writer = Writer(self.run.journal, descriptor, self._clock, self._known, self._parsed)
                writer.catch_up()
                yield writer
            finally:
                with contextlib.suppress(OSError):  # what was appended is durable already
                    os.close(descriptor)

    def _locked(self) -> RunLock:
        with _translated(self.run.path):
            there = self.run.path.is_dir()
        if not there:
            raise self._no_such_run()
        return RunLock(
            self.run.lock, patience_s=self._patience_s, clock=self._clock, native=self._native_lock, say=self._say
        )

    def _run_id(self) -> RunId:
        record = self.read()[0].record
        assert isinstance(record, RunCreated)  # parse has made sure
        return record.run_id

    def _bytes(self) -> bytes:
        with _translated(self.run.journal):
            try:
                return self.run.journal.read_bytes()
            except FileNotFoundError:
                raise self._no_such_run() from None

    def _no_such_run(self) -> ConfigurationError:
        return ConfigurationError(f"there is no run in {self.run.path}: {self.run.journal.name} is missing")


@dataclass(slots=True)
class _Known:
    """What this process has read and verified of the file: only ever added to, so it needs no second look."""

    inode: int = 0
    bytes: int = 0
    seq: int = 0
    newest_attempt: int = 0


class Writer:
    """The manifest, open and locked. Made by `Journal.writing`."""

    def __init__(
        self, path: Path, descriptor: int, clock: Clock, known: _Known, parsed: Callable[[bytes], list[Line]]
    ) -> None:
        self._path = path
        self._parsed = parsed
        self._descriptor = descriptor
        self._clock = clock
        self._known = known
        self._torn = b""

    def catch_up(self) -> None:
        """Verify what others have added since this process looked last."""
        known = self._known
        with _translated(self._path):
            status = os.fstat(self._descriptor)
            if status.st_ino != known.inode:
                known.inode, known.bytes, known.seq, known.newest_attempt = status.st_ino, 0, 0, 0
            if status.st_size < known.bytes:
                raise ManifestDamaged(self._path, known.seq, "the file is shorter than it was")
            raw = _read_from(self._descriptor, known.bytes)
        text = parse(self._path, raw, first_seq=known.seq + 1)
        self._take_in(list(text.lines), text.whole_bytes)
        self._torn = text.torn

    def lines(self) -> list[Line]:
        """All lines, from the first."""
        with _translated(self._path):
            raw = _read_from(self._descriptor, 0)
        return self._parsed(raw)

    def append(self, *records: Record, fence: int | None = None) -> list[Line]:
        """As `Journal.append`."""
        if fence is not None and self._known.newest_attempt > fence:
            raise Fenced(fence, self._known.newest_attempt)
        if not records:
            return []
        now_s = self._clock.now_s()
        encoded = [encode(Line(self._known.seq + 1 + i, now_s, record)) for i, record in enumerate(records)]
        lines = [decode(raw[:-1]) for raw in encoded]  # what readers will see, or an error before it is written
        data = b"".join(encoded)
        with _translated(self._path):
            self._set_torn_tail_aside()
            self._write(data)
            if os.fstat(self._descriptor).st_size != self._known.bytes + len(data):
                raise ManifestDamaged(
                    self._path,
                    self._known.seq + 1,
                    "somebody else wrote although this process has the lock: flock is not shared between hosts here "
                    "(Lustre mounted with localflock?)",
                )
        self._take_in(lines, len(data))
        return lines

    def _take_in(self, lines: list[Line], size: int) -> None:
        known = self._known
        known.bytes += size
        known.seq += len(lines)
        for line in lines:
            if isinstance(line.record, AttemptStarted):
                known.newest_attempt = max(known.newest_attempt, line.record.attempt)

    def _set_torn_tail_aside(self) -> None:
        if self._torn:
            name = f"{self._path.name}.torn-{self._known.seq + 1}-{secrets.token_hex(4)}"
            replace_durably(self._path.with_name(name), self._torn)  # kept for a person; never guessed at
            self._cut_off(len(self._torn))
            self._torn = b""

    def _write(self, data: bytes) -> None:
        written = 0
        try:
            written = os.write(self._descriptor, data)
            if written == len(data):
                os.fsync(self._descriptor)
                return
        except OSError:
            # Where it can't be taken back either, the next writer meets a torn tail, or a line told twice.
            with contextlib.suppress(OSError):
                self._cut_off(written)
            raise
        self._cut_off(written)
        raise OSError(f"only {written} of {len(data)} bytes could be written (disk full, quota or limit?)")

    def _cut_off(self, size: int) -> None:
        """The `size` bytes behind the last whole line, unless somebody without the lock has written there."""
        if os.fstat(self._descriptor).st_size == self._known.bytes + size:
            os.ftruncate(self._descriptor, self._known.bytes)
            os.fsync(self._descriptor)


def _read_from(descriptor: int, offset: int) -> bytes:
    pieces = []
    while piece := os.pread(descriptor, 1 << 24, offset):
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ManifestUnavailable(f"the manifest {path} is not available: {error.strerror or error}") from error
