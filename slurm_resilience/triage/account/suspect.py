"""What may have been the cause: one suspect for each sort of thing that happened, whoever and how many say it. Pure."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Quote, Who
from slurm_resilience.triage.account.roster import Roster
from slurm_resilience.triage.event import Event
from slurm_resilience.triage.known.entry import KnownFailure, Remedy, Role
from slurm_resilience.triage.signature import normalised


class Tier(enum.IntEnum):
    """How much it explains, the most first."""

    WORD = 0  # Slurm says itself why it ended the job
    EXPLICIT = 1  # a local cause: an exception that isn't a peer's death, a fault, an out-of-memory record, an Xid
    CANCELLED = 2  # the job was ended from outside, and nobody says why
    KILLED = 3  # a process was killed, and nobody says by whom
    SILENT = 4  # a node that says nothing more
    AFTER_A_PEER = 5  # an exception of a rank that had lost a peer before
    WAITED = 6  # somebody waited in vain
    TOLD = 7  # a launcher or a program was told to end, and nobody says by whom
    LEFT = 8  # a process left with an error, and its words are not here
    STEP_ENDED = 9  # Slurm ended the step, for one of its tasks or from outside
    SEEN = 10  # somebody's death as others see it


WORDS = frozenset({Cause.TIME_LIMIT, Cause.PREEMPTED, Cause.NODE_FAILURE})
"""Causes that Slurm's own line names for good. Who requeues a job may do so because it has failed."""
_MEMORY_RECORDS = frozenset({"slurm", "kernel"})
EXCEPTION = "exception"
_OF_PYTHON = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Failure)\b(?::|\s*$)")
INTERRUPTED = "slurm.interrupted"
_TOLD = frozenset({"elastic.signalled", INTERRUPTED})
_PYTHON_TOLD = "python.told-to-end"
_SIGINT = "KeyboardInterrupt"
_WORKER_KILLED = "dataloader.killed"
_STEP_ENDED = frozenset({"slurm.cancelled", "slurm.cancelled-by-signal"})


@dataclass(frozen=True, slots=True)
class Suspect:
    tier: Tier
    cause: Cause
    title: str
    who: Who
    time_s: float | None
    quotes: tuple[Quote, ...]
    """The first one begins it."""
    count: int = 1
    ranks: frozenset[int] = frozenset()
    nodes: frozenset[str] = frozenset()
    known: KnownFailure | None = None
    remedy: Remedy | None = None
    groups: tuple[tuple[str, str], ...] = ()
    certain: bool = True
    """False: the lines alone don't say that it ended anything."""
    ended: bool = False
    """Something else tells that the process which said it has ended."""
    signal: str | None = None
    nameless: bool = False
    """No line of it says whose it is."""
    first: bool = True
    """False: another process of its node is said to have ended before it."""
    caught: bool = False
    """Its process has lived on behind it."""
    is_end: bool = False
    """How a process ended, as whoever saw it has it: it names nobody's reason."""
    why: str = ""
    """Half a sentence on how it was inferred, where no line says so."""

    @property
    def of_python(self) -> bool:
        """An exception's last line, as Python prints it: not what C++ says of one before it aborts."""
        return not self.is_end and _OF_PYTHON.match(self.text) is not None

    @property
    def text(self) -> str:
        return self.quotes[0].text if self.quotes else self.title


_RAISED_ANEW = re.compile(r"[\w.]+: Caught [\w.]+ in (?:DataLoader worker process|replica|pin memory thread)")
_QUOTED_WITHIN = 200


def is_cancellation(event: Event) -> bool:
    """Slurm's notice that a job (not only a step) was ended, without a reason: somebody's word from outside."""
    known = event.known
    return known is not None and known.writer == "slurm" and "*** JOB " in event.text and "CANCELLED AT" in event.text


def of_events(events: Sequence[Event], roster: Roster) -> list[Suspect]:
    """Roots, waits and what others saw, each sort of thing once. Advice is nobody's word."""
    heaps: dict[tuple[str, str], list[Event]] = {}
    explained = _lines_before_a_reason(events)
    for event in events:
        if event.known is None and (event.place.file, event.place.line) in explained:
            continue
        if event.known is None:
            heaps.setdefault((EXCEPTION, normalised(event.text, roster.nodes)), []).append(event)
        elif event.known.role is not Role.ADVICE:
            heaps.setdefault((event.known.name, "job" if is_cancellation(event) else ""), []).append(event)
    after_a_peer = _lost_a_peer(events, roster)
    return [_of_heap(heap, roster, after_a_peer) for heap in heaps.values()]


def _lines_before_a_reason(events: Iterable[Event]) -> set[tuple[str, int]]:
    """C++ says `terminate called after throwing an instance of …`, and what of, on the next line. A DataLoader raises
    anew what its worker had raised, and quotes that below."""
    before = {
        (event.place.file, event.place.line - before)
        for event in events
        if event.known is not None and event.text.lstrip().startswith("what():")
        for before in (1, 2)
    }
    listed = list(events)
    again = [event for event in listed if event.known is None and _RAISED_ANEW.match(event.text)]
    for event in again:
        kind = event.text.partition(":")[0]
        lines = range(event.place.line + 1, event.place.line + _QUOTED_WITHIN)
        if any(
            one.place.file == event.place.file and one.place.line in lines and one.text.startswith(kind)
            for one in listed
        ):
            before.add((event.place.file, event.place.line))
    return before


def _lost_a_peer(events: Iterable[Event], roster: Roster) -> dict[tuple[str, int], int]:
    """By file and rank: the first line there that tells of a peer's death or of a wait in vain."""
    first: dict[tuple[str, int], int] = {}
    for event in events:
        rank = roster.who(event.speaker).rank
        known = event.known
        if rank is None or known is None or known.writer in REPORTERS:
            continue
        if known.role in (Role.CASCADE, Role.WAIT):
            key = (event.place.file, rank)
            first[key] = min(first.get(key, event.place.line), event.place.line)
    return first


def _of_heap(heap: list[Event], roster: Roster, after_a_peer: dict[tuple[str, int], int]) -> Suspect:
    ordered = in_order(heap)
    first = ordered[0]
    quotes = tuple(Quote(event.place, event.text, roster.about(event), event.time_s) for event in ordered)
    whos = [quote.who for quote in quotes]
    named = next((who for who in whos if who.rank is not None), None)
    who = _who(whos, named, first)
    tier = _tier(first)
    from_outside = tier in (Tier.TOLD, Tier.CANCELLED, Tier.STEP_ENDED) and _role(first) is Role.CASCADE
    suspect = Suspect(
        tier=tier,
        cause=Cause.CRASHED if first.known is None else Cause.CANCELLED if from_outside else first.known.cause,
        title=first.known.title if first.known is not None else _raised(first.text),
        who=who,
        time_s=first.time_s,
        quotes=quotes,
        count=sum(event.count for event in heap),
        ranks=frozenset(one.rank for one in whos if one.rank is not None),
        nodes=frozenset(one.node for one in whos if one.node is not None),
        known=first.known,
        remedy=None if first.known is None else first.known.remedy,
        groups=first.groups,
        nameless=all(one.rank is None and one.task is None for one in whos),
        certain=first.known is None or first.known.writer in _MEMORY_RECORDS,
    )
    if first.known is None and _all_after_a_peer(ordered, roster, after_a_peer):
        return replace(suspect, tier=Tier.AFTER_A_PEER)
    return suspect


def in_order(events: Iterable[Event]) -> list[Event]:
    """By time; those without one by file and line, after those of their file that have one."""
    earliest: dict[str, float] = {}
    listed = sorted(events, key=_as_it_stands)
    for event in listed:
        if event.time_s is not None:
            earliest.setdefault(event.place.file, event.time_s)

    def key(event: Event) -> tuple[float, str, int]:
        time_s = event.time_s if event.time_s is not None else earliest.get(event.place.file, float("inf"))
        return time_s, event.place.file, event.place.line

    return sorted(listed, key=key)


def _role(event: Event) -> Role:
    return Role.ROOT if event.known is None else event.known.role


def _as_it_stands(event: Event) -> tuple[str, int, str, float]:
    return event.place.file, event.place.line, event.text, float("inf") if event.time_s is None else event.time_s


def _who(whos: Sequence[Who], named: Who | None, first: Event) -> Who:
    """Of the first, completed by whoever else says the same thing of the same rank."""
    who = whos[0]
    if first.known is not None and first.known.writer == "slurm" and "CANCELLED AT" in first.text:
        return Who()  # Slurm's notice names the node on which it was written
    if who.rank is None and named is not None and who.node in (None, named.node):
        return named
    if who.rank is not None and who.node is None:
        return next((one for one in whos if one.rank == who.rank and one.node is not None), who)
    return who


def _tier(event: Event) -> Tier:
    known = event.known
    if known is None:
        return Tier.SEEN if _caused_by_another(event) else Tier.EXPLICIT
    if is_cancellation(event) and known.role is not Role.ROOT:
        return Tier.CANCELLED
    match known.role:
        case Role.ROOT if known.writer == "slurm" and known.cause in WORDS:
            return Tier.WORD
        case Role.ROOT if known.cause in (Cause.CANCELLED, Cause.REQUEUED_BY_HAND):
            return Tier.CANCELLED
        case Role.ROOT:
            return Tier.EXPLICIT
        case Role.WAIT:
            return Tier.WAITED
        case Role.CASCADE if known.name in _TOLD or (known.name == _PYTHON_TOLD and _SIGINT in event.text):
            return Tier.TOLD
        case Role.CASCADE if known.name == _WORKER_KILLED:
            return Tier.KILLED
        case Role.CASCADE if known.name in _STEP_ENDED:
            return Tier.STEP_ENDED
        case Role.CASCADE | Role.ADVICE:
            return Tier.SEEN


def _caused_by_another(event: Event) -> bool:
    """An exception whose own chain begins with one that some entry knows: that one has a suspect of its own."""
    from slurm_resilience.triage.known.table import known

    began = dict(event.groups).get("caused_by")
    entry = None if began is None else known(began)
    return entry is not None and entry.role is not Role.ADVICE


def _all_after_a_peer(heap: Iterable[Event], roster: Roster, lost: dict[tuple[str, int], int]) -> bool:
    for event in heap:
        rank = roster.who(event.speaker).rank
        line = None if rank is None else lost.get((event.place.file, rank))
        if line is None or line >= event.place.line:
            return False
    return True


def _raised(text: str) -> str:
    name = text.partition(":")[0].strip()
    return f"the program raised {name.rpartition('.')[2]}" if name.isidentifier() or "." in name else "a process failed"


AT_ANY_END = frozenset({"c10d.store-gone", "c10d.connection-failed", "elastic.store-lost", "elastic.closed"})
"""What healthy runs have too, whose processes leave one after the other."""
ASKED_AGAIN = frozenset(
    {
        "huggingface.file-vanished",
        "huggingface.host-lost",
        "python.connection",
        "python.web-unreachable",
        "storage.object-busy",
        "storage.object-unreachable",
    }
)
"""Troubles with others that many a program prints, and asks again."""
REPORTERS = frozenset({"slurm", "elastic", "ours"})
"""Who tells of others' ends: their lines are no rank's own words."""
