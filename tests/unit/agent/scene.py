"""Rules, moments and rank pages for tables."""

from __future__ import annotations

from slurm_resilience.agent.notice import Event, Moment
from slurm_resilience.agent.supervision import Action, Forwarding, Rules, State, observe
from slurm_resilience.launch.plan import StopTimes
from slurm_resilience.signals.runtime_folder import RankPage, RankPhase

TIMES = StopTimes(after_termination_s=20, after_warning_s=100, leave_s=5, peer_failed_s=8)
WALL_S = 1_000_000.0


def rules(
    *,
    ranks: int = 2,
    forwarding: Forwarding = Forwarding.NOT,
    forward_signal: str | None = None,
    end_in_s: float | None = None,
    stop_before_end_s: float = 60,
) -> Rules:
    """`end_in_s` counts from `at(0)`."""
    end_s = None if end_in_s is None else WALL_S + end_in_s
    return Rules(TIMES, ranks, forwarding, forward_signal, end_s, stop_before_end_s)


def at(seconds: float) -> Moment:
    return Moment(monotonic_s=seconds, wall_s=WALL_S + seconds)


def page(rank: int, phase: RankPhase, *, step: int = 7, saved: int = -1, stopped: int = -1) -> RankPage:
    return RankPage(phase, rank, rank, 4000 + rank, step, stopped, saved, 0.0)


def pages(*phases: RankPhase, saved: int = -1) -> tuple[RankPage, ...]:
    return tuple(page(rank, phase, saved=saved) for rank, phase in enumerate(phases))


def play(rules: Rules, *story: tuple[float, Event]) -> tuple[State, list[tuple[float, Action]]]:
    """What has become of a fresh agent after these events, and what it did when."""
    state, done = State(), list[tuple[float, Action]]()
    for seconds, event in story:
        state, actions = observe(rules, state, event, at(seconds))
        done += [(seconds, action) for action in actions]
    return state, done
