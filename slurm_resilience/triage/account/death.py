"""How processes ended, whoever tells of it: torchrun's tables, srun, exit notes, agents. Pure.

An end says who and how, seldom why: code 1 is any exception, SIGTERM is somebody's order, SIGKILL can be the kernel's,
Slurm's or a person's.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slurm_resilience.errors import EXIT_WILL_GO_ON
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome
from slurm_resilience.triage.account.account import Quote, Who
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.account.our_word import killed_tasks, told_tasks
from slurm_resilience.triage.account.roster import Roster, numbers, speaker_of
from slurm_resilience.triage.event import Event, Speaker
from slurm_resilience.triage.exit_notes import ExitNote, signal_name
from slurm_resilience.triage.reading.log_report import RankFailure

_WORDS = {
    "killed": "SIGKILL",
    "terminated": "SIGTERM",
    "aborted": "SIGABRT",
    "segmentation fault": "SIGSEGV",
    "bus error": "SIGBUS",
    "illegal instruction": "SIGILL",
    "floating point exception": "SIGFPE",
    "interrupt": "SIGINT",
    "hangup": "SIGHUP",
    "broken pipe": "SIGPIPE",
}
"""srun's words for signals, as strsignal(3) has them, in lower case."""


TORCHRUNS_LINE = "elastic.failed"
_STUCK = "elastic.stuck-worker"
_TORCHRUNS_ORDERS = {"elastic.closing": None, _STUCK: "SIGKILL"}
"""By which line torchrun says that it sends a signal; which one, where the line doesn't say so."""


class Manner(enum.Enum):
    FAULT = "fault"  # a signal that a program earns by itself
    KILLED = "killed"  # SIGKILL: somebody else's doing, and nobody says whose
    ABORTED = "aborted"  # by its own library, which has said why, or has lost a peer
    LEFT = "left"  # with a code that isn't 0
    TOLD = "told"  # ended by a signal that asks: it is a consequence, or the answer to a stop


_OF_SIGNAL = {
    "SIGSEGV": Manner.FAULT,
    "SIGBUS": Manner.FAULT,
    "SIGILL": Manner.FAULT,
    "SIGFPE": Manner.FAULT,
    "SIGKILL": Manner.KILLED,
    "SIGABRT": Manner.ABORTED,
}


@dataclass(frozen=True, slots=True)
class Death:
    who: Who
    signal: str | None
    code: int | None
    time_s: float | None
    said_by: str
    quote: Quote | None
    pid: int | None = None
    first: bool = True
    """Of those that its node's agent tells of."""
    ordered: bool = False
    """Its launcher has sent it that signal, after another's end."""
    forced: bool = False
    """It had not ended when it was asked to: it hung, or was busy."""

    @property
    def manner(self) -> Manner:
        if self.ordered:
            return Manner.TOLD
        if self.signal is not None:
            return _OF_SIGNAL.get(self.signal, Manner.TOLD)
        return Manner.LEFT

    @property
    def how(self) -> str:
        if self.signal is not None:
            return f"was {'killed' if self.manner is Manner.KILLED else 'ended'} by {self.signal}"
        return "left with an error" if self.code is None else f"left with {self.code}"


def ended_by(code: int | None) -> str | None:
    """The signal behind a code: of wait(2), where it is negative, or of a shell, where it is above 128."""
    if code is None:
        return None
    if code < 0:
        return signal_name(-code)
    return signal_name(code - 128) if 128 < code < 160 else None


def deaths(events: Sequence[Event], failures: Sequence[RankFailure], facts: Facts, roster: Roster) -> tuple[Death, ...]:
    """Each once for whoever tells of it; those that left in order are none."""
    told = [
        *(_of_failure(failure, roster) for failure in failures),
        *_of_lines(events, roster),
        *(_of_note(note, facts, roster) for note in facts.exit_notes if note.code not in (0, EXIT_WILL_GO_ON)),
        *_of_agents(facts.agents),
    ]
    orders = _orders(events)
    stopped_s = {
        agent.host: agent.stop_asked_s if agent.stop_asked_s is not None else 0.0
        for agent in facts.agents
        if agent.stop_reason is not None
    }
    placed = [_placed(one, told, roster) for one in told]
    by_agents = told_tasks(events), killed_tasks(events)
    return tuple(_as_ordered(one, orders, stopped_s, by_agents) for one in placed)


def _as_ordered(
    one: Death,
    orders: Mapping[tuple[int | None, str | None], bool],
    stopped_s: Mapping[str, float],
    by_agents: tuple[frozenset[int], frozenset[int]],
) -> Death:
    told, killed = by_agents
    forced = one.signal == "SIGKILL" and (orders.get((one.pid, one.signal), False) or one.who.task in killed)
    after_a_stop = one.signal in ("SIGKILL", "SIGTERM") and one.who.task in told
    if forced or after_a_stop or _ordered(one, orders, stopped_s):
        return replace(one, ordered=True, forced=forced)
    return one


def _ordered(one: Death, orders: Collection[tuple[int | None, str | None]], stopped_s: Mapping[str, float]) -> bool:
    """By torchrun after another's end, or by a node agent that had asked for a stop."""
    if one.pid is not None and (one.pid, one.signal) in orders:
        return True
    since_s = stopped_s.get(one.who.node or "")
    return since_s is not None and (one.who.rank is None if one.time_s is None else one.time_s >= since_s)


def _placed(one: Death, told: Iterable[Death], roster: Roster) -> Death:
    """torchrun's own line names no node: where one node's command alone ended in that way, it was there."""
    if one.who.node is not None or one.who.rank is not None or one.who.local_rank is None:
        return one
    nodes = {
        other.who.node
        for other in told
        if other.who.node is not None and other.who.rank is None and _same_way(one, other)
    }
    if len(nodes) != 1:
        return one
    who = roster.who(Speaker(nodes.pop(), local_rank=one.who.local_rank))
    return replace(one, who=who, quote=None if one.quote is None else replace(one.quote, who=who))


def _same_way(one: Death, other: Death) -> bool:
    return (one.signal, one.code if one.signal is None else None) == (
        other.signal,
        other.code if other.signal is None else None,
    )


def _orders(events: Iterable[Event]) -> dict[tuple[int | None, str | None], bool]:
    """To which processes torchrun has sent which signals, by its own words; whether because they had not ended."""
    orders: dict[tuple[int | None, str | None], bool] = {}
    for event in events:
        if event.known is not None and event.known.name in _TORCHRUNS_ORDERS and event.about.pid is not None:
            key = event.about.pid, dict(event.groups).get("signal", _TORCHRUNS_ORDERS[event.known.name])
            orders[key] = orders.get(key, False) or event.known.name == _STUCK
    return orders


def _of_failure(failure: RankFailure, roster: Roster) -> Death:
    who = roster.who(speaker_of(failure))
    how = f"exitcode {failure.exitcode}" + (f" ({failure.signal})" if failure.signal is not None else "")
    quote = Quote(failure.place, f"torchrun's table: rank {failure.rank}, {how}", who, failure.time_s)
    signal = failure.signal or ended_by(failure.exitcode)
    code = failure.exitcode if signal is None else None
    return Death(who, signal, code, failure.time_s, "torchrun's table", quote, failure.pid, failure.root)


def _of_lines(events: Iterable[Event], roster: Roster) -> Iterator[Death]:
    """What srun and torchrun's agents say of processes, each in a line of its own."""
    for event in events:
        groups = dict(event.groups)
        if event.known is None or not {"signal", "code"} & set(groups):
            continue
        text = groups.get("code", "")
        code = int(text) if text.lstrip("-").isdigit() else None
        if event.known.name == TORCHRUNS_LINE:
            who = roster.about(event)
            quote = Quote(event.place, event.text, who, event.time_s)
            yield Death(who, ended_by(code), code, event.time_s, "torchrun", quote, event.about.pid)
        tasks = numbers(groups["tasks"]) if "tasks" in groups else ()  # none: it is of a whole step, nobody's death
        if event.known.writer != "slurm":
            continue
        signal = _WORDS.get(groups.get("signal", "").lower(), ended_by(code))
        for task in tasks:
            who = roster.who(Speaker(event.about.node, task=task))
            quote = Quote(event.place, event.text, who, event.time_s)
            yield Death(who, signal, code, event.time_s, "srun", quote)


def _of_note(note: ExitNote, facts: Facts, roster: Roster) -> Death:
    rank = note.rank if facts.task_is_rank else None
    who = roster.who(Speaker(note.node, rank, task=note.rank))
    return Death(who, note.last_signal, note.code, note.time_s, "its exit note", None, note.pid)


def _of_agents(agents: Iterable[AgentRecord]) -> Iterator[Death]:
    """Of a rank where the agent knows one; of the node's command otherwise."""
    for agent in agents:
        if agent.outcome is not Outcome.FAILED:
            continue
        failed = [rank for rank in agent.ranks if rank.phase == "FAILED"]
        code = agent.command_code
        if failed:
            for rank in failed:
                yield Death(Who(rank.rank, agent.host), None, None, agent.ended_s, "its node agent", None, rank.pid)
        else:
            signal = ended_by(code)
            yield Death(Who(None, agent.host), signal, code, agent.ended_s, "its node agent", None)
