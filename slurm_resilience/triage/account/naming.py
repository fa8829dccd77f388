"""A first node whose name nobody can resolve, told from a name that only has no IPv6 address. Pure.

torch writes the same line for both: it asks for IPv6 addresses first, and what it says of the others is a line that a
process which tries again for minutes may never come to. A name without IPv6 is asked once for each connection, and the
process goes on. So the line counts where it is said again and again by one process that says nothing else of the
meeting, while others have waited there in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Quote, Who
from slurm_resilience.triage.account.roster import Roster
from slurm_resilience.triage.account.suspect import Suspect, Tier
from slurm_resilience.triage.event import Event

AGAIN_AND_AGAIN = 3
_NO_IPV6 = "c10d.no-ipv6"
_UNKNOWN = "gai error: -2"
"""EAI_NONAME: no such name, or none with such an address. The others (-5, -9) say that the name itself is known."""
_MEETING = frozenset({"c10d.key-timeout", "c10d.not-reached", "c10d.socket-timeout", "elastic.not-all-came"})


def unknown_names(events: Sequence[Event], suspects: Sequence[Suspect], roster: Roster) -> list[Suspect]:
    """One for each file that tells of nothing further."""
    waited = {
        quote.place.file
        for one in suspects
        if one.tier is Tier.WAITED and one.known is not None and one.known.name in _MEETING
        for quote in one.quotes
    }
    if not waited:
        return []
    by_file: dict[str, list[Event]] = {}
    for event in events:
        if event.known is not None and event.known.name == _NO_IPV6 and _UNKNOWN in event.text:
            by_file.setdefault(event.place.file, []).append(event)
    if waited & set(by_file):
        return []  # who came to the meeting has it, too: it is a name without IPv6 addresses
    tried = {file: said for file, said in by_file.items() if sum(event.count for event in said) >= AGAIN_AND_AGAIN}
    return [_suspect(said, roster) for _, said in sorted(tried.items())]


def _suspect(said: Sequence[Event], roster: Roster) -> Suspect:
    from slurm_resilience.triage.known.table import named

    known = named("c10d.name-unknown")
    whos = [roster.who(event.speaker) for event in said]
    who = Who(None, whos[0].node)
    times = [event.time_s for event in said if event.time_s is not None]
    suspect = Suspect(
        tier=Tier.EXPLICIT,
        cause=Cause.CRASHED,
        title=known.title,
        who=who,
        time_s=min(times, default=None),
        quotes=tuple(Quote(event.place, event.text, one, event.time_s) for event, one in zip(said, whos, strict=True)),
        count=sum(event.count for event in said),
        nodes=frozenset() if who.node is None else frozenset({who.node}),
        known=known,
        remedy=known.remedy,
        groups=said[0].groups,
        certain=False,
    )
    return replace(suspect, why="it was tried again and again, while others waited")
