"""Which suspect began it. Pure.

What names a local cause outranks a node that is silent, that one a wait in vain, and that what others saw of a peer's
death. Slurm's own word outranks them all. Among equals the earliest counts, on clocks that were corrected; what lies
closer together than clocks agree came in no order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.abort import as_aborted, lived_on, of_another, one_place, same_fault
from slurm_resilience.triage.account.account import Verdict, Who
from slurm_resilience.triage.account.roster import Roster
from slurm_resilience.triage.account.suspect import REPORTERS, Suspect, Tier
from slurm_resilience.triage.evidence import CLOCKS_AGREE_S

TOGETHER_S = 30.0
"""Ranks that all raise the same within this time do so for one reason: the slowest starts so much later."""
LIVED_THROUGH_S = 45 * 60.0
"""What was only printed so long before something ended a process was lived through: gloo's and NCCL's own time-outs are
shorter."""
_ENDING = frozenset({Tier.EXPLICIT, Tier.KILLED})
_VAGUE = frozenset({Cause.CRASHED, Cause.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Ranked:
    suspects: tuple[Suspect, ...]
    """The root first; without what only followed from it."""
    followed: tuple[Suspect, ...]
    """Waits, and what others saw."""

    @property
    def root(self) -> Suspect | None:
        return self.suspects[0] if self.suspects else None


def rank_suspects(
    suspects: Sequence[Suspect],
    roster: Roster,
    verdict: Verdict | None = None,
    told: frozenset[int] = frozenset(),
) -> Ranked:
    """`told`: ranks that somebody ended after another's end: they had no time to say what the others say."""
    merged = _alike(lived_on(_merged(_one_word(suspects)), told))
    merged = [_shared_by_all(suspect, roster, told) for suspect in merged]
    end_s = _end_of_it(merged)
    ordered = sorted(merged, key=lambda one: _key(one, end_s, verdict))
    ordered = _by_time(ordered, end_s, verdict)
    if not ordered:
        return Ranked((), ())
    root = ordered[0]
    after = tuple(one for one in ordered[1:] if _follows(one, root))
    return Ranked((root, *(one for one in ordered[1:] if one not in after)), after)


def _follows(one: Suspect, root: Suspect) -> bool:
    return one.tier >= Tier.AFTER_A_PEER or (one.tier is Tier.KILLED and _later(one, root))


def _later(one: Suspect, root: Suspect) -> bool:
    return one.time_s is not None and root.time_s is not None and one.time_s > root.time_s + CLOCKS_AGREE_S


def _merged(suspects: Sequence[Suspect]) -> list[Suspect]:
    """An end that some line explains is that line's, and tells whose it is."""
    ends = [one for one in suspects if one.is_end]
    others = sorted((one for one in suspects if not one.is_end), key=lambda one: (one.tier, _time(one), _name(one)))
    explained = {at for at, end in enumerate(ends) if any(_explains(one, end) for one in others)}
    merged = [_with_ends(one, [end for end in ends if _explains(one, end)]) for one in others]
    left = [as_aborted(end, merged) for at, end in enumerate(ends) if at not in explained]
    for at, one in enumerate(merged):
        if one.tier is Tier.EXPLICIT and not one.ranks and one.who.task is None:
            theirs = [end for end in left if end.tier is Tier.LEFT and one_place(one, end) and not of_another(one, end)]
            merged[at] = _with_ends(one, theirs)
            left = [end for end in left if end not in theirs]
    return merged + left


def _explains(suspect: Suspect, end: Suspect) -> bool:
    """Whether this end is what the line tells of."""
    if suspect.tier in (Tier.WORD, Tier.CANCELLED, Tier.SILENT) or _long_before(suspect, end):
        return False
    if suspect.tier is Tier.SEEN and suspect.known is not None and suspect.known.writer in REPORTERS:
        return False  # it is the same news again
    if suspect.cause is Cause.OUT_OF_MEMORY and suspect.tier is Tier.EXPLICIT:
        killed = end.signal == "SIGKILL" and one_place(suspect, end) and not (suspect.ranks and end.ranks)
        return killed or bool(suspect.ranks & end.ranks)
    if same_fault(suspect, end):
        return True
    if end.ranks:
        if not suspect.ranks & end.ranks:
            return False
        # A rank that had lost a peer leaves with an error, or aborts; nobody kills it for that.
        return end.tier is Tier.LEFT or suspect.tier is Tier.EXPLICIT
    if of_another(suspect, end):
        return False
    same_task = suspect.who.task is not None and suspect.who.task == end.who.task
    return end.tier is Tier.LEFT and (same_task or bool(suspect.nodes & end.nodes))


def _long_before(suspect: Suspect, end: Suspect) -> bool:
    return suspect.time_s is not None and end.time_s is not None and suspect.time_s < end.time_s - LIVED_THROUGH_S


def _with_ends(suspect: Suspect, ends: Sequence[Suspect]) -> Suspect:
    if not ends:
        return suspect
    first = min(ends, key=lambda end: (_time(end), str(end.who)))
    who = suspect.who
    if suspect.tier in (Tier.WAITED, Tier.SEEN):
        pass  # who waited, or saw it, isn't who began it
    elif who.rank is None and (who.node is None or who.node == first.who.node):
        who = first.who
    elif who.node is None and who.rank == first.who.rank:
        who = replace(who, node=first.who.node)
    return replace(
        suspect,
        who=who,
        certain=True,
        ended=True,
        time_s=first.time_s if suspect.time_s is None else suspect.time_s,
        quotes=(*suspect.quotes, *(quote for end in ends for quote in end.quotes[:1])),
        ranks=suspect.ranks.union(*(end.ranks for end in ends)),
        nodes=suspect.nodes.union(*(end.nodes for end in ends)),
    )


def _one_word(suspects: Sequence[Suspect]) -> list[Suspect]:
    """What Slurm and the kernel say in several lines of one cause is one word; one of them may name rank and node."""
    heaps: dict[object, list[Suspect]] = {}
    for one in suspects:
        heaps.setdefault(_news(one), []).append(one)
    silent = next((one.who for one in suspects if one.tier is Tier.SILENT), Who())
    return [_one_of(heap, silent) for heap in heaps.values()]


def _news(one: Suspect) -> object:
    if one.tier is Tier.WORD:
        return one.cause
    of_memory = one.tier is Tier.EXPLICIT and one.cause is Cause.OUT_OF_MEMORY
    if of_memory and one.known is not None and one.known.writer in ("slurm", "kernel"):
        return one.cause, one.known.writer
    return id(one)


def _one_of(heap: Sequence[Suspect], silent: Who) -> Suspect:
    """In the words of the one that knows most."""
    ordered = sorted(heap, key=lambda one: (one.who.rank is None, not str(one.who), _time(one), _name(one)))
    first = ordered[0]
    who = first.who
    if first.tier is Tier.WORD and first.cause is Cause.NODE_FAILURE and not str(who):
        who = silent
    return replace(
        first,
        who=who,
        time_s=min((one.time_s for one in heap if one.time_s is not None), default=None),
        quotes=tuple(quote for one in ordered for quote in one.quotes),
        ranks=frozenset().union(*(one.ranks for one in heap)),
        nodes=frozenset().union(*(one.nodes for one in heap)),
    )


def _alike(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Processes that all left with the same code, and no word of any: one thing, not many."""
    heaps: dict[str, list[Suspect]] = {}
    for one in suspects:
        heaps.setdefault(one.why if one.is_end and one.tier is Tier.LEFT else f"{id(one)}", []).append(one)
    return [_as_one(heap) for heap in heaps.values()]


def _as_one(heap: Sequence[Suspect]) -> Suspect:
    first = min(heap, key=lambda one: (_time(one), _name(one)))
    if len(heap) == 1:
        return first
    return replace(
        first,
        title=f"{len(heap)} processes {first.why}",
        quotes=tuple(quote for one in heap for quote in one.quotes[:1]),
        ranks=frozenset().union(*(one.ranks for one in heap)),
        nodes=frozenset().union(*(one.nodes for one in heap)),
    )


def _shared_by_all(suspect: Suspect, roster: Roster, told: frozenset[int]) -> Suspect:
    """Said by every rank within a moment: the program or its arguments, and no single rank."""
    if suspect.tier not in (Tier.EXPLICIT, Tier.LEFT) or len(roster.ranks) < 2:
        return suspect
    if suspect.nameless and suspect.count >= len(roster.ranks):
        # Said as often as there are ranks, by nobody who says which: on all nodes, as far as they are known.
        return replace(suspect, who=Who(all_ranks=True)) if suspect.nodes >= set(roster.nodes) else suspect
    if not suspect.ranks | told >= roster.ranks or len(suspect.ranks) * 2 <= len(roster.ranks):
        return suspect
    first_of: dict[int, float] = {}
    for quote in suspect.quotes:
        if quote.who.rank is not None and quote.time_s is not None:
            first_of.setdefault(quote.who.rank, quote.time_s)
    if first_of and max(first_of.values()) - min(first_of.values()) > TOGETHER_S:
        return suspect
    return replace(suspect, who=Who(all_ranks=True))


def _end_of_it(suspects: Sequence[Suspect]) -> float | None:
    """When something first ended a process for sure."""
    sure = [one.time_s for one in suspects if one.time_s is not None and one.certain and one.tier in _ENDING]
    return min(sure, default=None)


def _tier(one: Suspect, end_s: float | None) -> int:
    lived_through = (
        one.tier is Tier.EXPLICIT
        and not one.certain
        and end_s is not None
        and one.time_s is not None
        and one.time_s < end_s - LIVED_THROUGH_S
    )
    if one.caught:
        return Tier.WAITED
    if one.tier is Tier.TOLD:
        return Tier.LEFT  # which of the two came first, decides
    return Tier.WAITED if lived_through else one.tier


def _key(one: Suspect, end_s: float | None, verdict: Verdict | None) -> tuple[int, int, float, int, str]:
    return _agrees(one, verdict), _tier(one, end_s), _time(one), _specific(one), _name(one)


def _agrees(one: Suspect, verdict: Verdict | None) -> int:
    """What the journal or Slurm's record names for good is looked for first; else the lines alone decide."""
    if verdict is None or not verdict.explains or verdict.cause in _VAGUE:
        return 0
    return 0 if one.cause is verdict.cause else 1


def _by_time(ordered: list[Suspect], end_s: float | None, verdict: Verdict | None) -> list[Suspect]:
    """Those of the best tier that came within what clocks agree on, by what they say instead of by when."""
    if len(ordered) < 2:
        return ordered
    best = ordered[0]
    level = (_agrees(best, verdict), _tier(best, end_s))
    begin_s = _time(best)
    equals = [
        one
        for one in ordered
        if (_agrees(one, verdict), _tier(one, end_s)) == level
        and (one.time_s is None or best.time_s is None or _time(one) <= begin_s + CLOCKS_AGREE_S)
    ]
    equals.sort(key=lambda one: (_specific(one), _time(one), *_place(one), _name(one)))
    return equals + [one for one in ordered if one not in equals]


def _specific(one: Suspect) -> int:
    """Of what came at once: what a program can only earn by itself before what its leaving may bring."""
    if not one.first:
        return 2
    return 0 if one.known is not None or one.signal in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE") else 1


def _place(one: Suspect) -> tuple[str, int]:
    """Lines of one file came in their order."""
    return (one.quotes[0].place.file, one.quotes[0].place.line) if one.quotes else ("", 0)


def _time(one: Suspect) -> float:
    return one.time_s if one.time_s is not None else float("inf")


def _name(one: Suspect) -> str:
    return f"{one.title} {one.who}"
