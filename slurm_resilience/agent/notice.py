"""What can happen to an agent."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.launch.end_of_time import EndOfTime
from slurm_resilience.signals.runtime_folder import RankPage
from slurm_resilience.signals.stop_request import StopReason


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment on both clocks."""

    monotonic_s: float
    wall_s: float
    """The controller's, as the agent reckons it from the monotonic clock: nobody can set this one."""


@dataclass(frozen=True, slots=True)
class Signalled:
    name: str
    """SIGTERM, say."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """The supervisor's word."""

    reason: StopReason
    because: str
    seconds: float | None
    """How long the ranks have from now; None: what the plan says for the reason."""


@dataclass(frozen=True, slots=True)
class StopFileTouched:
    pass


@dataclass(frozen=True, slots=True)
class EndMoved:
    """The job's time ends earlier or later than was known."""

    end: EndOfTime


@dataclass(frozen=True, slots=True)
class NewerAttempt:
    """A newer attempt of the run has begun: this one is a ghost."""

    number: int


@dataclass(frozen=True, slots=True)
class RanksSeen:
    pages: tuple[RankPage, ...]


@dataclass(frozen=True, slots=True)
class RankLost:
    """A rank is dead and the launcher didn't act on it, with who; None: none is."""

    who: str | None


@dataclass(frozen=True, slots=True)
class CommandEnded:
    code: int
    """As the shell would say it."""
    pages: tuple[RankPage, ...]
    """The ranks' last words."""


@dataclass(frozen=True, slots=True)
class Tick:
    pass


Event = Signalled | Ordered | StopFileTouched | EndMoved | NewerAttempt | RanksSeen | RankLost | CommandEnded | Tick

Seen = Ordered | StopFileTouched | EndMoved | NewerAttempt
"""What lies in files of the run directory."""
