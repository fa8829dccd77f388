"""Who is who: ranks, tasks, processes and nodes, from whatever names two of them together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_resilience.launch.host_list import expand
from slurm_resilience.triage.account.account import Who
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.event import Event, Speaker
from slurm_resilience.triage.known.entry import KnownFailure
from slurm_resilience.triage.reading.log_report import RankFailure

_NO_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
"""What some hosts call themselves: it tells none from another."""
_NODE_AGENT = "srun-resilient[n"
"""Beside a single task there is a relay instead, which calls itself by the task."""
_AGENTS_WORD = 1_000_000
"""An agent knows its node by Slurm's name; a table of torchrun has the host's, which may be another."""


@dataclass(frozen=True, slots=True)
class Roster:
    node_of_rank: Mapping[int, str]
    node_of_task: Mapping[int, str]
    rank_of_pid: Mapping[tuple[str | None, int], int]
    rank_of_local: Mapping[tuple[str, int], int]
    ranks: frozenset[int]
    nodes: tuple[str, ...]
    task_is_rank: bool

    @classmethod
    def of(cls, events: Sequence[Event], facts: Facts, failures: Sequence[RankFailure] = ()) -> Roster:
        names = _Names(facts.nodes)
        ranks: dict[int, Counter[str]] = {}
        tasks: dict[int, Counter[str]] = {}
        pids: dict[tuple[str | None, int], int] = {}
        locals_: dict[tuple[str, int], int] = {}
        seen: set[int] = set()
        for agent in facts.agents:
            for end in agent.ranks:
                ranks.setdefault(end.rank, Counter())[agent.host] += _AGENTS_WORD
                pids[agent.host, end.pid] = end.rank
                locals_[agent.host, end.local_rank] = end.rank
                seen.add(end.rank)
            for local in range(facts.ranks_per_node or 0):
                rank = agent.node_id * (facts.ranks_per_node or 0) + local
                ranks.setdefault(rank, Counter())[agent.host] += _AGENTS_WORD
                locals_.setdefault((agent.host, local), rank)
                seen.add(rank)
        for note in facts.exit_notes:
            tasks.setdefault(note.rank, Counter())[note.node] += _AGENTS_WORD
            if facts.task_is_rank:
                ranks.setdefault(note.rank, Counter())[note.node] += _AGENTS_WORD
                seen.add(note.rank)
        for speaker in _speakers(events, failures):
            node = names.own(speaker.node)
            if node is not None and speaker.rank is not None:
                ranks.setdefault(speaker.rank, Counter())[node] += 1
            if node is not None and speaker.task is not None:
                tasks.setdefault(speaker.task, Counter())[node] += 1
            if speaker.rank is not None:
                seen.add(speaker.rank)
                if speaker.pid is not None:
                    pids.setdefault((node, speaker.pid), speaker.rank)
                    pids.setdefault((None, speaker.pid), speaker.rank)
                if node is not None and speaker.local_rank is not None:
                    locals_.setdefault((node, speaker.local_rank), speaker.rank)
        task_is_rank = facts.task_is_rank or _no_launcher(events, facts)
        seen |= {log.rank for log in facts.logs if log.rank is not None} | set(range(facts.world_size or 0))
        if task_is_rank:
            seen |= set(tasks) | {speaker.task for speaker in _speakers(events, failures) if speaker.task is not None}
        known_nodes = _nodes(facts, ranks.values(), tasks.values())
        return cls(
            {rank: _most(votes) for rank, votes in ranks.items()},
            {task: _most(votes) for task, votes in tasks.items()},
            pids,
            locals_,
            frozenset(seen),
            known_nodes,
            task_is_rank,
        )

    def who(self, speaker: Speaker) -> Who:
        """Everything that follows from what the speaker is known by."""
        names = _Names(self.nodes)
        node, rank, task = names.short(speaker.node), speaker.rank, speaker.task
        if rank is None and speaker.local_rank is not None and node is not None:
            rank = self.rank_of_local.get((node, speaker.local_rank))
        if rank is None and speaker.pid is not None:
            rank = self.rank_of_pid.get((node, speaker.pid), self.rank_of_pid.get((None, speaker.pid)))
        if rank is None and task is not None and self.task_is_rank:
            rank = task
        if rank is not None and rank in self.node_of_rank:
            node = self.node_of_rank[rank]  # by the agents' word, where there is one
        if node is None and task is not None:
            node = self.node_of_task.get(task)
        return Who(rank, node, task, speaker.local_rank if rank is None else None)

    def about(self, event: Event) -> Who:
        """Whom the line is about: whom it names, or else who wrote it."""
        named = event.about
        if named == Speaker():
            return self.who(event.speaker)
        if named.rank is None and named.node is None and named.task is None:
            named = replace(named, node=event.speaker.node)
        return self.who(named)


def completed(event: Event) -> Event:
    """With whom a line of srun's is about: `error: n2: task 1: …` names them in lists, of one mostly."""
    groups = dict(event.groups)
    if "nodes" not in groups and "tasks" not in groups:
        return event
    nodes, tasks = expand(groups.get("nodes", "")), numbers(groups.get("tasks", ""))
    about = event.about
    if about.node is None and len(nodes) == 1:
        about = replace(about, node=nodes[0])
    if about.task is None and len(tasks) == 1:
        about = replace(about, task=tasks[0])
    return replace(event, about=about)


def numbers(text: str) -> tuple[int, ...]:
    """Of `0-2,5` or `[0-2,5]`; none where it can't be read."""
    from ClusterShell.RangeSet import RangeSet, RangeSetException

    try:
        return tuple(int(number) for number in RangeSet(text.strip("[]")))
    except (RangeSetException, ValueError):
        return ()


@dataclass(frozen=True, slots=True)
class _Names:
    """Slurm's names of the nodes, where they are known; a host's name may have a domain behind it."""

    nodes: Sequence[str]

    def own(self, name: str | None) -> str | None:
        """None where the name is none of theirs: the host's own, on a node that Slurm calls something else."""
        short = self.short(name)
        return short if short is not None and (not self.nodes or short in self.nodes) else None

    def short(self, name: str | None) -> str | None:
        if name is None or name in _NO_NAMES:
            return None
        if name in self.nodes:
            return name
        head = name.partition(".")[0]
        digits = head.replace("-", "").isdigit()  # an address is no name with a domain
        return name if digits or (self.nodes and head not in self.nodes) else head


def _no_launcher(events: Iterable[Event], facts: Facts) -> bool:
    """Whether nothing speaks for torchrun or a node agent: a task is a rank then, as far as anybody can tell."""
    if facts.agents or facts.attempt_by_torchrun:
        return False
    return not any(event.known is not None and _by_a_launcher(event, event.known) for event in events)


def _by_a_launcher(event: Event, known: KnownFailure) -> bool:
    return known.writer == "elastic" or event.text.startswith(_NODE_AGENT)


def _speakers(events: Iterable[Event], failures: Iterable[RankFailure]) -> Iterable[Speaker]:
    for event in events:
        yield event.speaker
        yield event.about
        if event.about.node is not None and event.about.task is None:  # `error: n1: tasks 0-3: …`
            groups = dict(event.groups)
            yield from (Speaker(event.about.node, task=task) for task in numbers(groups.get("tasks", "")))
    yield from map(speaker_of, failures)


def speaker_of(failure: RankFailure) -> Speaker:
    """A table is about the node of who wrote it; the log knows its name better than the host may."""
    return Speaker(failure.speaker.node or failure.host, failure.rank, failure.local_rank, pid=failure.pid)


def _most(votes: Counter[str]) -> str:
    return min(votes, key=lambda name: (-votes[name], name))


def _nodes(facts: Facts, *votes: Iterable[Counter[str]]) -> tuple[str, ...]:
    if facts.nodes:
        return facts.nodes
    agents = [agent.host for agent in facts.agents] + list(facts.unheard)
    told = sorted({name for counters in votes for counter in counters for name in counter})
    return tuple(dict.fromkeys([*agents, *(() if agents else told)]))
