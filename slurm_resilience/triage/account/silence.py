"""Who says nothing while others wait for it: nodes and ranks that have fallen silent. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.manifest.records import Cause
from slurm_resilience.signals.stop_request import StopReason
from slurm_resilience.triage.account.account import Quote, Who
from slurm_resilience.triage.account.collectives import Behind, Trouble, ranks_text
from slurm_resilience.triage.account.death import Death
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.account.our_word import says_of_the_end, told_to_end
from slurm_resilience.triage.account.roster import Roster
from slurm_resilience.triage.account.suspect import REPORTERS, Suspect, Tier
from slurm_resilience.triage.event import Event, Place
from slurm_resilience.triage.evidence import CLOCKS_AGREE_S
from slurm_resilience.triage.known.entry import Role

QUIET_S = 60.0
"""A node's log that ends so much before the others' ends with its node; less is a rank that had nothing to say."""


def silent_nodes(facts: Facts, roster: Roster, events: Sequence[Event], ends: Sequence[Death]) -> list[Suspect]:
    """Nodes that were part of it and didn't live to tell how it ended. Nobody, where all of them are."""
    ended = {end.who.node for end in ends} | {
        agent.host for agent in facts.agents if agent.outcome is not Outcome.RUNNING
    }
    why: dict[str, tuple[str, float | None]] = {}
    for agent in facts.agents:
        if agent.outcome is Outcome.RUNNING and not agent.signals:
            why[agent.host] = ("its node agent did not live to say how it ended", None)
    for node in facts.unheard:
        why.setdefault(node, ("its node agent left no record", None))
    if not facts.agents:
        why.update(_by_logs(facts, events))
    ghosts = {agent.host for agent in facts.agents if agent.stop_reason == StopReason.FENCED.name}
    for node in ghosts:  # cut off and alive: what it wrote down, it wrote when nobody waited for it any more
        why[node] = ("it went on alone, until it saw that a newer attempt had begun", None)
    silent = {node: words for node, words in why.items() if node in ghosts or node not in ended}
    heard = (set(roster.nodes) | {agent.host for agent in facts.agents}) - set(silent)
    if not heard or len(silent) > len(heard):
        return []
    return [
        Suspect(
            tier=Tier.SILENT,
            cause=Cause.NODE_FAILURE,
            title=f"node {node} fell silent",
            who=Who(None, node),
            time_s=time_s,
            quotes=(),
            nodes=frozenset({node}),
            certain=False,
            why=words,
        )
        for node, (words, time_s) in sorted(silent.items())
    ]


def _by_logs(facts: Facts, events: Sequence[Event]) -> dict[str, tuple[str, float | None]]:
    last: dict[str, float] = {}
    for log in facts.logs:
        if log.node is not None and log.last_s is not None:
            last_s = log.last_s - facts.offsets_s.get(log.node, 0.0)
            last[log.node] = max(last.get(log.node, last_s), last_s)
    if len(last) < 2:
        return {}
    troubled = {event.speaker.node for event in events if event.known is None or event.known.role is Role.ROOT}
    newest = max(last.values())
    return {
        node: (f"its log ends {newest - last_s:.0f} s before the others'", last_s)
        for node, last_s in last.items()
        if last_s < newest - QUIET_S and node not in troubled
    }


def waited_for(
    one: Suspect, suspects: Sequence[Suspect], roster: Roster, facts: Facts, ends: Sequence[Death]
) -> Suspect:
    """A wait in vain, with whom the others waited for: by the dumps, by who is behind, or by who doesn't complain."""
    if one.tier is not Tier.WAITED:
        return one
    if facts.behind is not None:
        told = of_dumps(facts.behind, roster)
        if facts.behind.trouble is Trouble.MISMATCH:
            return one  # they have their own suspect
        return replace(one, who=told.who, quotes=(*told.quotes, *one.quotes), why=told.why)
    late = _behind_by_steps(facts)
    if late:
        said = f"{ranks_text(late)} had made fewer steps than the others"
        return replace(one, who=_who(late, roster), why=said)
    return _who_had_to_be_killed(one, ends, roster) or _who_does_not_complain(one, suspects, roster, ends)


def _who_had_to_be_killed(one: Suspect, ends: Sequence[Death], roster: Roster) -> Suspect | None:
    """Who doesn't end when it is told to, and has to be killed, was stopped or stuck; who only waits, ends."""
    ranks = tuple(sorted({end.who.rank for end in ends if end.forced and end.who.rank is not None}))
    if len(ranks) != 1:
        return None
    said = f"rank {ranks[0]} did not end when it was told to, and had to be killed"
    node = next((end.who.node for end in ends if end.forced and end.who.rank is not None and end.who.node), None)
    return replace(one, who=replace(_who(ranks, roster), node=node or roster.node_of_rank.get(ranks[0])), why=said)


def _who_does_not_complain(one: Suspect, suspects: Sequence[Suspect], roster: Roster, ends: Sequence[Death]) -> Suspect:
    """Who waits says so, in time or when the others give up; who they wait for says nothing, or says it late."""
    ranks = frozenset(range(max(roster.ranks, default=-1) + 1))  # one that nobody names is there, below one that is
    first_s: dict[int, float] = {}
    waited: set[int] = set()
    complained: set[int] = set()
    for each in suspects:
        if each.is_end and each.tier is Tier.LEFT:
            complained |= each.ranks  # it left by itself: whoever hangs has to be told
        if each.tier < Tier.AFTER_A_PEER or each.is_end or (each.known and each.known.writer in REPORTERS):
            continue
        complained |= each.ranks
        waited |= each.ranks if each.tier is Tier.WAITED else set()
        for quote in each.quotes:
            if quote.who.rank is not None and quote.time_s is not None:
                first_s[quote.who.rank] = min(first_s.get(quote.who.rank, quote.time_s), quote.time_s)
    most = len(ranks) // 2
    quiet = tuple(sorted(ranks - complained))
    if quiet and len(quiet) <= most:
        who = _on_the_node_that_was_killed(_who(quiet, roster), ends, roster)
        return replace(one, who=who, why=f"only {ranks_text(quiet)} did not complain")
    others = tuple(sorted(ranks - waited))
    if waited and others and len(others) <= most:
        return replace(one, who=_who(others, roster), why=f"only {ranks_text(others)} did not wait in vain")
    late = sorted(first_s, key=lambda rank: first_s[rank])[-2:]
    if len(late) == 2 and first_s[late[1]] > first_s[late[0]] + CLOCKS_AGREE_S and late[1] not in waited:
        return replace(one, who=_who(late[1:], roster), why=f"rank {late[1]} was the last to notice")
    return replace(one, who=Who())


def _on_the_node_that_was_killed(who: Who, ends: Sequence[Death], roster: Roster) -> Who:
    """A rank that left no line has no node; what its agent killed is where none of the others' ranks are."""
    nodes = {end.who.node for end in ends if end.forced} - {None} - set(roster.node_of_rank.values())
    return replace(who, node=next(iter(nodes))) if who.node is None and len(nodes) == 1 else who


def of_dumps(behind: Behind, roster: Roster) -> Suspect:
    """What the ranks had recorded of their collectives, as a suspect of its own."""
    who = _who(behind.ranks, roster)
    mismatch = behind.trouble is Trouble.MISMATCH
    return Suspect(
        tier=Tier.EXPLICIT if mismatch else Tier.WAITED,
        cause=Cause.CRASHED if mismatch else Cause.HUNG,
        title="ranks called different collectives" if mismatch else "ranks waited in vain in a collective",
        who=who,
        time_s=None,
        quotes=(Quote(Place(behind.file, 1), behind.sentence, who),),
        ranks=frozenset(behind.ranks) if mismatch else frozenset(),
        why=behind.sentence,
    )


def _who(ranks: Sequence[int], roster: Roster) -> Who:
    nodes = {roster.node_of_rank.get(rank) for rank in ranks}
    node = nodes.pop() if len(nodes) == 1 else None
    return Who(ranks[0], roster.node_of_rank.get(ranks[0])) if len(ranks) == 1 else Who(None, node)


def _behind_by_steps(facts: Facts) -> tuple[int, ...]:
    steps = {end.rank: end.step for agent in facts.agents for end in agent.ranks if end.step >= 0}
    if len(steps) < 2 or min(steps.values()) == max(steps.values()):
        return ()
    late = tuple(sorted(rank for rank, step in steps.items() if step == min(steps.values())))
    return late if len(late) <= len(steps) // 2 else ()


def silent_supervisor(events: Sequence[Event], somebody_ended: bool) -> list[Suspect]:
    """Its ranks were told to end by a signal, and who always says why such an end came has said nothing any more."""
    told = [event for event in events if told_to_end(event)]
    if not told or not somebody_ended or any(says_of_the_end(event) for event in events):
        return []
    if any(_by_slurm(event) for event in events):
        return []
    quotes = tuple(Quote(event.place, event.text, Who(), event.time_s) for event in told)
    times = [event.time_s for event in told if event.time_s is not None]
    return [
        Suspect(
            tier=Tier.TOLD,
            cause=Cause.SUPERVISOR_DIED,
            title="the ranks were told to end, and the supervisor left no word of why",
            who=Who(),
            time_s=min(times, default=None),
            quotes=quotes,
            nameless=True,
            certain=False,
        )
    ]


def _by_slurm(event: Event) -> bool:
    return event.known is not None and event.known.writer == "slurm" and event.known.role is Role.ROOT
