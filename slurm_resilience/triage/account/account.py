"""What became of a job, told once: for people and for programs. Pure values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.event import Place
from slurm_resilience.triage.known.entry import Retry

FORMAT = 1


class Sure(enum.Enum):
    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "a guess"


@dataclass(frozen=True, slots=True)
class Who:
    """Whom something is about, as far as anybody knows."""

    rank: int | None = None
    node: str | None = None
    task: int | None = None
    local_rank: int | None = None
    """Of its node: only where no more is known."""
    all_ranks: bool = False
    """Every rank that left a word said the same at the same time: it is no single rank's."""

    def __str__(self) -> str:
        if self.all_ranks:
            return "all ranks"
        named = [f"rank {self.rank}"] if self.rank is not None else []
        if not named and self.task is not None:
            named = [f"task {self.task}"]
        if not named and self.local_rank is not None:
            named = [f"local rank {self.local_rank}"]
        if self.node is not None:
            named.append(f"on node {self.node}" if named else f"node {self.node}")
        return " ".join(named)


@dataclass(frozen=True, slots=True)
class Quote:
    place: Place
    text: str
    who: Who
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Follow:
    """What came after, folded: the same sort of line, however many wrote it."""

    title: str
    count: int
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    example: Quote


@dataclass(frozen=True, slots=True)
class Other:
    """What could also have been the cause, and why it isn't taken for it."""

    title: str
    cause: Cause
    who: Who
    why_not: str
    quote: Quote | None


@dataclass(frozen=True, slots=True)
class Advice:
    do: str
    retry: Retry
    command: str | None = None
    setting: str | None = None
    avoid: tuple[str, ...] = ()
    """Nodes to leave out."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the run's journal, or Slurm's record, says of the end: the same code that decides about a requeue."""

    cause: Cause
    because: str
    by: str
    """`the run's journal`"""
    firm: bool = True
    """False: it was made from what is there now, and nobody wrote down that it is the end."""
    explains: bool = True
    """False: it says that something ended, not why."""
    implied: bool = False
    """True: it fits the cause, and another could look the same."""
    decision: str | None = None
    decision_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Account:
    about: str
    """`attempt 3 of run /scratch/run`, `job 12`, `4 log files`."""
    cause: Cause | None
    """None: nothing names one."""
    title: str
    sentence: str
    """One sentence, without its full stop."""
    first: Who
    first_s: float | None
    sure: Sure
    sure_because: str
    quotes: tuple[Quote, ...] = ()
    follows: tuple[Follow, ...] = ()
    others: tuple[Other, ...] = ()
    silent_nodes: tuple[str, ...] = ()
    advice: Advice | None = None
    verdict: Verdict | None = None
    differs: str | None = None
    """Where the logs say something else than the verdict: both, in one sentence."""
    notes: tuple[str, ...] = ()
    """What else is worth knowing: preflight's words about the node, the release in which a wording is known."""
    unread: tuple[Unread, ...] = ()

    @property
    def named(self) -> bool:
        return self.cause is not None and self.cause is not Cause.UNKNOWN
