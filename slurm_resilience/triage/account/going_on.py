"""Whether a program went on after an exception that it printed: what it wrote before, it writes again behind it.

One that is caught and printed looks like one that ended the program. So a log is looked at again where nothing else
tells of an end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.suspect import ASKED_AGAIN, AT_ANY_END
from slurm_resilience.triage.event import Event, Place
from slurm_resilience.triage.known.entry import Role
from slurm_resilience.triage.signature import normalised

_LOOKED_AT_BYTES = 8 << 20
_MOST_FILES = 64
_MOST_SHAPES = 10_000
_LONGEST = 300
_NEVER_PRINTED_FOR_FUN = frozenset({"slurm", "kernel"})


def gone_on_after(events: Iterable[Event]) -> frozenset[Place]:
    """The places of exceptions and errors behind which their program has gone on as before; none, unread, where other
    lines tell of an end."""
    listed = list(events)
    if any(_tells_of_an_end(event) for event in listed):
        return frozenset()
    by_file: dict[str, list[Event]] = {}
    for event in listed:
        if _may_be_lived_through(event):
            by_file.setdefault(event.place.file, []).append(event)
    files = itertools.islice(sorted(by_file.items()), _MOST_FILES)
    return frozenset(place for file, found in files for place in _in(Path(file), found))


def _tells_of_an_end(event: Event) -> bool:
    known = event.known
    return known is not None and known.role in (Role.CASCADE, Role.WAIT) and known.name not in AT_ANY_END | ASKED_AGAIN


def _may_be_lived_through(event: Event) -> bool:
    known = event.known
    if known is None or known.name in ASKED_AGAIN:
        return True
    return known.role is Role.ROOT and known.writer not in _NEVER_PRINTED_FOR_FUN and known.cause is not Cause.CANCELLED


def _in(path: Path, events: list[Event]) -> list[Place]:
    try:
        with path.open("rb") as file:
            lines = file.read(_LOOKED_AT_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []
    first, last = min(event.place.line for event in events), max(event.place.line for event in events)
    before = {shape for line in lines[: first - 1][-_MOST_SHAPES:] if (shape := _shape(line)) is not None}
    went_on = any(_shape(line) in before for line in lines[last : last + _MOST_SHAPES])
    return [event.place for event in events] if before and went_on else []


def _shape(line: str) -> str | None:
    """Of a line that counts something: `step <n> loss <n>`; None: it could be of anything."""
    shape = normalised(line[:_LONGEST])
    return shape if "<n>" in shape and any(letter.isalpha() for letter in shape.replace("<n>", "")) else None
