"""What the agent does about what it sees: events and the time go in, a new state and actions come out.

Nothing in here waits, writes or kills. Laws (tests/unit/agent/test_supervision.py): a deadline only comes nearer; a
signal is handed on at most once; nothing is killed before its time; what has ended is left alone.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

from slurm_resilience.agent.notice import (
    CommandEnded,
    EndMoved,
    Event,
    Moment,
    NewerAttempt,
    Ordered,
    RankLost,
    RanksSeen,
    Signalled,
    StopFileTouched,
    Tick,
)
from slurm_resilience.launch.end_of_time import EndOfTime
from slurm_resilience.launch.plan import StopTimes
from slurm_resilience.signals.runtime_folder import RankPage, RankPhase
from slurm_resilience.signals.stop_request import StopReason, StopRequest, merge

FORWARD_PAUSE_S = 0.3
"""Between a signal and handing it on: time to see whether Slurm sent it to the whole tree itself."""
WRITERS_S = 300.0
"""How long writers may go on after their ranks where nobody has set a deadline: a part's writing, and a slow node's."""
WRITERS_LEAST_S = 1.5
"""What they get behind a deadline: the kill by Slurm comes a little later, and cut off is no worse than not tried."""
RANK_LOST_S = 20.0
"""How long torchrun has to end the node after one of its ranks died."""

_REASON = {
    "SIGTERM": StopReason.TERMINATION,
    "SIGHUP": StopReason.TERMINATION,  # the terminal or the session behind it is gone: the kill is on its way
    "SIGUSR1": StopReason.WARNING,
    "SIGUSR2": StopReason.WARNING,
    "SIGINT": StopReason.OPERATOR,
}
_DONE = frozenset({RankPhase.STOPPED, RankPhase.FINISHED})


class Forwarding(enum.Enum):
    """How processes that don't use our library hear of a stop request."""

    NOT = "not"
    CHOSEN = "chosen"  # the plan's signal, once, whatever the reason
    AS_IT_CAME = "as it came"  # every signal that came, each once, as Slurm would have; SIGTERM where none came


@dataclass(frozen=True, slots=True)
class Rules:
    """What the plan says, in numbers."""

    times: StopTimes
    ranks: int | None
    """How many ranks this agent has, if they use our library; None: only they can say, once they run."""
    forwarding: Forwarding
    forward_signal: str | None
    end_s: float | None
    """Seconds since the epoch, as known at the start; `State.end` outranks it."""
    stop_before_end_s: float
    over_time_limit_s: float = 0.0
    """How much later than the end of the time Slurm ends the job."""


class Kill(enum.Enum):
    DEADLINE = "deadline"
    LEAVING = "leaving"  # every rank had said that it is done, and what was left of the tree had its time
    HUNG = "hung"  # a rank died and torchrun didn't notice


@dataclass(frozen=True, slots=True)
class State:
    stop: StopRequest | None = None
    forwards_due: tuple[tuple[str, float], ...] = ()
    """Signals to hand on, and when."""
    forwarded: frozenset[str] = frozenset()
    pages: tuple[RankPage, ...] = ()
    done_since_s: float | None = None
    lost_since_s: float | None = None
    lost: str | None = None
    kill: Kill | None = None
    code: int | None = None
    end: EndOfTime | None = None
    """The end of the job's time if it has moved since the start."""
    newer: int | None = None
    """A newer attempt of the run that has begun; None: none that we know of."""
    kill_at_s: float | None = None
    """When Slurm kills us, on the monotonic clock, as counted from its first SIGTERM; None: none has come."""


@dataclass(frozen=True, slots=True)
class ShowStop:
    """Write the request to the stop page; `fresh` where it is the first."""

    request: StopRequest
    fresh: bool


@dataclass(frozen=True, slots=True)
class Forward:
    signal: str


@dataclass(frozen=True, slots=True)
class KillTree:
    kill: Kill
    because: str


Action = ShowStop | Forward | KillTree


def all_done(pages: tuple[RankPage, ...], ranks: int | None) -> bool:
    """Whether every rank of this agent said that it stopped or finished: not while their number is unknown."""
    return ranks is not None and len(pages) >= ranks and all(page.phase in _DONE for page in pages)


def observe(rules: Rules, state: State, event: Event, now: Moment) -> tuple[State, tuple[Action, ...]]:
    """One event, then whatever the time has brought."""
    actions: list[Action] = []
    if state.code is not None:  # the command has ended: there is nobody to ask, tell or kill
        return state, ()
    state, asked = _take(rules, state, event, now)
    if state.code is not None or state.kill is not None:
        return state, ()
    if asked is None:
        asked = _end_of_time(rules, state, event, now)
    if asked is not None:
        state = _ask(rules, state, asked, event, now, actions)
    state = _forward_what_is_due(state, now, actions)
    state = _kill_what_is_due(rules, state, now, actions)
    return state, tuple(actions)


def next_look_s(rules: Rules, state: State, now: Moment) -> float:
    """Seconds until `observe` must be called again even if nothing happens: short once something is going on."""
    busy = state.stop is not None or state.done_since_s is not None or state.lost_since_s is not None
    wait_s = 0.1 if busy else 1.0
    for due_s in (due_s for _, due_s in state.forwards_due):
        wait_s = min(wait_s, due_s - now.monotonic_s)
    if state.stop is not None:
        wait_s = min(wait_s, state.stop.deadline_s - now.monotonic_s)
    elif (end := known_end(rules, state)) is not None:
        wait_s = min(wait_s, end.end_s - end.stop_before_end_s - now.wall_s)
    return max(wait_s, 0.0)


def known_end(rules: Rules, state: State) -> EndOfTime | None:
    """The end of the job's time as it is now; None: none is known."""
    if state.end is not None or rules.end_s is None:
        return state.end
    return EndOfTime(rules.end_s, rules.stop_before_end_s)


def writers_time_s(rules: Rules, state: State, now: Moment) -> float:
    """How long processes that write a checkpoint may outlive their ranks."""
    if state.stop is not None and state.stop.reason is not StopReason.PEER_FAILED:
        left_s = state.stop.deadline_s - now.monotonic_s
    else:  # that the ranks have nobody to go on with says nothing about what is in their writers' hands
        end_s = _end_on_our_clock(rules, state, now)
        left_s = (end_s if state.kill_at_s is None else min(end_s, state.kill_at_s)) - now.monotonic_s
    return max(min(left_s, WRITERS_S), WRITERS_LEAST_S)


def _take(rules: Rules, state: State, event: Event, now: Moment) -> tuple[State, StopRequest | None]:
    match event:
        case Signalled(name):
            reason = _REASON.get(name)
            return state, _request(rules, state, reason, f"{name} came", None, now) if reason is not None else None
        case Ordered(reason, because, seconds):
            return state, _request(rules, state, reason, because, seconds, now)
        case StopFileTouched():
            because = "the run's stop file was touched"
            return state, _request(rules, state, StopReason.OPERATOR, because, None, now)
        case EndMoved(end):
            return replace(state, end=end), None
        case NewerAttempt(number):
            because = f"attempt {number} of the run has begun, this one is a ghost"
            return replace(state, newer=number), _request(rules, state, StopReason.FENCED, because, None, now)
        case RanksSeen(pages):
            if not all_done(pages, rules.ranks):
                return replace(state, pages=pages, done_since_s=None), None
            since_s = now.monotonic_s if state.done_since_s is None else state.done_since_s
            return replace(state, pages=pages, done_since_s=since_s), None
        case RankLost(who):
            if who is None:
                return replace(state, lost=None, lost_since_s=None), None
            since_s = now.monotonic_s if state.lost_since_s is None else state.lost_since_s
            return replace(state, lost=who, lost_since_s=since_s), None
        case CommandEnded(code, pages):
            return replace(state, code=code, pages=pages, forwards_due=()), None
        case Tick():
            return state, None


def _seconds_for(rules: Rules, reason: StopReason, given_s: float | None) -> float:
    if given_s is not None:
        return max(given_s, 0.0)
    match reason:
        case StopReason.TERMINATION:
            return rules.times.after_termination_s
        case StopReason.PEER_FAILED | StopReason.FENCED:  # nobody to go on with, or nothing that may be written
            return rules.times.peer_failed_s
        case StopReason.WARNING | StopReason.OPERATOR | StopReason.TIME_LIMIT:
            return rules.times.after_warning_s


def _request(
    rules: Rules, state: State, reason: StopReason, because: str, seconds: float | None, now: Moment
) -> StopRequest:
    deadline_s = now.monotonic_s + _seconds_for(rules, reason, seconds)
    if reason is not StopReason.TERMINATION:  # after SIGTERM the kill is already counted from the signal
        deadline_s = min(deadline_s, _end_on_our_clock(rules, state, now))
    return StopRequest(reason, because, now.monotonic_s, deadline_s)


def _end_on_our_clock(rules: Rules, state: State, now: Moment) -> float:
    """When the job's time is over. Slurm sends SIGTERM then, not before, and that one is worth KillWait seconds."""
    end = known_end(rules, state)
    if end is None:
        return math.inf
    left_s = end.end_s + rules.over_time_limit_s - now.wall_s
    return now.monotonic_s + max(left_s, rules.times.after_termination_s)


def _end_of_time(rules: Rules, state: State, event: Event, now: Moment) -> StopRequest | None:
    end = known_end(rules, state)
    if end is None or (state.stop is not None and not isinstance(event, EndMoved)):
        return None
    left_s = end.end_s - now.wall_s
    if state.stop is None and left_s > end.stop_before_end_s:
        return None
    because = f"the job's time is over in {left_s:.0f} s" if left_s > 0 else "the job's time is over"
    # Who is stopping already may have to be quicker: an earlier end brings the deadline nearer.
    return StopRequest(StopReason.TIME_LIMIT, because, now.monotonic_s, _end_on_our_clock(rules, state, now))


def _ask(rules: Rules, state: State, asked: StopRequest, event: Event, now: Moment, actions: list[Action]) -> State:
    merged = merge(state.stop, asked)
    termed = event == Signalled("SIGTERM")
    if state.stop is not None and termed and _ends_the_time(rules, state, now):
        # Slurm looks at limits twice a minute: its kill is that much later than the end that we had counted from.
        merged = replace(state.stop, deadline_s=max(state.stop.deadline_s, asked.deadline_s))
    if merged != state.stop:
        actions.append(ShowStop(merged, fresh=state.stop is None))
    signal = _signal_to_forward(rules, state, event)
    if signal is not None:
        due_s = now.monotonic_s + FORWARD_PAUSE_S
        state = replace(state, forwards_due=(*state.forwards_due, (signal, due_s)))
    if termed and state.kill_at_s is None:
        state = replace(state, kill_at_s=now.monotonic_s + rules.times.after_termination_s)
    return replace(state, stop=merged)


def _ends_the_time(rules: Rules, state: State, now: Moment) -> bool:
    """Whether a SIGTERM of this moment is the one that Slurm sends when the job's time is over."""
    end = known_end(rules, state)
    by_the_clock = state.stop is not None and state.stop.reason is StopReason.TIME_LIMIT
    return by_the_clock and state.kill_at_s is None and end is not None and now.wall_s >= end.end_s


def _signal_to_forward(rules: Rules, state: State, event: Event) -> str | None:
    known = state.forwarded | {signal for signal, _ in state.forwards_due}
    match rules.forwarding:
        case Forwarding.NOT:
            return None
        case Forwarding.CHOSEN:
            return rules.forward_signal if not known else None
        case Forwarding.AS_IT_CAME:
            if isinstance(event, Signalled):
                return event.name if event.name not in known else None
            return "SIGTERM" if not known else None


def _forward_what_is_due(state: State, now: Moment, actions: list[Action]) -> State:
    due = [signal for signal, due_s in state.forwards_due if due_s <= now.monotonic_s]
    if not due:
        return state
    actions.extend(Forward(signal) for signal in due)
    later = tuple(item for item in state.forwards_due if item[1] > now.monotonic_s)
    return replace(state, forwards_due=later, forwarded=state.forwarded | set(due))


def _kill_what_is_due(rules: Rules, state: State, now: Moment, actions: list[Action]) -> State:
    kill = _kill(rules, state, now)
    if kill is None:
        return state
    actions.append(kill)
    return replace(state, kill=kill.kill, forwards_due=())


def _kill(rules: Rules, state: State, now: Moment) -> KillTree | None:
    if state.done_since_s is not None and _leaves(state):
        waited_s = now.monotonic_s - state.done_since_s
        if waited_s >= rules.times.leave_s:
            return KillTree(Kill.LEAVING, f"every rank was done and {waited_s:.0f} s later its processes still ran")
    if state.stop is not None and now.monotonic_s >= state.stop.deadline_s:
        return KillTree(Kill.DEADLINE, f"it was asked to stop ({state.stop.because}) and its time to do so was over")
    if state.lost_since_s is not None and now.monotonic_s - state.lost_since_s >= RANK_LOST_S:
        return KillTree(Kill.HUNG, f"{state.lost} and torchrun did not end the node's other ranks")
    return None


def _leaves(state: State) -> bool:
    """All ranks done: are they to leave? Not where the training finished unasked: the script may go on after it."""
    return state.stop is not None or any(page.phase is RankPhase.STOPPED for page in state.pages)
