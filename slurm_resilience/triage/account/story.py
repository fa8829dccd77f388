"""Tells the account: events and facts in, what happened, where first, what followed, how sure, what to do out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Account, Follow, Other, Quote, Verdict, Who
from slurm_resilience.triage.account.collectives import Behind, Trouble
from slurm_resilience.triage.account.death import Manner, deaths
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.account.naming import unknown_names
from slurm_resilience.triage.account.our_word import our_verdict
from slurm_resilience.triage.account.ranking import Ranked, rank_suspects
from slurm_resilience.triage.account.remedy import advice_on, release_notes
from slurm_resilience.triage.account.roster import Roster, completed, speaker_of
from slurm_resilience.triage.account.selection import by_file_names, of_attempt, on_corrected_clocks
from slurm_resilience.triage.account.silence import of_dumps, silent_nodes, silent_supervisor, waited_for
from slurm_resilience.triage.account.suspect import ASKED_AGAIN, AT_ANY_END, WORDS, Suspect, Tier, of_events
from slurm_resilience.triage.account.told_ends import of_deaths
from slurm_resilience.triage.account.trust import how_sure, why_not
from slurm_resilience.triage.account.wording import sentence_of, title_of
from slurm_resilience.triage.event import Event, Place
from slurm_resilience.triage.known.entry import Role
from slurm_resilience.triage.reading.log_report import RankFailure

MOST_QUOTES = 5
IN_ORDER = frozenset(
    {
        Cause.FINISHED,
        Cause.PREEMPTED,
        Cause.TIME_LIMIT,
        Cause.WARNED,
        Cause.REQUEUED_BY_HAND,
        Cause.CANCELLED,
        Cause.CANCELLED_BY_ADMIN,
        Cause.OPERATOR_STOP,
        Cause.FENCED,
        Cause.DEPENDENCY_NEVER,
        Cause.NEVER_STARTED,
    }
)
"""Ends that no rank and no node has brought about."""
_VAGUE = frozenset({Cause.CRASHED, Cause.UNKNOWN})


def tell(
    events: Sequence[Event],
    failures: Sequence[RankFailure],
    facts: Facts,
    not_before_s: Mapping[Place, float] | None = None,
) -> Account:
    """`not_before_s`: for lines without a time, the last one that stood in their file before them."""
    mine, failed, notes = of_attempt(events, failures, facts)
    mine = [completed(event) for event in mine]
    mine += _causes_of_causes(mine)
    mine += _told_in_tables(mine, failed)
    if failed:
        facts = replace(facts, attempt_by_torchrun=True)
    facts = _with_our_word(facts, mine)
    roster = Roster.of(mine, facts, failed)
    mine, failed = by_file_names(mine, failed, roster.nodes)
    roster = Roster.of(mine, facts, failed)
    mine, failed = on_corrected_clocks(mine, failed, not_before_s or {}, roster, facts.offsets_s)
    ends = deaths(mine, failed, facts, roster)
    suspects = [*of_events(mine, roster), *of_deaths(ends)]
    silent = silent_nodes(facts, roster, mine, ends)
    suspects += silent
    suspects += unknown_names(mine, suspects, roster)
    suspects += silent_supervisor(mine, bool(ends)) if facts.verdict is None else []
    suspects = [waited_for(one, suspects, roster, facts, ends) for one in suspects]
    if facts.behind is not None and _adds_something(facts.behind, suspects):
        suspects.append(of_dumps(facts.behind, roster))
    told = frozenset(end.who.rank for end in ends if end.manner is Manner.TOLD and end.who.rank is not None)
    ranked = rank_suspects([_of_short_memory(one, facts) for one in suspects], roster, facts.verdict, told)
    return _account(ranked, facts, roster, tuple(one.who.node or "" for one in silent), notes)


def _with_our_word(facts: Facts, events: Sequence[Event]) -> Facts:
    """The supervisor's diagnosis as its output has it, where the files are all there is."""
    if facts.verdict is not None:
        return facts
    verdict = our_verdict(events)
    if verdict is None:
        return facts
    if verdict.implied and any(_names_the_end(event) for event in events):
        return facts
    went_on = facts.went_on if verdict.cause in IN_ORDER else frozenset()
    return replace(facts, verdict=verdict, went_on=went_on)


def _names_the_end(event: Event) -> bool:
    """Slurm says itself why it ended the job."""
    known = event.known
    return known is not None and known.writer == "slurm" and known.role is Role.ROOT and known.cause in WORDS


def _of_short_memory(one: Suspect, facts: Facts) -> Suspect:
    """A kill that nobody explains is the kernel's where Slurm has seen that memory ran out."""
    if one.tier is not Tier.KILLED or facts.verdict is None or facts.verdict.cause is not Cause.OUT_OF_MEMORY:
        return one
    return replace(one, tier=Tier.EXPLICIT, cause=Cause.OUT_OF_MEMORY)


def _adds_something(behind: Behind, suspects: Sequence[Suspect]) -> bool:
    return behind.trouble is Trouble.MISMATCH or not any(one.tier is Tier.WAITED for one in suspects)


def _causes_of_causes(events: Iterable[Event]) -> list[Event]:
    """What a chain of exceptions began with, where some entry knows it: the last of a chain alone has its own event."""
    from slurm_resilience.triage.known.table import known

    began = []
    for event in events:
        text = dict(event.groups).get("caused_by")
        entry = None if text is None else known(text)
        if text is not None and entry is not None and entry.role in (Role.ROOT, Role.WAIT) and entry != event.known:
            began.append(replace(event, text=text, known=entry, groups=()))
    return began


def _told_in_tables(events: Sequence[Event], failures: Iterable[RankFailure]) -> list[Event]:
    """The exceptions that torchrun's tables quote, where no event tells of them already."""
    from slurm_resilience.triage.known.table import known

    there = {(event.about.rank, event.text) for event in events} | {
        (event.speaker.rank, event.text) for event in events
    }
    told = []
    for failure in failures:
        message = failure.message
        if message and (failure.rank, message) not in there:
            about = speaker_of(failure)
            told.append(Event(failure.place, message, known(message), failure.speaker, about, failure.time_s))
    return told


def _account(ranked: Ranked, facts: Facts, roster: Roster, silent: tuple[str, ...], notes: Sequence[str]) -> Account:
    verdict, root = facts.verdict, ranked.root
    if root is not None and _proves_nothing(ranked, facts):
        root = None
    cause, root = _cause(verdict, root)
    agreed = root is not None and cause is root.cause
    blamed = root is not None and agreed and (cause not in IN_ORDER or root.tier is Tier.TOLD)
    who = root.who if root is not None and blamed else Who()
    sure, because = how_sure(cause, verdict, root, ranked, roster)
    quotes = _quotes(root) if root is not None and agreed else ()
    return Account(
        about=facts.about,
        cause=cause,
        title=title_of(cause, root if agreed else None),
        sentence=sentence_of(root if agreed else None, verdict, who),
        first=who,
        first_s=root.time_s if root is not None and agreed and root.time_s is not None else None,
        sure=sure,
        sure_because=because,
        quotes=quotes,
        follows=_follows(ranked.followed),
        others=_others(ranked, root if agreed else None, facts),
        silent_nodes=silent,
        advice=advice_on(cause, root if agreed else None, who, facts, silent),
        verdict=verdict,
        differs=_difference(cause, verdict, ranked.root),
        notes=(*notes, *facts.notes, *release_notes(root, facts.releases)),
        unread=facts.unread,
    )


def _cause(verdict: Verdict | None, root: Suspect | None) -> tuple[Cause | None, Suspect | None]:
    """The verdict's, where there is one: the supervisor has decided by it. Lines may name what it calls a crash."""
    if verdict is None:
        return (None, None) if root is None else (root.cause, root)
    vague = verdict.cause in _VAGUE or not verdict.explains
    if verdict.cause is Cause.CRASHED and root is not None and root.tier is Tier.SILENT:
        return Cause.CRASHED, replace(root, cause=Cause.CRASHED)  # the node lives, as far as Slurm knows
    if vague and root is not None and root.tier <= Tier.WAITED:
        return root.cause, root
    if verdict.cause is Cause.UNKNOWN and root is not None:
        return root.cause, root
    return verdict.cause, root


def _proves_nothing(ranked: Ranked, facts: Facts) -> bool:
    """Nobody died, and all that was read is what a healthy run leaves behind too, or has lived through."""
    return all(_of_a_healthy_run(one, facts) for one in (*ranked.suspects, *ranked.followed))


def _of_a_healthy_run(one: Suspect, facts: Facts) -> bool:
    if one.tier is Tier.SEEN and one.known is not None and one.known.name in AT_ANY_END:
        return True
    asked_again = one.known is not None and one.known.name in ASKED_AGAIN
    printed = (one.tier in (Tier.EXPLICIT, Tier.AFTER_A_PEER) or asked_again) and not one.is_end and bool(one.quotes)
    return printed and all(quote.place in facts.went_on for quote in one.quotes)


def _quotes(root: Suspect) -> tuple[Quote, ...]:
    """The first words of each who said it, then how it ended; each line once."""
    kept: dict[tuple[str, int], Quote] = {}
    texts: set[str] = set()
    for quote in root.quotes:
        key = (quote.place.file, quote.place.line)
        if key not in kept and (quote.text not in texts or len(kept) < 2):
            kept[key] = quote
            texts.add(quote.text)
    return tuple(kept.values())[:MOST_QUOTES]


def _follows(suspects: Iterable[Suspect]) -> tuple[Follow, ...]:
    told: dict[str, Follow] = {}
    for one in suspects:
        if not one.quotes:
            continue
        follow = Follow(one.title, one.count, tuple(sorted(one.nodes)), tuple(sorted(one.ranks)), one.quotes[0])
        before = told.get(one.title)
        if before is not None:
            follow = replace(
                before,
                count=before.count + one.count,
                nodes=tuple(sorted({*before.nodes, *one.nodes})),
                ranks=tuple(sorted({*before.ranks, *one.ranks})),
            )
        told[one.title] = follow
    return tuple(sorted(told.values(), key=lambda follow: (-follow.count, follow.title)))


def _others(ranked: Ranked, root: Suspect | None, facts: Facts) -> tuple[Other, ...]:
    rest = ranked.suspects if root is None else ranked.suspects[1:]  # the root may be a changed copy of the first
    return tuple(
        Other(one.title, one.cause, one.who, why_not(one, root, facts), one.quotes[0] if one.quotes else None)
        for one in rest
    )


def _difference(cause: Cause | None, verdict: Verdict | None, root: Suspect | None) -> str | None:
    if verdict is None or root is None or root.tier > Tier.KILLED or verdict.cause is root.cause:
        return None
    if cause is verdict.cause:
        return f"the lines alone would say {root.cause.value} ({root.title}); {verdict.by} was believed"
    return f"{verdict.by} says {verdict.cause.value}: {verdict.because}; the lines name what it does not"
