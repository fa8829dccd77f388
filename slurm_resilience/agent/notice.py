"""What can happen to an agent."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.signals.runtime_folder import RankPage
from slurm_resilience.signals.stop_request import StopReason


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment on both clocks."""

    monotonic_s: float
    wall_s: float


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


Event = Signalled | Ordered | StopFileTouched | RanksSeen | RankLost | CommandEnded | Tick
