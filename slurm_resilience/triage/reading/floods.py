"""When somebody says the same thing a million times: most of it is only counted. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from slurm_resilience.triage.reading.meaning import Meaning
from slurm_resilience.triage.reading.tally import Kind

RUN = 100
"""So many lines in a row that one entry knows, of one speaker, make a flood."""
HEARD_AT_MOST = 5000
"""Of a file, whoever speaks."""
LISTEN_AGAIN = 64
"""Each so many-th line of a flood is heard, in case that somebody else speaks now."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The last one of lines that were not heard, for all of them."""

    line: int
    raw: bytes
    meaning: Meaning
    count: int


@dataclass(slots=True)
class _Stream:
    """What one entry knows."""

    kind: Kind | None = None
    run: int = 0
    more: int = 0
    line: int = 0
    raw: bytes = b""
    meaning: Meaning | None = None

    def take(self) -> Counted | None:
        if not self.more or self.meaning is None:
            return None
        counted = Counted(self.line, self.raw, self.meaning, self.more)
        self.more = 0
        return counted


@dataclass(slots=True)
class Floods:
    """Of one file."""

    _streams: dict[str, _Stream] = field(default_factory=dict)
    """By entry."""
    _heard: int = 0

    def rising(self) -> bool:
        """Whether it is worth finding out which entry knows a line."""
        return self._heard >= RUN

    def only_counted(self, name: str, meaning: Meaning, line: int, raw: bytes) -> bool:
        """Whether the line, which the entry of this name knows, need not be heard."""
        stream = self._streams.get(name)
        if stream is None or (stream.run < RUN and self._heard < HEARD_AT_MOST):
            return False
        if stream.more % LISTEN_AGAIN == LISTEN_AGAIN - 1:
            return False
        stream.more, stream.line, stream.raw, stream.meaning = stream.more + 1, line, raw, meaning
        return True

    def heard(self, kind: Kind) -> Counted | None:
        """An event of this kind was heard; what was only counted of its entry before."""
        self._heard += 1
        stream = self._streams.setdefault(str(kind[0]), _Stream())
        counted = stream.take()
        stream.run = stream.run + 1 if kind == stream.kind else 0
        stream.kind = kind
        return counted

    def rest(self) -> Iterator[Counted]:
        """At the end of the file."""
        for stream in self._streams.values():
            counted = stream.take()
            if counted is not None:
                yield counted
