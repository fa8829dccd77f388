"""Events, no more than so many for each thing that somebody says: a flood takes no memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from slurm_resilience.triage.event import Event
from slurm_resilience.triage.known.entry import Role

FIRST = 3
"""Events that are kept of one kind, beside the last."""
KINDS = 1000
"""Of one attempt in one file: of what may be a cause, and as many again of what is not."""
_NAMED = frozenset({"code", "device"})
"""What tells one thing from another, beside who says it about whom."""

Kind = tuple[object, ...]


@dataclass(slots=True)
class _Counted:
    first: list[tuple[Event, float | None]]
    last: tuple[Event, float | None] | None = None
    count: int = 0


@dataclass(slots=True)
class Tally:
    left_out: int = 0
    _last_kind: Kind | None = None
    _kinds: dict[Kind, _Counted] = field(default_factory=dict)
    _room: dict[tuple[int | None, bool], int] = field(default_factory=dict)

    def add(self, event: Event, not_before_s: float | None) -> None:
        kind = self._last_kind = kind_of(event)
        counted = self._kinds.get(kind)
        if counted is None:
            minor = event.known is not None and event.known.role in (Role.CASCADE, Role.ADVICE)
            where = (event.speaker.attempt, minor)
            used = self._room.get(where, 0)
            if used >= KINDS:
                self.left_out += event.count
                return
            self._room[where] = used + 1
            counted = self._kinds[kind] = _Counted([])
        last = counted.last or (counted.first[-1] if counted.first else None)
        if last is not None and last[0].place == event.place:  # one long line, seen in two pieces
            return
        counted.count += event.count
        if len(counted.first) < FIRST and event.count == 1:
            counted.first.append((event, not_before_s))
        else:
            counted.last = (event, not_before_s)

    def take_kind(self) -> Kind | None:
        """Of the event that was added last, where one was since this was asked."""
        kind, self._last_kind = self._last_kind, None
        return kind

    def events(self) -> Iterator[tuple[Event, float | None]]:
        """In the order of their lines."""
        kept: list[tuple[Event, float | None]] = []
        for counted in self._kinds.values():
            kept += counted.first
            if counted.last is not None:
                event, not_before_s = counted.last
                kept.append((replace(event, count=counted.count - len(counted.first)), not_before_s))
        return iter(sorted(kept, key=lambda one: one[0].place.line))


def kind_of(event: Event) -> Kind:
    """Two events of one kind differ by time and by numbers in their text only."""
    speaker, about = event.speaker, event.about
    what = event.known.name if event.known is not None else event.text.partition(":")[0]
    return (
        what,
        (speaker.node, speaker.rank, speaker.local_rank, speaker.task, speaker.job, speaker.attempt),
        (about.node, about.rank, about.local_rank, about.task),
        tuple(value for name, value in event.groups if name in _NAMED),
    )
