"""One log file, from its bytes to its events."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience.triage.event import Event, Place, Speaker
from slurm_resilience.triage.reading.floods import Counted, Floods
from slurm_resilience.triage.reading.listener import Listener
from slurm_resilience.triage.reading.log_report import FileRead, RankFailure, Unreadable
from slurm_resilience.triage.reading.matcher import OVERLAP, WORDS, Matcher
from slurm_resilience.triage.reading.meaning import Meaning
from slurm_resilience.triage.reading.moments import Moments
from slurm_resilience.triage.reading.sieve import DIGITS, Sieve
from slurm_resilience.triage.reading.source import NotReadable, Source
from slurm_resilience.triage.reading.speakers import ANSI
from slurm_resilience.triage.reading.vocabulary import NO_SIGN

LONG_LINE = 1 << 18
"""Bytes of a line that are waited for before it is looked at in pieces."""
_ANSI = re.compile(ANSI.pattern.encode())
_TIMES_LOOKED_FOR = 50
_TAIL_BYTES = 16 << 10
_LOOK_BACK = 20


@dataclass(frozen=True, slots=True)
class OneFile:
    """What one file says."""

    events: tuple[Event, ...] = ()
    failures: tuple[RankFailure, ...] = ()
    not_before_s: tuple[tuple[Place, float], ...] = ()
    file: FileRead | None = None
    unreadable: Unreadable | None = None


@dataclass(slots=True)
class FileReader:
    matcher: Matcher
    sieve: Sieve
    """What it has learnt in one file holds for the next."""
    _floods: Floods = field(default_factory=Floods)
    _first_s: float | None = None
    _number: int = 1
    _looked: int = 0

    def read(
        self,
        path: Path,
        by_name: Speaker,
        *,
        since_bytes: int,
        lines_before: int | None,
        attempt: int | None,
        progress: Callable[[int], None],
    ) -> OneFile:
        """Never raises for what is in the file, or for a file that isn't one."""
        self._floods, self._first_s, self._number, self._looked = Floods(), None, 1, 0
        try:
            with Source(path, since_bytes, skipped_lines=lines_before) as source:
                return self._read(source, by_name, attempt, progress)
        except NotReadable as error:
            return OneFile(unreadable=Unreadable(str(path), str(error)))

    def _read(self, source: Source, by_name: Speaker, attempt: int | None, progress: Callable[[int], None]) -> OneFile:
        path = str(source.path)
        listener = Listener(path, by_name, self.matcher, Moments(source.changed_s))
        carry = tail = b""
        read_bytes, at_line_end = 0, True
        for data in source.chunks():
            if read_bytes == 0:
                self._number += source.skipped_lines or 0
            read_bytes += len(data)
            block = carry + data if carry else data
            cut = block.rfind(b"\n") + 1
            if cut == 0 and len(block) > LONG_LINE:
                cut = block.rfind(b"\r") + 1  # hours of a progress bar
            if cut:
                self._hear_block(listener, block[: cut - 1])
                self._number += block[cut - 1 : cut] == b"\n"
                tail = (tail + block[max(0, cut - _TAIL_BYTES) : cut])[-_TAIL_BYTES:]
            carry = block[cut:]
            if len(carry) > LONG_LINE:
                self._hear_block(listener, carry)
                tail = (tail + carry)[-_TAIL_BYTES:]
                carry = carry[-OVERLAP:]
            at_line_end = data.endswith(b"\n")
            progress(len(data))
        if carry:
            self._hear_block(listener, carry)
        listener.end()
        for counted in self._floods.rest():
            self._hear_counted(listener, counted)
        events = [one for one in listener.tally.events() if _is_of(one[0], attempt, listener)]
        last_s, last_words = _end_of(tail + carry, listener.moments)
        file = FileRead(
            path, read_bytes, self._number - at_line_end, self._first_s, last_s, last_words,
            at_line_end and source.note is None, source.note, by_name, tuple(listener.parts), listener.tally.left_out,
            self._number - 1,
        )  # fmt: skip
        return OneFile(
            tuple(event for event, _ in events),
            tuple(failure for failure in listener.failures if attempt in (None, failure.speaker.attempt)),
            tuple((event.place, since_s) for event, since_s in events if since_s is not None),
            file,
        )

    def _hear_block(self, listener: Listener, raw: bytes) -> None:
        """Whole lines, the last one without its end. `_number` is that of the first, and then that of the last."""
        if b"\x1b" in raw:
            raw = _ANSI.sub(b"", raw)
        if b"\0" in raw:  # holes that a network file system left
            raw = raw.replace(b"\0", b"")
        if b"\r" in raw:
            raw = raw.replace(b"\r\n", b"\n")
        shapes = raw.translate(DIGITS).split(b"\n")
        if self._first_s is None and self._looked < 4 * _TIMES_LOOKED_FOR:
            self._look_for_time(listener, raw)
        tells = self.sieve.look(shapes)
        if tells or listener.open:
            self._hear_lines(listener, raw, shapes)
            listener.end_forsaken(self._number)
        self._number += raw.count(b"\n")

    def _hear_lines(self, listener: Listener, raw: bytes, shapes: list[bytes]) -> None:
        has_bars = b"\r" in raw
        raws = (raw.replace(b"\r", b"\n") if has_bars else raw).split(b"\n")
        numbers = _numbers(raw) if has_bars else range(len(raws))
        telling, open_ = self.sieve.telling, listener.open
        timed = 0
        for at, shape in enumerate(shapes):
            meaning = telling.get(shape)
            if meaning is None:
                if not open_:
                    continue
                if listener.in_frames and raws[at].startswith(b"  "):
                    continue
            number = self._number + numbers[at]
            if not open_ and meaning is not None:
                if meaning.needs is not None and meaning.needs.search(raws[at]) is None:
                    continue
                if self._floods.rising() and not meaning.signs and self._is_flood(meaning, number, raws[at]):
                    continue
                if timed < at:
                    self._note_time(listener, raws[max(timed, at - _LOOK_BACK) : at])
                    timed = at + 1
            self._hear(listener, number, raws[at], meaning)
            kind = listener.tally.take_kind()
            counted = None if kind is None else self._floods.heard(kind)
            if counted is not None:
                self._hear_counted(listener, counted)

    def _is_flood(self, meaning: Meaning, number: int, raw: bytes) -> bool:
        entry = self.matcher.entry_of(meaning.places, meaning.by_shape, raw)
        return entry is not None and self._floods.only_counted(entry.name, meaning, number, raw)

    def _hear_counted(self, listener: Listener, counted: Counted) -> None:
        text = counted.raw.decode(errors="replace")
        listener.count(counted.line, text, counted.meaning.places, counted.count)
        listener.tally.take_kind()

    def _note_time(self, listener: Listener, lines: list[bytes]) -> None:
        """Of the lines before a telling one: it came no sooner, where it has no time itself."""
        for line in reversed(lines):
            time_s = listener.moments.of(line[:256].decode(errors="replace"))
            if time_s is not None:
                listener.latest_s = time_s
                return

    def _hear(self, listener: Listener, number: int, raw: bytes, meaning: Meaning | None) -> None:
        text = raw.decode(errors="replace")
        if meaning is None:
            listener.hear(number, text, (), NO_SIGN)
        else:
            listener.hear(number, text, meaning.places, meaning.signs)

    def _look_for_time(self, listener: Listener, raw: bytes) -> None:
        for line in raw[: 64 << 10].split(b"\n", _TIMES_LOOKED_FOR)[:_TIMES_LOOKED_FOR]:
            self._looked += 1
            self._first_s = listener.moments.of(line[:512].decode(errors="replace"))
            if self._first_s is not None:
                return


def _numbers(raw: bytes) -> list[int]:
    """By piece: how many newlines stand before it, where carriage returns make pieces too."""
    return [at for at, line in enumerate(raw.split(b"\n")) for _ in range(line.count(b"\r") + 1)]


def _is_of(event: Event, attempt: int | None, listener: Listener) -> bool:
    if attempt is None or all(part.attempt is None for part in listener.parts):
        return True
    if event.speaker.attempt is not None:
        return event.speaker.attempt == attempt
    first = next(part.attempt for part in listener.parts if part.attempt is not None)
    return first == attempt  # what its batch script said before


def _end_of(tail: bytes, moments: Moments) -> tuple[float | None, str]:
    """The last time that stands there, and the last line that isn't empty."""
    last_s, words = None, ""
    lines = re.split(rb"[\r\n]", _ANSI.sub(b"", tail.replace(b"\0", b"")))
    for line in reversed(lines):
        text = line.decode(errors="replace").strip()
        if text and not words:
            words = text if len(text) <= WORDS else text[: WORDS - 1] + "…"
        last_s = moments.of(text[:512])
        if last_s is not None:
            break
    return last_s, words
