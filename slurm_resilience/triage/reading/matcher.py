"""Which entry of the table knows a line, and what the line says by it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from slurm_resilience.triage.event import Speaker
from slurm_resilience.triage.known.entry import KnownFailure
from slurm_resilience.triage.reading.speakers import NOBODY, speaker_of

WINDOW = 1 << 16
"""Characters of a line that are looked at together; longer ones in pieces that overlap."""
OVERLAP = 1 << 10
WORDS = 300
"""Of a line, and of what it names: so many characters are kept."""
_WHO = frozenset({"node", "rank", "local_rank", "pid", "task", "job"})


@dataclass(frozen=True, slots=True)
class Matched:
    entry: KnownFailure
    about: Speaker
    groups: tuple[tuple[str, str], ...]
    begin: int
    """Where in the line what is known begins."""


@dataclass(frozen=True, slots=True)
class Matcher:
    table: Sequence[KnownFailure]
    _regexes: dict[int, re.Pattern[str]] = field(default_factory=dict)
    """Made when they are wanted: of hundreds a log needs a few."""

    def find(self, places: Sequence[int], whole: str, said: str) -> Matched | None:
        """The first of the entries at `places` that knows the line, `whole` or without what was put before it."""
        for place in places:
            matched = self._search(place, whole)
            if matched is None and said is not whole:
                matched = self._search(place, said)
            if matched is not None:
                return matched
        return None

    def entry_of(self, places: Sequence[int], by_shape: bool, raw: bytes) -> KnownFailure | None:
        """The entry that knows a line, by its whole text; `by_shape`: it is known that the first one does."""
        if by_shape:
            return self.table[places[0]]
        if len(raw) > WINDOW:
            return None
        text = raw.decode(errors="replace")
        return next((self.table[place] for place in places if self._regex(place).search(text) is not None), None)

    def _regex(self, place: int) -> re.Pattern[str]:
        regex = self._regexes.get(place)
        if regex is None:
            regex = self._regexes[place] = re.compile(self.table[place].regex)
        return regex

    def _search(self, place: int, text: str) -> Matched | None:
        entry, regex = self.table[place], self._regex(place)
        if len(text) <= WINDOW:
            found = regex.search(text)
            return None if found is None else _matched(entry, found, 0)
        for begin in range(0, len(text), WINDOW - OVERLAP):
            window = text[begin : begin + WINDOW]
            if any(hint in window for hint in entry.hints):
                found = regex.search(window)
                if found is not None:
                    return _matched(entry, found, begin)
        return None


def _matched(entry: KnownFailure, found: re.Match[str], offset: int) -> Matched:
    named = {name: value[:WORDS] for name, value in found.groupdict().items() if value}
    if not named:
        return Matched(entry, NOBODY, (), offset + found.start())
    who = {name: value for name, value in named.items() if name in _WHO}
    rest = tuple((name, value) for name, value in named.items() if name not in who)
    return Matched(entry, speaker_of(who) if who else NOBODY, rest, offset + found.start())


def excerpt(text: str, begin: int) -> str:
    """The line, or of a long one what lies around the place where it tells something."""
    text = text.strip()
    if len(text) <= WORDS:
        return text
    first = max(0, min(begin - WORDS // 3, len(text) - WORDS))
    return ("…" if first else "") + text[first : first + WORDS]
